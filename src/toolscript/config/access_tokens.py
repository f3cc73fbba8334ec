"""Creates, stores and checks the access tokens that callers send to the gateway.

Only the SHA-256 of a token is stored. A salted, slow hash is not needed: a token is 256 random
bits, which cannot be guessed.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from toolscript.config.permission_rules import RuleError, rules_of
from toolscript.errors import (
    DatabaseUnavailableError,
    DataDirectoryError,
    InputError,
    TokenFileError,
    UnknownNameError,
)
from toolscript.storage.atomic_files import check_owner
from toolscript.storage.base import LostRecordError, Records
from toolscript.storage.file_records import FileRecords
from toolscript.types import EVERYTHING, SEPARATOR, Grant, as_id

PREFIX = "ts_"
VERSION = 1
CODE_MEMORY_S = 600
"""Seconds for which a code that was exchanged is remembered; it is valid for less."""
_NAME = "tokens"
"""The name of the record that has them."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A stored token: its hash, and its grant."""

    id: str
    hash: str
    grant: Grant
    name: str = ""
    created: str = ""
    expires: str = ""
    """ISO 8601, UTC; empty if the token does not expire."""

    def is_valid(self, now: datetime) -> bool:
        """Whether the token has not expired."""
        return not self.expires or now < datetime.fromisoformat(self.expires)


class _UsedCode(msgspec.Struct, frozen=True):
    """An authorization code that was exchanged."""

    id: str
    token: str
    """The id of the token that it gave."""
    until: int
    """Until then it is remembered, in seconds since 1970."""


class _TokenFile(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int
    tokens: tuple[Token, ...]
    codes: tuple[_UsedCode, ...] = ()


_EMPTY = _TokenFile(VERSION, ())


def token_files(data_dir: Path, config_key: str) -> FileRecords:
    """Returns the file of a configuration's tokens, and the mark that there were some."""
    marker = data_dir / "run" / f"protected-{config_key}"
    return FileRecords(data_dir / "tokens", f"-{config_key}.json", lambda _: marker)


class TokenStore:
    """The tokens of one configuration, by default in a file that only its owner may read.

    They are read again when they have changed, so that a token that is created or revoked counts
    at once. Revoking the last one, or losing the file, does not open the gateway.

    Args:
        data_dir: The data directory.
        config_key: The key of the configuration.
        records: The storage of the tokens instead.
    """

    def __init__(self, data_dir: Path, config_key: str, records: Records | None = None) -> None:
        self._data_dir = data_dir
        files = token_files(data_dir, config_key)
        self.path = files.path(_NAME)
        """The file, if there are no ``records``."""
        self._records: Records = records or files
        self._place = self._records.location(_NAME)
        self._known: tuple[str, _TokenFile] | None = None
        """The stamp of the latest reading, and its content; set at once, as several threads ask."""

    @property
    def protected(self) -> bool:
        """Whether callers need a token: one was created, and `clear` was not called since."""
        return self._records.was_written(_NAME)

    def clear(self) -> None:
        """Revokes every token and opens the gateway to callers without one."""
        with self._records.locked(_NAME):
            self._records.delete(_NAME)

    def all(self) -> tuple[Token, ...]:
        """Returns every token, in the order of their creation.

        Raises `TokenFileError` for a file that cannot be read or that another user may have made.
        """
        return self._content().tokens

    def _content(self) -> _TokenFile:
        current, known = self._current_stamp(), self._known
        if known is None or known[0] != current:
            known = self._known = current, self._read()
        return known[1]

    def create(self, grant: Grant, name: str = "", days: float | None = None) -> tuple[Token, str]:
        """Creates a token; returns its stored form, and the token itself, which is not stored.

        ``days`` is how long it is valid; None means for ever.
        """
        token, secret = _make(grant, name, days)
        with self._records.locked(_NAME):
            self._write([*self.all(), token])
        return token, secret

    def exchange(self, code: str, grant: Grant | None, name: str, days: float) -> str | None:
        """Creates a token for an authorization code, once for each code; returns the token.

        A code that comes again gives None, and takes the token back that it gave before.

        Args:
            code: The id of the code.
            grant: The grant of the token; None creates no token.
            name: The name of the token.
            days: How long the token is valid.
        """
        now = int(time.time())
        with self._records.locked(_NAME):
            codes = {used.id: used for used in self._content().codes if used.until > now}
            if code in codes:
                self._write([each for each in self.all() if each.id != codes[code].token])
                return None
            if grant is None:
                return None
            token, secret = _make(grant, name, days)
            used = _UsedCode(code, token.id, now + CODE_MEMORY_S)
            self._write([*self.all(), token], (*codes.values(), used))
        return secret

    def revoke(self, identifier: str) -> Token:
        """Revokes the token of this id and returns it; raises `UnknownNameError` without one."""
        with self._records.locked(_NAME):
            tokens = self.all()
            revoked = next((token for token in tokens if token.id == identifier), None)
            if revoked is None:
                known = ", ".join(token.id for token in tokens) or "none"
                raise UnknownNameError(f"no token has the id {identifier!r}; there are: {known}")
            self._write([token for token in tokens if token is not revoked])
        return revoked

    def find(self, secret: str) -> Token | None:
        """Returns the token of this secret; None if it is unknown or has expired."""
        hashed = _hash(secret)
        matches = (token for token in self.valid() if hmac.compare_digest(token.hash, hashed))
        return next(matches, None)

    def valid(self) -> list[Token]:
        """Returns the tokens that have not expired; raises `TokenFileError` as `all` does."""
        now = datetime.now(UTC)
        return [token for token in self.all() if token.is_valid(now)]

    def _current_stamp(self) -> str:
        try:
            return self._records.stamp(_NAME)
        except OSError as error:
            raise self._unreadable(error) from None

    def _read(self) -> _TokenFile:
        try:
            check_owner(self._data_dir)
            content = self._records.read(_NAME)
            return _EMPTY if content is None else msgspec.json.decode(content, type=_TokenFile)
        except LostRecordError:
            return _EMPTY
        except DataDirectoryError as error:
            raise TokenFileError(f"{error}; no caller is let in") from None
        except OSError as error:
            raise self._unreadable(error) from None
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise TokenFileError(
                f"{self._place} cannot be read ({error}), so no caller is let in; "
                "delete it, which still lets no caller in, "
                "and create new tokens with: toolscript token create"
            ) from None

    def _unreadable(self, error: OSError) -> TokenFileError | DatabaseUnavailableError:
        """The error for tokens that may be well: it advises to delete nothing."""
        if isinstance(error, DatabaseUnavailableError):
            return DatabaseUnavailableError(f"{error}; no caller is let in until it answers again")
        why = error.strerror or error
        return TokenFileError(f"{self._place} cannot be read now ({why}), so no caller is let in")

    def _write(self, tokens: Iterable[Token], codes: tuple[_UsedCode, ...] | None = None) -> None:
        kept = self._content().codes if codes is None else codes
        content = _TokenFile(VERSION, tuple(tokens), kept)
        self._records.write(_NAME, msgspec.json.encode(content))
        self._known = self._current_stamp(), content


def _make(grant: Grant, name: str, days: float | None) -> tuple[Token, str]:
    """Returns a new token for a store, and its secret."""
    secret = PREFIX + secrets.token_urlsafe(32)
    now = datetime.now(UTC)
    token = Token(
        id=secrets.token_hex(4),
        hash=_hash(secret),
        grant=grant,
        name=name,
        created=_iso(now),
        expires=_iso(now + timedelta(days=days)) if days is not None else "",
    )
    return token, secret


def grant_for(
    servers: Iterable[str],
    tools: Iterable[str],
    permissions: Iterable[str] = (),
    profiles: Iterable[str] = (),
) -> Grant:
    """Returns the grant of these servers and tools; of everything if both are empty.

    ``permissions`` are rules such as ``destructive=deny``, ``profiles`` names of the
    configuration's. Raises `InputError` for a tool that is neither an id nor a pattern of ids, and
    for a rule that cannot be read.
    """
    pairs = [text.partition("=") for text in permissions]
    if any(not (name and sign) for name, sign, _ in pairs):
        raise InputError("--permission has no '='; expected NAME=RULE, such as destructive=deny")
    try:
        rules = rules_of({name: rule for name, _, rule in pairs}, "--permission")
    except RuleError as error:
        raise InputError(str(error)) from None
    limits = {"permissions": rules, "profiles": tuple(profiles)}
    return replace(_grant(tuple(servers), tuple(tools)), **limits)


def _grant(servers: tuple[str, ...], tools: tuple[str, ...]) -> Grant:
    tools = tuple(map(as_id, tools))
    for tool in tools:
        server, separator, name = tool.partition(SEPARATOR)
        if not (server and separator and name):
            raise InputError(
                f"--tool is {tool!r}; expected an id such as git{SEPARATOR}status, "
                f"or a pattern such as git{SEPARATOR}*"
            )
    if not servers and not tools:
        return EVERYTHING
    return Grant(servers=servers, tools=tools)


def granted_text(grant: Grant) -> str:
    """Returns a description of a grant for people: servers and tools, then its rules."""
    granted = "everything" if grant.is_everything else ", ".join((*grant.servers, *grant.tools))
    rules = [f"{rule.decision} {rule.tool_class or rule.pattern}" for rule in grant.permissions]
    rules += [f"profile {name}" for name in grant.profiles]
    return f"{granted} ({', '.join(rules)})" if rules else granted


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _iso(when: datetime) -> str:
    return when.isoformat(timespec="seconds")

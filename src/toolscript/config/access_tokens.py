"""Tokens: what a caller shows to the gateway, and what it is granted for that.

Only a hash of a token is kept. It is a plain SHA-256: a token is 256 random
bits, which nobody guesses, however fast.
"""

import hashlib
import hmac
import secrets
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from toolscript.errors import DataDirectoryError, InputError, TokenFileError, UnknownNameError
from toolscript.storage.atomic_files import check_owner, make_private, stamp, write_atomically
from toolscript.types import EVERYTHING, SEPARATOR, Grant

PREFIX = "ts_"
VERSION = 1


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One token, as it is kept: what it is worth, but not what it is."""

    id: str
    hash: str
    grant: Grant
    name: str = ""
    created: str = ""
    expires: str = ""
    """ISO 8601, UTC; empty for one that does not."""

    def is_valid(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return not self.expires or now < datetime.fromisoformat(self.expires)


class _TokenFile(msgspec.Struct, frozen=True):
    version: int
    tokens: tuple[Token, ...]


class TokenStore:
    """The tokens of one configuration, in a file that only its owner may read.

    Reads the file again when it has changed, so that a token that is made or
    revoked counts at once. A marker in another folder remembers that there was
    a token: revoking the last one, or losing the file, gives nobody any rights.
    """

    def __init__(self, data_dir: Path, config_key: str) -> None:
        self._data_dir = data_dir
        self.path = data_dir / "tokens" / f"tokens-{config_key}.json"
        self._marker = data_dir / "run" / f"protected-{config_key}"
        self._stamp = ""
        self._tokens: tuple[Token, ...] = ()

    @property
    def protected(self) -> bool:
        """Whether callers need a token: there was one, and `clear` was not called since."""
        return _exists(self.path) or _exists(self._marker)

    def clear(self) -> None:
        """Revoke every token, and ask for none from now on."""
        with self._alone():
            self.path.unlink(missing_ok=True)
            self._marker.unlink(missing_ok=True)

    def all(self) -> tuple[Token, ...]:
        """Every token, in the order they were made; raises `TokenFileError` for a damaged file.

        Nobody is let in by a file that cannot be read, or that another user may have made.
        """
        seen = stamp([self.path])
        if seen != self._stamp:
            self._tokens = self._read()
            self._stamp = seen
        return self._tokens

    def create(self, grant: Grant, name: str = "", days: float | None = None) -> tuple[Token, str]:
        """A new token: what is kept, and the token itself, which is not."""
        secret = PREFIX + secrets.token_urlsafe(32)
        now = datetime.now(UTC)
        token = Token(
            id=secrets.token_hex(4),
            hash=_hash(secret),
            grant=grant,
            name=name,
            created=_written(now),
            expires=_written(now + timedelta(days=days)) if days is not None else "",
        )
        with self._alone():
            self._write((*self.all(), token))
        return token, secret

    def revoke(self, identifier: str) -> Token:
        """Take a token away; raises `UnknownNameError` where there is none of this id."""
        with self._alone():
            tokens = self.all()
            found = next((token for token in tokens if token.id == identifier), None)
            if found is None:
                known = ", ".join(token.id for token in tokens) or "none"
                raise UnknownNameError(f"no token has the id {identifier!r}; there are: {known}")
            self._write(tuple(token for token in tokens if token is not found))
        return found

    def find(self, secret: str) -> Token | None:
        """The token of this secret; None where it is unknown or has expired."""
        hashed = _hash(secret)
        found = [each for each in self.valid() if hmac.compare_digest(each.hash, hashed)]
        return found[0] if found else None

    def valid(self) -> list[Token]:
        """The tokens that have not expired."""
        now = datetime.now(UTC)
        return [each for each in self.all() if each.is_valid(now)]

    @contextmanager
    def _alone(self) -> Generator[None]:
        """While nobody else changes the file; what others have changed is read."""
        import filelock  # noqa: PLC0415 - a gateway only reads

        make_private(self.path.parent)
        with filelock.FileLock(self.path.with_suffix(".lock"), mode=0o600):
            yield

    def _read(self) -> tuple[Token, ...]:
        try:
            check_owner(self._data_dir)
            file = msgspec.json.decode(self.path.read_bytes(), type=_TokenFile)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except DataDirectoryError as error:
            raise TokenFileError(f"{error}; nobody is let in") from None
        except OSError as error:  # it may be well: no advice to delete it
            raise TokenFileError(
                f"{self.path} cannot be read now ({error.strerror}), so nobody is let in"
            ) from None
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise TokenFileError(
                f"{self.path} cannot be read ({error}), so nobody is let in; "
                "delete it, which lets nobody in either, "
                "and make new tokens with: toolscript token create"
            ) from None
        return file.tokens

    def _write(self, tokens: tuple[Token, ...]) -> None:
        make_private(self._marker.parent)
        self._marker.touch(mode=0o600)
        write_atomically(self.path, msgspec.json.encode(_TokenFile(VERSION, tokens)))
        self._stamp, self._tokens = stamp([self.path]), tokens


def grant_for(servers: Iterable[str], tools: Iterable[str]) -> Grant:
    """The grant of these servers and tools, everything where neither is named.

    Raises `InputError` for a tool that is no id.
    """
    servers, tools = tuple(servers), tuple(tools)
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


def _exists(path: Path) -> bool:
    """Whether there is a file, or may be one: what cannot be looked at counts."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _written(when: datetime) -> str:
    return when.isoformat(timespec="seconds")

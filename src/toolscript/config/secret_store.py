"""Stores the secrets that server entries name as ``${secret:NAME}``.

The values are in the system's keyring if the user chooses that, otherwise in one file that only its
owner may read. The file also holds the names, and for each a version: a random text that is new
whenever the value is, so that a running gateway learns of a change without reading any value.
"""

import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from toolscript.config.locations import secrets_file
from toolscript.errors import InputError, SecretStoreError, UnknownNameError, UpstreamError
from toolscript.install_command import install_command
from toolscript.storage.atomic_files import check_owner
from toolscript.storage.file_records import FileRecords
from toolscript.text.secret_detection import redactable, value_secrets
from toolscript.types import SECRET_VARIABLE, ServerSpec

if TYPE_CHECKING:
    from types import ModuleType

MAX_CHARS = 32_768
"""Characters of one value."""
_FILE = "secrets"
"""The name of the record."""
_VERSION_BYTES = 8


class StoredSecret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One secret as the file has it."""

    version: str
    value: str | None = None
    """None if the value is in the system's keyring."""

    def __repr__(self) -> str:
        """Without the value."""
        return f"StoredSecret(version={self.version!r})"


class _SecretFile(msgspec.Struct, kw_only=True):
    version: int = 1
    in_keyring: bool = False
    """Whether the user wants new values in the system's keyring."""
    secrets: dict[str, StoredSecret] = {}


class SecretStore:
    """The secrets of one data directory. Any thread and any process may call.

    Every method raises `SecretStoreError` if the file or the keyring cannot be used now, and
    `DataDirectoryError` if another user may have written to the data directory.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.path = secrets_file(data_dir)
        """The file."""
        self._records = FileRecords(self.path.parent)
        self._service = f"toolscript {data_dir}"
        self._from_keyring: dict[str, str] = {}
        """Values by the version of their secret."""

    def names(self) -> list[str]:
        """Returns the names of all secrets, sorted."""
        return sorted(self._read().secrets)

    def is_in_keyring(self, name: str) -> bool:
        """Whether the value of a secret is in the system's keyring."""
        stored = self._read().secrets.get(name)
        return stored is not None and stored.value is None

    def version(self, name: str) -> str:
        """Returns a text that is another one for each value; "" if there is no such secret."""
        stored = self._read().secrets.get(name)
        return stored.version if stored else ""

    def get(self, name: str, *, asks: bool = True) -> str | None:
        """Returns the value of a secret; None if there is none.

        A keyring may ask its user, and take long. It is left alone if ``asks`` is false: then the
        value is None unless this process has had it.
        """
        stored = self._read().secrets.get(name)
        if stored is None or stored.value is not None:
            return stored and stored.value
        if asks and stored.version not in self._from_keyring:
            with _using_keyring() as keyring:
                value = keyring.get_password(self._service, name)
            if value is None:
                return None
            self._from_keyring[stored.version] = value
        return self._from_keyring.get(stored.version)

    def set(self, name: str, value: str, *, in_keyring: bool | None = None) -> None:
        """Stores a value, in the place of an earlier one.

        Args:
            name: Up to 64 letters, digits, dots, dashes and underscores.
            value: The secret, a text without a null character.
            in_keyring: Whether the system's keyring takes it. That is remembered: None means the
                user's last choice, which is the file at first.

        Raises:
            InputError: The name or the value cannot be used; the message shows neither.
        """
        check_secret_name(name)
        if not value or len(value) > MAX_CHARS or "\0" in value:
            raise InputError(
                f"the value has {len(value)} characters; expected 1 to {MAX_CHARS}, none of them "
                "the null character"
            )
        with self._changing() as file:
            before = file.secrets.get(name)
            if in_keyring is not None:
                file.in_keyring = in_keyring
            if file.in_keyring:
                with _using_keyring() as keyring:
                    keyring.set_password(self._service, name, value)
            elif before is not None and before.value is None:
                self._delete_from_keyring(name)
            version = secrets.token_hex(_VERSION_BYTES)
            kept = None if file.in_keyring else value
            file.secrets[name] = StoredSecret(version=version, value=kept)

    def remove(self, name: str) -> None:
        """Deletes a secret; raises `UnknownNameError` if there is none of this name."""
        with self._changing() as file:
            removed = file.secrets.pop(name, None)
            if removed is None:
                known = ", ".join(sorted(file.secrets)) or "none"
                raise UnknownNameError(f"no secret is called {name[:64]!r}; there are: {known}")
            if removed.value is None:
                self._delete_from_keyring(name)

    def _delete_from_keyring(self, name: str) -> None:
        with _using_keyring() as keyring:
            if keyring.get_password(self._service, name) is not None:
                keyring.delete_password(self._service, name)

    @contextmanager
    def _changing(self) -> Generator[_SecretFile]:
        """Yields the file for changes, which are written unless the block raises."""
        with self._using_file(), self._records.locked(_FILE):
            file = self._read()
            yield file
            self._records.write(_FILE, msgspec.json.encode(file))

    def _read(self) -> _SecretFile:
        check_owner(self._data_dir)
        with self._using_file():
            content = self._records.read(_FILE) or b"{}"
            return msgspec.json.decode(content, type=_SecretFile)

    @contextmanager
    def _using_file(self) -> Generator[None]:
        """Raises `SecretStoreError` if the file cannot be used, with no content of it."""
        try:
            yield
        except OSError as error:
            raise SecretStoreError(f"{self.path}: {error.strerror or error}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            message = f"{self.path} is damaged; delete it, and set the secrets again"
            raise SecretStoreError(message) from None


@dataclass(frozen=True, slots=True)
class ResolvedServer:
    """A server with the values of its secrets, for its start alone: nobody may keep or show it."""

    spec: ServerSpec
    stored: tuple[str, ...] = ()
    """The texts of the values that must not be shown, and the secret parts of each value."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """All texts of the server that must not be shown."""
        return redactable((*self.spec.secrets, *self.stored))


def resolve_secrets(spec: ServerSpec, store: SecretStore, *, asks: bool = True) -> ResolvedServer:
    """Returns a server with each secret's value in the place of its variable.

    Args:
        spec: The server.
        store: Has the values.
        asks: Whether the server is to be started, so that a keyring may ask its user. If it is
            not, variables of secrets that this process has not had stay.

    Raises:
        UpstreamError: A secret has no value, and the server is to be started.
        SecretStoreError: The secrets cannot be read.
    """
    values = {name: store.get(name, asks=asks) for name in spec.secret_versions}
    for name in (name for name, value in values.items() if value is None and asks):
        raise UpstreamError(f"needs the secret {name}; store it with: toolscript secret set {name}")
    if not values:
        return ResolvedServer(spec)

    def fill(text: str, spell: Callable[[str], str] = str) -> str:
        return SECRET_VARIABLE.sub(lambda m: spell(values.get(m["name"]) or "") or m[0], text)

    texts = (text for value in values.values() if value for text in (value, *value_secrets(value)))
    stored = redactable(texts)
    filled = msgspec.structs.replace(
        spec,
        env={name: fill(text) for name, text in spec.env.items()},
        headers={name: fill(text) for name, text in spec.headers.items()},
        args=tuple(map(fill, spec.args)),
        url=fill(spec.url, partial(quote, safe="")),
        hidden=(*spec.hidden, *stored),
    )
    return ResolvedServer(filled, stored)


def check_secret_name(name: str) -> None:
    """Raises `InputError` for a text that cannot name a secret; it may be a value by mistake."""
    if not SECRET_VARIABLE.fullmatch(f"${{secret:{name}}}"):
        raise InputError(
            "the name of a secret has 1 to 64 letters, digits, '.', '-' and '_', such as "
            "github-token"
        )


@contextmanager
def _using_keyring() -> "Generator[ModuleType]":
    """Yields the module ``keyring``; raises `SecretStoreError` for whatever it raises."""
    try:
        import keyring  # noqa: PLC0415 - an extra
    except ImportError:
        message = (
            "the system's keyring cannot be used without the package keyring; install it with: "
            + install_command("keyring")
        )
        raise SecretStoreError(message) from None
    try:
        yield keyring
    except Exception as error:  # noqa: BLE001 - a boundary: each system's keyring has errors of its own
        raise SecretStoreError(
            f"the system's keyring cannot be used ({type(error).__name__}); unlock it, or keep "
            "the value in a file with: toolscript secret set --file"
        ) from None

"""The secret key: seals values that only gateways with the same key can read.

A value is encrypted and authenticated with AES-256-GCM, under a key that is derived from the text
of the setting. ``cryptography`` is imported when the first value is sealed or read.
"""

import logging
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from toolscript.config.setting_groups import MIN_KEY_CHARS
from toolscript.config.settings import ServerSettings
from toolscript.errors import DataDirectoryError
from toolscript.storage.atomic_files import check_owner, write_atomically, write_failure

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_T = TypeVar("_T")
log = logging.getLogger(__name__)
_NONCE_BYTES, _KEY_BYTES = 12, 32


class SecretKey:
    """Seals values with the current key, and reads those of the current and of the previous one.

    Args:
        current: The text of the current key.
        previous: The text of the key before, or of the next one while that is being rolled out.
    """

    def __init__(self, current: str, previous: str | None = None) -> None:
        self._texts = [current, *([previous] if previous else [])]

    @property
    def has_previous(self) -> bool:
        """Whether there is another key than the current one."""
        return len(self._texts) > 1

    def seal(self, content: bytes, purpose: bytes) -> bytes:
        """Returns ``content`` sealed; it can be read for the same ``purpose`` only."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, content, purpose)

    def read(self, sealed: bytes, purpose: bytes) -> bytes | None:
        """Returns the text sealed for ``purpose``; None if neither of the keys has sealed it."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see the module

        nonce, content = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        if len(nonce) < _NONCE_BYTES:
            return None
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(nonce, content, purpose)
            except InvalidTag:
                continue
        return None

    def seal_value(self, value: object, purpose: bytes) -> str:
        """Returns a value sealed as a text that may stand in an address."""
        return _encode(self.seal(msgspec.json.encode(value), purpose))

    def read_value(self, text: str, purpose: bytes, kind: type[_T], max_chars: int) -> _T | None:
        """Returns the value of a text of `seal_value`; None for any other text, or a longer one."""
        if len(text) > max_chars:
            return None
        try:
            sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            content = self.read(sealed, purpose) if _encode(sealed) == text else None
            return None if content is None else msgspec.json.decode(content, type=kind)
        except ValueError:  # written otherwise, or by another version
            return None

    @cached_property
    def _ciphers(self) -> "list[AESGCM]":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

        def derived(text: str) -> bytes:
            kdf = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=b"toolscript")
            return kdf.derive(text.encode())

        return [AESGCM(derived(text)) for text in self._texts]


def _encode(sealed: bytes) -> str:
    return urlsafe_b64encode(sealed).decode().rstrip("=")


def oauth_key(server: ServerSettings, data_dir: Path, config_key: str) -> SecretKey:
    """Returns the key for logins of clients: that of the settings, or one that this gateway keeps.

    Args:
        server: Has the key and the one before, or neither.
        data_dir: The data directory, which has the key that this gateway keeps.
        config_key: Stands for the configuration, in the name of the file of a kept key.
    """
    if server.secret_key:
        return SecretKey(server.secret_key, server.secret_key_previous)
    path = data_dir / "keys" / f"oauth-{config_key}.key"
    return SecretKey(_read_or_make(data_dir, path))


def _read_or_make(data_dir: Path, path: Path) -> str:
    """Returns the key in a file; makes both if there is none that can be used."""
    try:
        check_owner(data_dir)
        kept = path.read_text("ascii").strip()
        if len(kept) >= MIN_KEY_CHARS:
            return kept
    except (OSError, ValueError, DataDirectoryError):
        pass  # it is made anew: at worst the clients register again
    made = secrets.token_urlsafe(_KEY_BYTES)
    try:
        write_atomically(path, made.encode())
    except OSError as error:
        log.warning(
            "%s cannot be written (%s): clients that log in register again after a restart",
            *(path, error.strerror or error),
            extra=write_failure(error),
        )
    return made

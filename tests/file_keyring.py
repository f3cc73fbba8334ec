"""A keyring in a file, so that no test touches the keyring of whoever runs it."""

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

VARIABLE = "TEST_KEYRING"
"""Names the file. While that is a directory, the keyring is locked."""
ENVIRON = {"PYTHON_KEYRING_BACKEND": f"{__name__}.FileKeyring"}


class FileKeyring(KeyringBackend):
    """Passwords as JSON, by ``service`` and ``username``."""

    priority = 1.0  # pyright: ignore[reportAssignmentType] - as its documentation says

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write({**self._read(), f"{service}/{username}": password})

    def delete_password(self, service: str, username: str) -> None:
        passwords = self._read()
        if passwords.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError
        self._write(passwords)

    def _read(self) -> dict[str, str]:
        path = Path(os.environ[VARIABLE])
        if path.is_dir():
            raise KeyringLocked
        return json.loads(path.read_text("utf-8")) if path.exists() else {}

    def _write(self, passwords: dict[str, str]) -> None:
        Path(os.environ[VARIABLE]).write_text(json.dumps(passwords), "utf-8")

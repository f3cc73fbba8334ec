"""Starts the server of `oauth.py`, and logs in to it with ``toolscript auth`` as a browser does."""

import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests import launcher

from toolscript.config.settings import load_settings
from toolscript.postgres.shared_stores import open_stores
from toolscript.storage.base import Records
from toolscript.storage.file_records import FileRecords

SERVER = Path(__file__).with_name("oauth.py")


@contextmanager
def oauth_server(**variables: str) -> Generator[str]:
    """Yields the URL of a server that asks for a login; `oauth.py` describes the variables."""
    with launcher.helper(SERVER, env={"PATH": os.environ["PATH"], **variables}) as (url, _):
        yield url


@contextmanager
def login_under_way(
    server: str, environ: Mapping[str, str], folder: Path
) -> Generator[tuple["launcher.Piped | subprocess.Popen[bytes]", str]]:
    """Yields a login that waits for its user, and the address where the user is to go."""
    command = ["auth", server, "--no-browser"]
    with launcher.begin(command, folder, environ, hears_errors=True) as process:
        try:
            assert process.stderr
            [url] = re.findall(r"http://\S+", process.stderr.readline().decode())
            yield process, url
        finally:
            process.kill()


@contextmanager
def stored_logins(environ: Mapping[str, str]) -> Generator[Records]:
    """Yields the logins that processes with these variables store, in files or in a database."""
    settings = load_settings({}, environ)
    if settings.database.url is None:
        yield FileRecords(settings.paths.data_dir / "auth")
        return
    shared = open_stores(settings)
    try:
        yield shared.logins
    finally:
        shared.close()


def visit(url: str) -> tuple[int, str]:
    """Opens an address as a browser does; returns the last page's status and text."""
    try:
        with urllib.request.urlopen(url, timeout=30) as page:  # noqa: S310 - a server of our own
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""

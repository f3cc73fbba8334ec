"""Starts the user's browser at an address that holds a secret."""

import html
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>toolscript</title>
<p><a href="{0}">Go on</a></p>
"""


@contextmanager
def start_browser(url: str) -> Generator[bool]:
    """Starts a browser at a file that leads on to an address; yields whether one was started.

    Every user of the machine sees the arguments of its programs, so the address is none of them.
    Only this user can read the file, which is deleted at the end of the block.
    """
    import webbrowser  # noqa: PLC0415 - few commands open one

    with tempfile.TemporaryDirectory(prefix="toolscript-browser-") as folder:
        yield webbrowser.open(write_page(Path(folder).resolve(), url).as_uri())


def write_page(folder: Path, url: str) -> Path:
    """Writes a file that leads a browser on to an address; returns its path."""
    file = folder / "open.html"
    file.write_text(_PAGE.format(html.escape(url)), "utf-8")
    return file

"""The header with which a client on this machine names the folder that it works in."""

from pathlib import Path
from urllib.parse import quote, unquote

from starlette.requests import HTTPConnection

from toolscript.surfaces.server.audit_log import OWNER
from toolscript.surfaces.server.authentication import ACCESS, Access

HEADER = "toolscript-project"
MAX_CHARS = 4096


def project_of(request: HTTPConnection | None) -> str:
    """Returns the folder that a request names; empty if it may not name any, or none exists.

    Only the owner may: for others a server would be started in any folder that they like.
    """
    access: Access | None = None if request is None else request.scope.get(ACCESS)
    if request is None or access is None or access.holder != OWNER:
        return ""
    return existing_folder(unquote(request.headers.get(HEADER, "")))


def existing_folder(path: str) -> str:
    """Returns an absolute path of a folder that exists as it is; empty for any other."""
    if not path.startswith("/") or len(path) > MAX_CHARS or "\0" in path:
        return ""
    try:
        return path if Path(path).is_dir() else ""
    except OSError:
        return ""


def header_value(folder: str) -> str:
    """Returns a folder as the header has it."""
    return quote(folder)

"""Writes the command that installs an extra's packages, for the way toolscript was installed."""

import importlib.util
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

_EXTRA = re.compile(r"""(?P<package>.+?)\s*;\s*extra\s*==\s*['"](?P<extra>[\w-]+)['"]""")


def install_command(extra: str) -> str:
    """Returns the command that installs the packages of ``extra``, such as ``keyring``.

    It names those packages and this environment, and no package called toolscript: the registry may
    have one that is somebody else's.
    """
    matches = map(_EXTRA.fullmatch, metadata.requires("toolscript") or ())
    packages = [match["package"] for match in matches if match and match["extra"] == extra]
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        command = ["pipx", "inject", Path(sys.prefix).name]
    elif importlib.util.find_spec("pip"):
        command = [sys.executable, "-m", "pip", "install"]
    else:  # as in an environment that uv made
        command = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*command, *packages])

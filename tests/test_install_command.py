"""The command that adds optional packages fits the environment and names no package of ours."""

import os
import re
import shutil
import subprocess
import venv
from importlib import metadata
from pathlib import Path

import pytest

from tests.docs.pages import DOCS
from tests.docs.test_words import SOURCES
from tests.support import ROOT
from toolscript.install_command import install_command

_FROM_A_REGISTRY = re.compile(
    r"(?:pip|pipx|uv tool) install(?: --?[\w-]+)* '?toolscript(?![\w/])|uvx toolscript"
)


@pytest.mark.parametrize("extra", ["keyring", "metrics", "otel", "postgres", "scripts"])
def test_each_extra_has_packages_and_none_is_toolscript(extra: str) -> None:
    _, _, packages = install_command(extra).partition(" install ")
    assert packages
    assert "toolscript" not in packages


@pytest.mark.parametrize(
    ("marker", "command"),
    [
        (None, "uv pip install --python {prefix}/bin/python 'keyring>=25'"),
        ("pipx_metadata.json", "pipx inject tools 'keyring>=25'"),
    ],
)
def test_the_command_is_that_of_the_environment(
    tmp_path: Path, marker: str | None, command: str
) -> None:
    """uv's environments have no pip, and pipx leaves a file in its own."""
    prefix = tmp_path / "tools"
    venv.create(prefix, with_pip=False, symlinks=True)
    if marker:
        (prefix / marker).write_text("{}", "utf-8")
    origin = metadata.distribution("toolscript").locate_file("")
    [facts] = Path(str(origin)).glob("toolscript-*.dist-info")
    shutil.copytree(facts, tmp_path / "packages" / facts.name)
    done = subprocess.run(
        [prefix / "bin" / "python", "-c", _PRINT],
        env={"PYTHONPATH": os.pathsep.join([str(SOURCES.parent), str(tmp_path / "packages")])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == command.format(prefix=prefix)


_PRINT = "from toolscript.install_command import install_command; print(install_command('keyring'))"


def test_nothing_tells_to_install_toolscript_from_a_registry() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *SOURCES.rglob("*.py")]
    lines = [
        f"{page}: {line}"
        for page in pages
        for line in page.read_text("utf-8").splitlines()
        if _FROM_A_REGISTRY.search(line)
    ]
    assert not lines

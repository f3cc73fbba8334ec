"""Fixtures of the integration tests: servers, the command line, third-party servers."""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.oidc import Provider, oidc_provider
from tests.support import ROOT, Cli, Scripted, in_database, kill_all, processes, until


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of the tests that are coroutines: those with the marker ``anyio``."""
    return "asyncio"


@pytest.fixture
def no_process_left(tmp_path: Path) -> Generator[None]:
    """No process that a test started below its directory outlives it; what does is ended."""
    yield
    try:
        until(lambda: not processes(str(tmp_path)), "every process has ended", 10)
    except AssertionError:
        left = processes(str(tmp_path))
        kill_all(left)
        pytest.fail(f"processes outlived the test: {left}")


@pytest.fixture
def scripted(tmp_path: Path, no_process_left: None) -> Scripted:
    """Makes servers that behave as they are told."""
    return Scripted(tmp_path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test with the marker ``both_storages`` with files, and in the long run a database.

    That is, if it uses ``cli`` or asks for ``storage`` itself. One of a module with that marker
    that has the marker ``files`` is one of files. The usual run has `tests.contracts` for both.
    """
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if "storage" in metafunc.fixturenames and "both_storages" in marks and "files" not in marks:
        database = pytest.param("database", marks=pytest.mark.long)
        metafunc.parametrize("storage", ["files", database], indirect=True)


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables that have a gateway keep its state in a database; none keep it in files."""
    if getattr(request, "param", "files") == "files":
        return {}
    return in_database(request.getfixturevalue("database_url"))


@pytest.fixture
def cli(tmp_path: Path, no_process_left: None, storage: dict[str, str]) -> Generator[Cli]:
    """The command line, at home in the test's directory; its gateways are stopped."""
    home = tmp_path / "home"
    home.mkdir()
    cli = Cli(home, storage=storage)
    with cli:
        yield cli


@pytest.fixture(scope="module")
def provider() -> Generator[Provider]:
    """A company's OpenID provider."""
    with oidc_provider() as provider:
        yield provider


@pytest.fixture(scope="session")
def real_servers() -> dict[str, Any]:
    """The entries of the third-party servers, by name."""
    default = ROOT / ".servers" / "servers.json"
    path = Path(os.environ.get("TOOLSCRIPT_TEST_SERVERS") or default)
    if not path.is_file():
        pytest.fail(
            f"{path} does not exist; run: python scripts/real_servers.py --into .servers",
            pytrace=False,
        )
    return json.loads(path.read_text("utf-8"))["mcpServers"]

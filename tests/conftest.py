"""What the tests share: the real bundled model, a small realistic catalogue."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import hypothesis
import pytest

from tests.corpus import ROWS, SHELL, tools_of
from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel, Loaded, load_model
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, ToolSpec

# No deadline: time belongs in benchmarks/. In CI the same examples at every run.
hypothesis.settings.register_profile(
    "toolscript", deadline=None, derandomize=bool(os.environ.get("CI"))
)
hypothesis.settings.load_profile("toolscript")

# What is ignored here, as under nohup or in the background of a script, would be ignored by every
# command that the tests start.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ("tests.fixtures", "tests.postgres_fixtures")

TESTS = Path(__file__).parent
ENDURANCE = TESTS / "endurance"
MakeEngine = Callable[..., SearchEngine]

SLOWEST = (
    "surfaces/web/test_chromium.py",
    "surfaces/cli/test_cli_gateway.py",
    "hostile/test_login.py",
    "docs/test_docs.py",
    "surfaces/test_permissions.py",
    "endurance/test_chaos.py",
    "gateway/upstream/test_real_servers.py",
    "surfaces/mcp/test_clients.py",
    "surfaces/cli/test_cli_auth.py",
    "surfaces/cli/test_cli_search.py",
    "surfaces/test_replicas.py",
    "surfaces/http/test_activity.py",
    "surfaces/test_graph.py",
    "gateway/upstream/test_connection.py",
    "gateway/upstream/test_transports.py",
    "gateway/upstream/test_tool_list_changes.py",
    "hostile/test_storage_files.py",
    "codegen/test_modules.py",
)
"""The files that take longest, in the order in which they are begun."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option with which `tests.endurance` does all of what it does."""
    parser.addoption(
        "--endurance", action="store_true", help="run the long tests, and tests/endurance in full"
    )


def pytest_xdist_auto_num_workers() -> int:
    """More than there are cores: many a test waits for a process."""
    return (os.cpu_count() or 1) * 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the long tests, or all but these and `tests.endurance` with ``--endurance``.

    Begins with the slowest files, so that all workers end at about the same time.
    """
    in_full = bool(config.getoption("endurance"))
    if in_full:
        for item in items:
            if ENDURANCE in item.path.parents:
                item.add_marker(pytest.mark.long)
                item.add_marker(pytest.mark.timeout(3600), append=False)
    others = [item for item in items if (item.get_closest_marker("long") is None) == in_full]
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]
    first = {TESTS / name: at for at, name in enumerate(SLOWEST)}
    missing = [path for path in first if not path.is_file()]
    assert not missing, f"SLOWEST names {missing}"
    items.sort(key=lambda item: first.get(item.path, len(first)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how long the tests of each folder took, with what they set up; all workers together."""
    seconds = defaultdict[str, float](float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[str(Path(report.nodeid.partition("::")[0]).parent)] += report.duration
    if len(seconds) > 1:
        terminalreporter.section("seconds by folder")
        for folder in sorted(seconds, key=lambda folder: -seconds[folder]):
            terminalreporter.line(f"{seconds[folder]:8.1f}  {folder}")


@pytest.fixture(scope="session")
def tools() -> tuple[ToolSpec, ...]:
    """24 tools of five servers, none of which runs commands."""
    return tools_of(ROWS)


@pytest.fixture(scope="session")
def shell_tools() -> tuple[ToolSpec, ...]:
    """The tools of a server that runs commands."""
    return tools_of(SHELL)


@pytest.fixture(scope="session")
def documents(tools: tuple[ToolSpec, ...]) -> tuple[Document, ...]:
    return tuple(Document.of(tool) for tool in tools)


@pytest.fixture(scope="session")
def shell_documents(shell_tools: tuple[ToolSpec, ...]) -> tuple[Document, ...]:
    return tuple(Document.of(tool) for tool in shell_tools)


@pytest.fixture(scope="session")
def model() -> LazyModel:
    """The real bundled model."""
    return LazyModel(lambda: load_model("bundled", "bundled", 1))


@pytest.fixture(scope="session")
def encoder(model: LazyModel) -> Encoder:
    loaded = model.get().encoder
    assert loaded is not None
    return loaded


@pytest.fixture(scope="session")
def no_model() -> LazyModel:
    """A model that could not be loaded."""
    return LazyModel(lambda: Loaded(None, "searching without meaning: there is no model"))


@pytest.fixture(scope="session")
def make_engine(model: LazyModel) -> MakeEngine:
    """An engine over documents, as ``bootstrap`` wires it but without a cache."""

    def make(
        documents: Iterable[Document], alpha: float = 0.7, with_model: LazyModel = model
    ) -> SearchEngine:
        semantic = SemanticSignal(with_model, lambda: None)
        engine = SearchEngine(search_profile(alpha, 3, 0.35), semantic=semantic)
        engine.update(documents)
        return engine

    return make


@pytest.fixture(scope="session")
def engine(make_engine: MakeEngine, documents: tuple[Document, ...]) -> SearchEngine:
    """The engine over the catalogue without a shell. Not to be updated."""
    return make_engine(documents)

"""The official conformance suite against a gateway: mcp:transports.

It calls the tools of ``servers/conformance.py``, in the protocol that it tests, by way of the
gateway: an answer passes only if everything in it came through, in both directions.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.clients.bare_names import bare_names
from tests.clients.driver import PACKAGES
from tests.clients.stdio_front import stdio_front
from tests.compilers import NODE
from tests.servers.conformance import NAMES
from tests.skills.sample import put, serving
from tests.support import FUZZY, HELPERS, NO_HUB, PATIENCE_S, ROOT, Cli

SUITE = PACKAGES / "@modelcontextprotocol/conformance/dist/index.js"
FAILURES = tomllib.loads(Path(__file__).with_name("conformance.toml").read_text("utf-8"))["failure"]
DISCOVERS = {"2026-07-28": "answer", "2025-11-25": "refuse"}
"""Whether the server behind the gateway speaks the newest protocol, by the tested revision."""
SKILLS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest")


def configure(cli: Cli, discover: str) -> None:
    args = ["-S", "-E", str(HELPERS / "conformance.py"), json.dumps({"discover": discover})]
    cli.configure(every={"command": sys.executable, "args": args})


@contextmanager
def gateway(home: Path, discover: str) -> Generator[str]:
    """A gateway in front of the server that the suite needs; its URL."""
    cli = Cli(home, FUZZY | NO_HUB)
    configure(cli, discover)
    put(home / ".agents" / "skills")
    with serving(cli) as url, bare_names(url, "every", NAMES) as proxy:
        yield proxy


def run(home: Path, url: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [str(NODE), str(SUITE), "server", "--url", url, *map(str, arguments)]
    return subprocess.run(
        command, cwd=home, capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False
    )


def failures(home: Path, url: str, revision: str, known: Path) -> list[str]:
    """The scenarios that fail and are not known to, each tried once more by itself.

    Some give an answer half a second, which is short on a busy machine.
    """
    done = run(home, url, "--requirements", revision, "--expected-failures", known)
    _, _, unexpected = done.stdout.partition("Unexpected failures (not in baseline)")
    failed = re.findall(r"^  ✗ ([^\s:]+)", unexpected, re.MULTILINE)
    assert (done.returncode == 0) is (not failed), done.stdout[-3000:] + done.stderr
    again = {
        each: run(home, url, "--scenario", each, "--spec-version", revision) for each in failed
    }
    return [done.stdout for done in again.values() if done.returncode]


def expected_failures(folder: Path, revision: str, *sides: str) -> Path:
    """Writes the failures that are known; the file."""
    rows = [row for row in FAILURES if row["revision"] == revision and row["side"] in sides]
    listed = [each for row in rows for each in row["scenarios"]]
    known = folder / "known.yml"
    known.write_text(json.dumps({sides[0]: listed}), "utf-8")  # JSON is YAML
    return known


@pytest.mark.requirement("mcp:transports")
@pytest.mark.parametrize("revision", DISCOVERS)
def test_a_gateway_conforms(tmp_path: Path, revision: str) -> None:
    """mcp:transports: in all that a revision asks for, but for the listed failures."""
    known = expected_failures(tmp_path, revision, "server")
    with gateway(tmp_path, DISCOVERS[revision]) as url:
        for path in ("/mcp/search", "/mcp/all"):
            assert failures(tmp_path, f"{url}{path}", revision, known) == []
        for scenario in SKILLS if revision == "2026-07-28" else ():
            done = run(tmp_path, f"{url}/mcp/all", "--scenario", scenario)
            assert done.returncode == 0, done.stdout


@pytest.mark.requirement("mcp:transports")
@pytest.mark.parametrize("revision", DISCOVERS)
@pytest.mark.parametrize(
    "way", [(), pytest.param(("--alone",), marks=pytest.mark.long)], ids=["bridge", "alone"]
)
def test_a_process_conforms(tmp_path: Path, revision: str, way: tuple[str, ...]) -> None:
    """mcp:transports: over pipes, but for the listed failures, and for HTTP itself."""
    cli = Cli(tmp_path, FUZZY | NO_HUB | {"TOOLSCRIPT_PORT": "0"})
    configure(cli, DISCOVERS[revision])
    known = expected_failures(tmp_path, revision, "server", "pipes")
    command = cli.command("mcp", "--exposure", "all", *way)
    with (
        serving(cli) if not way else nullcontext(),
        stdio_front(command, cli.environment(), tmp_path) as front,
        bare_names(front, "every", NAMES) as url,
    ):
        assert failures(tmp_path, f"{url}/mcp", revision, known) == []


def test_each_failure_is_documented() -> None:
    page = (ROOT / "docs/reference/protocol.md").read_text("utf-8")
    for each in FAILURES:
        assert f"{each['reason'].partition(':')[0]}" in page.lower()


CLIENT_SCENARIOS = (
    ("2025-11-25", ("initialize", "sse-retry", "elicitation-sep1034-client-defaults")),
    (
        "2026-07-28",
        (
            "request-metadata",
            "http-custom-headers",
            "json-schema-2020-12-preservation",
            "sep-2322-client-request-state",
            "auth/authorization-server-migration",
            "auth/basic-cimd",
            "auth/iss-wrong-issuer",
            "auth/pre-registration",
        ),
    ),
)
"""Some of the scenarios, which take seconds each; the last test has all."""
PROGRAM = f"{sys.executable} {Path(__file__).with_name('conformance_client.py')}"
COMMAND = [str(NODE), str(SUITE), "client", "--command", PROGRAM, "--timeout", "120000"]


def run_client(home: Path, *arguments: str) -> str:
    """Runs scenarios of a client; what is said if one fails."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_S,
        check=False,
    )
    return f"{arguments}: {done.stdout[-3000:]}" if done.returncode else ""


@pytest.mark.timeout(600)
@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize(("revision", "scenarios"), CLIENT_SCENARIOS)
def test_a_gateway_is_a_client_that_conforms(
    tmp_path: Path, revision: str, scenarios: tuple[str, ...]
) -> None:
    """upstream:transports: it connects to the suite's servers, logs in, and calls their tools."""

    def conforms(scenario: str) -> str:
        return run_client(tmp_path, "--scenario", scenario, "--spec-version", revision)

    with ThreadPoolExecutor(2) as pool:
        assert [*filter(None, pool.map(conforms, scenarios))] == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize("revision", DISCOVERS)
def test_a_gateway_meets_all_requirements_for_clients(tmp_path: Path, revision: str) -> None:
    """upstream:transports: but for the listed failures; extensions that we lack do not count."""
    known = expected_failures(tmp_path, revision, "client")
    said = run_client(tmp_path, "--requirements", revision, "--expected-failures", str(known))
    assert not said

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
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.bare_names import bare_names
from tests.clients.driver import PACKAGES
from tests.compilers import NODE
from tests.servers.conformance import TOOLS_AND_PROMPTS
from tests.skills.sample import put, serving
from tests.support import FUZZY, HELPERS, NO_HUB, PATIENCE_S, ROOT, Cli

SUITE = PACKAGES / "@modelcontextprotocol/conformance/dist/index.js"
FAILURES = tomllib.loads(Path(__file__).with_name("conformance.toml").read_text("utf-8"))["failure"]
DISCOVERS = {"2026-07-28": "answer", "2025-11-25": "refuse"}
"""Whether the server behind the gateway speaks the newest protocol, by the tested revision."""
SKILLS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest")


@contextmanager
def gateway(home: Path, discover: str) -> Generator[str]:
    """A gateway in front of the server that the suite needs; its URL."""
    script = json.dumps({"discover": discover})
    cli = Cli(home, FUZZY | NO_HUB)
    args = ["-S", "-E", str(HELPERS / "conformance.py"), script]
    cli.configure(every={"command": sys.executable, "args": args})
    put(home / ".agents" / "skills")
    with serving(cli) as url, bare_names(url, "every", TOOLS_AND_PROMPTS) as proxy:
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


@pytest.mark.requirement("mcp:transports")
@pytest.mark.parametrize("revision", DISCOVERS)
def test_a_gateway_conforms(tmp_path: Path, revision: str) -> None:
    """mcp:transports: in all that a revision asks for, but for the listed failures."""
    listed = [s for each in FAILURES if each["revision"] == revision for s in each["scenarios"]]
    known = tmp_path / "known.yml"
    known.write_text(json.dumps({"server": listed}), "utf-8")  # JSON is YAML
    with gateway(tmp_path, DISCOVERS[revision]) as url:
        for path in ("/mcp/search", "/mcp/all"):
            assert failures(tmp_path, f"{url}{path}", revision, known) == []
        for scenario in SKILLS if revision == "2026-07-28" else ():
            done = run(tmp_path, f"{url}/mcp/all", "--scenario", scenario)
            assert done.returncode == 0, done.stdout


def test_each_failure_is_documented() -> None:
    page = (ROOT / "docs/reference/protocol.md").read_text("utf-8")
    for each in FAILURES:
        assert f"{each['reason'].partition(':')[0]}" in page.lower()


CLIENT_SCENARIOS = (
    ("2025-11-25", ("initialize", "tools_call", "sse-retry")),
    (
        "2026-07-28",
        (
            "tools_call",
            "request-metadata",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
            "json-schema-ref-no-deref",
            "sep-2640-client-verify-digest",
            "sep-2640-client-verify-size",
        ),
    ),
)
"""Those about other things than logging in, but for some that want a host with a model."""


@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize(("revision", "scenarios"), CLIENT_SCENARIOS)
def test_a_gateway_is_a_client_that_conforms(
    tmp_path: Path, revision: str, scenarios: tuple[str, ...]
) -> None:
    """upstream:transports: it connects to the suite's servers, and calls their tools."""
    program = f"{sys.executable} {Path(__file__).with_name('conformance_client.py')}"
    command = [str(NODE), str(SUITE), "client", "--command", program, "--timeout", "120000"]

    def conforms(scenario: str) -> str:
        version = () if scenario.startswith("sep-") else ("--spec-version", revision)
        done = subprocess.run(
            [*command, "--scenario", scenario, *version],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_S,
            check=False,
        )
        return f"{scenario}: {done.stdout[-3000:]}" if done.returncode else ""

    with ThreadPoolExecutor(2) as pool:
        assert [*filter(None, pool.map(conforms, scenarios))] == []

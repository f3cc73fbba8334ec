"""Who may call what, at every door: each class under each rule, for each kind of caller.

The expected outcome is computed from the words of the documentation, not from the code: the
strictest of what the configuration, the profile and the token say; without any rule, a
destructive tool is asked about where the caller can be asked.
"""

import itertools
import json
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.stdio_sessions import session
from tests.support import FUZZY, Cli, Scripted, fetch, stop_all, tool, until

CLASSES = ("read", "write", "destructive")
DECISIONS = (None, "allow", "ask", "deny")
HINTS: dict[str, dict[str, Any]] = {
    "read": {"annotations": {"readOnlyHint": True}},
    "write": {"annotations": {"destructiveHint": False}},
    "destructive": {},
}
CALLS = {"read": "read_tool", "write": "call_tool", "destructive": "call_destructive_tool"}
STRICTNESS = ("allow", "ask", "deny")


@dataclass(frozen=True)
class Case:
    """One tool, and what each source says of it."""

    tool_class: str
    rule: str | None
    profile: str | None
    token: str | None

    @property
    def name(self) -> str:
        return f"{self.tool_class}_{self.rule or 'none'}"

    @property
    def identifier(self) -> str:
        return f"s__{self.name}"

    def decision(self) -> str | None:
        said = [each for each in (self.rule, self.profile, self.token) if each]
        return max(said, key=STRICTNESS.index) if said else None

    def expected(self, *, asked: bool) -> str:
        """``called``, ``question``, ``not allowed`` or ``hidden``."""
        decision = self.decision()
        if decision is None:
            return "question" if self.tool_class == "destructive" and asked else "called"
        if decision == "ask":
            return "question" if asked else "not allowed"
        return {"allow": "called", "deny": "hidden"}[decision]


PROFILES = {
    "none": None,
    "allowing": "allow",
    "asking": "ask",
    "denying": "deny",
}
TOKENS = (None, "allow", "ask", "deny")


def cases(profile: str | None = None, token: str | None = None) -> Iterator[Case]:
    for tool_class, rule in itertools.product(CLASSES, DECISIONS):
        yield Case(tool_class, rule, profile, token)


@dataclass(frozen=True)
class Place:
    """A gateway over one server that has a tool for each class and rule."""

    cli: Cli
    url: str
    calls: Path
    tokens: dict[str | None, str]

    def made(self) -> list[str]:
        """The names of the tools that have been called, in order."""
        text = self.calls.read_text("utf-8") if self.calls.exists() else ""
        return [json.loads(line)["name"] for line in text.splitlines()]

    def headers(self, profile: str, token: str | None) -> dict[str, str]:
        sent = {"Authorization": f"Bearer {self.tokens[token]}"}
        return sent | ({} if profile == "none" else {"Toolscript-Profile": profile})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    home = tmp_path_factory.mktemp("permissions")
    cli = Cli(home, {**FUZZY, "TOOLSCRIPT_APPROVAL_TIMEOUT": "0.3"})
    tools = [tool(case.name) | HINTS[case.tool_class] for case in cases()]
    calls = home / "calls"
    server = Scripted(home)(*tools, calls=str(calls))
    document = {
        "mcpServers": {"s": server},
        "permissions": {case.identifier: case.rule for case in cases() if case.rule},
        "profiles": {
            name: {"permissions": {"*": decision} if decision else {}}
            for name, decision in PROFILES.items()
        },
    }
    (home / ".toolscript.json").write_text(json.dumps(document), "utf-8")
    tokens: dict[str | None, str] = {}
    try:
        url = cli.start_gateway()
        for decision in TOKENS:
            words = ("--permission", f"*={decision}") if decision else ()
            tokens[decision] = cli.json("token", "create", *words)["token"]
        until(lambda: fetch(url, "/health", headers=_bearer(tokens[None]))[1]["tools"], "tools")
        yield Place(cli, url, calls, tokens)
    finally:
        stop_all(json.loads(path.read_text("utf-8"))["pid"] for path in cli.records)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


COMBINATIONS = pytest.mark.parametrize(
    ("profile", "token"), list(itertools.product(PROFILES, TOKENS))
)


def outcome(status: int, answer: Any) -> str:
    if status == 200:
        return "called"
    return {
        ("DeniedError", 403): "not allowed",
        ("UnknownNameError", 404): "hidden",
    }[answer["type"], status]


@COMBINATIONS
def test_over_http(place: Place, profile: str, token: str | None) -> None:
    headers = {**place.headers(profile, token), "Content-Type": "application/json"}
    wanted: dict[str, str] = {}
    found: dict[str, str] = {}
    listed = {t["toolId"] for t in fetch(place.url, "/tools", headers=headers)[1]["tools"]}
    for case in cases(PROFILES[profile], token):
        wanted[case.name] = expected = case.expected(asked=False)
        before = len(place.made())
        path = f"/tools/{case.identifier}"
        if expected == "hidden" and profile == "none" and token is None:
            wanted[case.name] = "not allowed"  # who may see everything is told why
        found[case.name] = outcome(
            *fetch(place.url, path, method="POST", headers=headers, body=b"{}")
        )
        assert (len(place.made()) > before) == (expected == "called")
        assert (case.identifier in listed) == (expected != "hidden")
    assert found == wanted


@COMBINATIONS
def test_over_mcp(place: Place, profile: str, token: str | None) -> None:
    """The client can be asked; it allows nothing, and then everything once."""
    env = {"TOOLSCRIPT_GATEWAY_URL": place.url, "TOOLSCRIPT_GATEWAY_TOKEN": place.tokens[token]}
    env |= {} if profile == "none" else {"TOOLSCRIPT_PROFILE": profile}
    cli = Cli(place.cli.home, {**place.cli.env, **env})
    with session(cli, elicitation={}) as one:
        for case in cases(PROFILES[profile], token):
            expected = case.expected(asked=True)
            for answer in ("no", "once") if expected == "question" else ("",):
                before = len(place.made())
                given: dict[str, Any] = {"tool": case.identifier, "arguments": {}}
                name = CALLS[case.tool_class]
                number = one.begin("tools/call", name=name, arguments=given)
                if answer:
                    asked = one.until(lambda each: each.get("method") == "elicitation/create")
                    assert case.identifier in asked["params"]["message"]
                    reply = {"action": "accept", "content": {"allow": answer}}
                    one.send(id=asked["id"], result=reply)
                result = one.answer(number)["result"]
                called = len(place.made()) > before
                assert called == (expected == "called" or answer == "once"), (case, answer)
                assert bool(result.get("isError")) != called
                text = result["content"][0]["text"]
                if expected == "hidden":
                    is_owner = profile == "none" and token is None
                    said = (
                        "may not be called: permissions says" if is_owner else "no tool is called"
                    )
                    assert said in text
                if answer == "no":
                    assert "did not allow this call" in text


@pytest.mark.parametrize("case", [c for c in cases() if c.rule == "allow"], ids=lambda c: c.name)
@pytest.mark.parametrize("used", CLASSES)
def test_each_tool_has_one_way_to_be_called_over_mcp(place: Place, case: Case, used: str) -> None:
    given: dict[str, Any] = {"tool": case.identifier, "arguments": {}}
    params = {"name": CALLS[used], "arguments": given}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {**place.headers("none", None), "Content-Type": "application/json"}
    before = len(place.made())
    _, answer = fetch(place.url, "/message", method="POST", headers=headers, body=body.encode())
    result = answer["result"]
    assert (len(place.made()) > before) == (used == case.tool_class)
    if used != case.tool_class:
        assert result["isError"]
        assert result["content"][0]["text"].endswith(f"call it with {CALLS[case.tool_class]}")


@pytest.mark.parametrize("case", [c for c in cases() if c.rule == "allow"], ids=lambda c: c.name)
@pytest.mark.parametrize("most", [None, *CLASSES])
def test_a_request_over_http_says_what_it_may_do_at_most(
    place: Place, case: Case, most: str | None
) -> None:
    headers = {**place.headers("none", None), "Content-Type": "application/json"}
    path = f"/tools/{case.identifier}" + (f"?class={most}" if most else "")
    status, answer = fetch(place.url, path, method="POST", headers=headers, body=b"{}")
    allowed = most is None or CLASSES.index(case.tool_class) <= CLASSES.index(most)
    assert status == (200 if allowed else 403)
    assert allowed or answer["type"] == "ToolClassError"


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_on_the_command_line(place: Place, case: Case) -> None:
    """The owner's own call; nobody is at a terminal."""
    expected = case.expected(asked=False)
    done = place.cli("call", case.identifier, "{}")
    assert (done.returncode == 0) == (expected == "called"), done.stderr
    if expected == "hidden":  # the owner is told why
        assert "permissions says deny" in done.stderr
    if case.tool_class != "read" and expected == "called":
        refused = place.cli("call", case.identifier, "{}", "--class", "read")
        assert (refused.returncode, "this call is for read tools" in refused.stderr) == (1, True)


def test_denied_tools_are_not_found_and_why_is_told_to_the_owner(place: Place) -> None:
    for name, headers in (("token", place.headers("none", None)), ("owner", {})):
        key = {"Authorization": f"Bearer {place.cli.record()['key']}"} if name == "owner" else {}
        asked = {"q": "read_deny", "why": "s__read_deny", "threshold": 0}
        _, answer = fetch(place.url, "/search", asked, headers=headers | key)
        assert "s__read_deny" not in {hit["toolId"] for hit in answer["results"]}
        assert "permissions says deny for s__read_deny" in answer["why"]["verdict"], name
    limited = place.cli.json("token", "create", "--tool", "s__read_*")["token"]
    _, answer = fetch(place.url, "/search", asked, headers=_bearer(limited))
    assert "permissions" not in answer["why"]["verdict"]


def test_a_waiting_call_is_answered_by_its_owner(place: Place) -> None:
    """Once, for a session, for always and revoked; a no and no answer are both a no."""
    cli = place.cli
    tool_id, key = "s__write_ask", place.cli.record()["key"]
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}

    def call(how: str | None, session_name: str = "") -> str:
        named = {"Toolscript-Session": session_name} if session_name else {}
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(
                fetch,
                place.url,
                f"/tools/{tool_id}",
                method="POST",
                headers={**headers, **named},
                body=b'{"secret": 1}',
            )
            if how is not None:
                listed = until(
                    lambda: fetch(place.url, "/pending", headers=headers)[1]["pending"], "waits"
                )
                assert (listed[0]["toolId"], listed[0]["holder"]) == (tool_id, "owner")
                done = cli("pending", listed[0]["id"], how)
                assert done.returncode == 0, done.stderr
            return outcome(*waiting.result())

    assert call("no") == "not allowed"
    assert call("once") == "called"
    assert call(None) == "not allowed"
    assert call("session", "a") == "called"
    assert call(None, "a") == "called"
    assert call(None, "b") == "not allowed"
    assert call("always") == "called"
    assert call(None) == "called"
    [kept] = cli.json("permissions")["remembered"]
    assert (kept["toolId"], kept["holder"]) == (tool_id, "owner")
    assert cli("permissions", "--revoke", kept["id"]).returncode == 0
    assert call(None) == "not allowed"
    assert "no call waits for you" in cli("pending").stdout


def test_only_the_owner_decides(place: Place) -> None:
    """The holder of a token that grants everything is the owner's equal; another one is not."""
    limited = place.cli.json("token", "create", "--server", "s")["token"]
    headers = {**_bearer(limited), "Content-Type": "application/json"}
    for method, path, body in (
        ("GET", "/review", None),
        ("POST", "/review", b'{"approveServer": "s"}'),
        ("GET", "/pending", None),
        ("POST", "/pending/x", b'{"answer": "always"}'),
        ("GET", "/permissions", None),
        ("POST", "/permissions/revoke", b'{"id": "x"}'),
    ):
        status, answer = fetch(place.url, path, method=method, headers=headers, body=body)
        assert (status, answer["type"]) == (403, "DeniedError"), path

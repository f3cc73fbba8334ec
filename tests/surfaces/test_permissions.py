"""Who may call what, at every door: each class under each rule, for each kind of caller.

The expected outcome is computed from the words of the documentation, not from the code: the
strictest of what the configuration, the profile and the token say; without any rule, a
destructive tool is asked about where the caller can be asked.
"""

import itertools
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest
from tests.stdio_sessions import session
from tests.support import (
    FUZZY,
    PATIENCE_S,
    Cli,
    Scripted,
    create_token,
    fetch,
    tool,
    until,
)
from tests.surfaces.doors import BY_NAME, CALLS, DOORS, EXACT, Visit

from toolscript.surfaces.mcp.request_context import EXPOSURES

CLASSES = ("read", "write", "destructive")
DECISIONS = (None, "allow", "ask", "deny")
HINTS: dict[str, dict[str, Any]] = {
    "read": {"annotations": {"readOnlyHint": True}},
    "write": {"annotations": {"destructiveHint": False}},
    "destructive": {},
}
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

    @property
    def is_owners(self) -> bool:
        """Whether the caller may see everything, and is therefore told why a tool is denied."""
        return self.profile is None and self.token is None

    def expected(self, *, asked: bool) -> str:
        """``called``, ``question``, ``not allowed`` or ``hidden``."""
        decision = self.decision()
        if decision is None:
            return "question" if self.tool_class == "destructive" and asked else "called"
        if decision == "ask":  # a token's own rule binds its bearer, whom it is no use to ask
            return "question" if asked and self.token != "ask" else "not allowed"  # noqa: S105 - a permission
        return {"allow": "called", "deny": "hidden"}[decision]


PROFILES = {"none": None, "allowing": "allow", "asking": "ask", "denying": "deny"}
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
    tokens: dict[tuple[str, str | None], str]
    """By the profile and the permission that a token has."""

    @property
    def made(self) -> set[str]:
        """The marks of the calls that the server has answered."""
        text = self.calls.read_text("utf-8") if self.calls.exists() else ""
        return {json.loads(line)["arguments"].get("mark", "") for line in text.splitlines()}

    def headers(self, profile: str, token: str | None) -> dict[str, str]:
        sent = {"Authorization": f"Bearer {self.tokens['none', token]}"}
        return sent | ({} if profile == "none" else {"Toolscript-Profile": profile})

    def visit(
        self,
        folder: Path,
        every: Iterable[Case],
        profile: str = "none",
        token: str | None = None,
        most: str | None = None,
    ) -> Visit:
        """Calls of these tools, each with a mark of its own."""
        every = list(every)
        return Visit(
            cli=self.cli,
            url=self.url,
            token=self.tokens["none", token],
            narrow=self.tokens[profile, token],
            profile=profile,
            classes={case.name: case.tool_class for case in every},
            marks={case.name: uuid4().hex for case in every},
            folder=folder,
            most=most,
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    """Where no question is answered."""
    with serving(tmp_path_factory.mktemp("permissions"), 0.1, PROFILES) as made:
        yield made


@pytest.fixture(scope="module")
def asking_place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    """Where every question is answered."""
    with serving(tmp_path_factory.mktemp("asking"), PATIENCE_S, ["none"]) as made:
        yield made


@contextmanager
def serving(
    home: Path,
    timeout_s: float,
    profiles: Iterable[str],
    storage: Mapping[str, str] = MappingProxyType({}),
) -> Generator[Place]:
    """A gateway; there are tokens with each permission for each of these profiles."""
    cli = Cli(home, {**FUZZY, "TOOLSCRIPT_APPROVAL_TIMEOUT": f"{timeout_s:g}"}, storage)
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
    tokens: dict[tuple[str, str | None], str] = {}
    with cli:
        url = cli.start_gateway()
        for profile, decision in itertools.product(profiles, TOKENS):
            words = ("--permission", f"*={decision}") if decision else ()
            words += () if profile == "none" else ("--profile", profile)
            tokens[profile, decision] = create_token(cli, *words)["token"]
        owner = _bearer(tokens["none", None])
        until(lambda: fetch(url, "/health", headers=owner)[1]["tools"], "tools")
        yield Place(cli, url, calls, tokens)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


CALLERS = [*((name, None) for name in PROFILES), ("none", "ask"), ("allowing", "deny")]
"""One of each kind: every door has these, and one door, `EVERY_CALLER`, has all combinations."""
EVERY_CALLER = "HTTP"


@pytest.mark.parametrize(
    ("door", "profile", "token"),
    [
        *((EVERY_CALLER, *each) for each in itertools.product(PROFILES, TOKENS)),
        *((door, *each) for door in DOORS if door != EVERY_CALLER for each in CALLERS),
    ],
)
def test_who_cannot_be_asked(
    place: Place, door: str, profile: str, token: str | None, tmp_path: Path
) -> None:
    """A call of each tool, at this door and by this caller, comes to what it should."""
    every = list(cases(PROFILES[profile], token))
    visit = place.visit(tmp_path, every, profile, token)
    wanted = {case.name: case.expected(asked=False) for case in every}
    if profile == "none" and token is None and door in BY_NAME:
        wanted = {name: "told" if each == "hidden" else each for name, each in wanted.items()}
    assert DOORS[door](visit) == wanted
    made = place.made
    reached = {name for name, mark in visit.marks.items() if mark in made}
    assert reached == {name for name, each in wanted.items() if each == "called"}


@pytest.mark.parametrize(("profile", "token"), CALLERS)
def test_what_is_denied_is_not_listed(place: Place, profile: str, token: str | None) -> None:
    headers = place.headers(profile, token)
    listed = {t["toolId"] for t in fetch(place.url, "/tools", headers=headers)[1]["tools"]}
    seen = [c for c in cases(PROFILES[profile], token) if c.expected(asked=False) != "hidden"]
    assert listed == {case.identifier for case in seen}


@pytest.mark.parametrize(("profile", "token"), CALLERS)
@pytest.mark.parametrize("exposure", EXPOSURES)
def test_who_can_be_asked(
    asking_place: Place, place: Place, exposure: str, profile: str, token: str | None
) -> None:
    """A client of MCP; its user allows nothing, and then everything once."""
    if token == "ask":  # noqa: S105 - a permission: questions are the owner's, who is away
        asking_place = place
    env = {"TOOLSCRIPT_GATEWAY_URL": asking_place.url}
    env |= {"TOOLSCRIPT_GATEWAY_TOKEN": asking_place.tokens["none", token]}
    env |= {} if profile == "none" else {"TOOLSCRIPT_PROFILE": profile}
    cli = Cli(asking_place.cli.home, {**asking_place.cli.env, **env})
    with session(cli, "--exposure", exposure, elicitation={}) as one:
        if exposure == "two-phase":
            one.ask("tools/call", name="tool_search", arguments={"query": "x", "max_tools": 20})
        for case in cases(PROFILES[profile], token):
            expected = case.expected(asked=True)
            for answer in ("no", "once") if expected == "question" else ("",):
                name, given = case.identifier, {"mark": uuid4().hex}
                if exposure == "search":
                    named = {"tool": name, "arguments": given}
                    number = one.begin("tools/call", name=CALLS[case.tool_class], arguments=named)
                else:
                    number = one.begin("tools/call", name=name, arguments=given)
                if answer:
                    asked = one.until(lambda each: each.get("method") == "elicitation/create")
                    assert name in asked["params"]["message"]
                    reply = {"action": "accept", "content": {"allow": answer}}
                    one.send(id=asked["id"], result=reply)
                said = one.answer(number)
                called = given["mark"] in asking_place.made
                assert called == (expected == "called" or answer == "once"), (case, answer)
                result = said.get("result", {"isError": True})
                assert bool(result.get("isError")) != called
                text = json.dumps(said)
                if expected == "hidden":
                    words = (
                        "may not be called: permissions says" if case.is_owners else "no tool is"
                    )
                    assert words in text
                if answer == "no":
                    assert "did not allow this call; whoever wants no question makes" in text
                    assert f'"{name}": "allow"' in text.replace('\\"', '"')


@pytest.mark.parametrize("case", [c for c in cases() if c.rule == "allow"], ids=lambda c: c.name)
@pytest.mark.parametrize("used", CLASSES)
def test_no_tool_is_called_by_what_calls_less_dangerous_ones(
    place: Place, case: Case, used: str
) -> None:
    mark = uuid4().hex
    given: dict[str, Any] = {"tool": case.identifier, "arguments": {"mark": mark}}
    params = {"name": CALLS[used], "arguments": given}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {**place.headers("none", None), "Content-Type": "application/json"}
    _, answer = fetch(place.url, "/message", method="POST", headers=headers, body=body.encode())
    result = answer["result"]
    is_enough = CLASSES.index(used) >= CLASSES.index(case.tool_class)
    assert (mark in place.made) == is_enough
    if not is_enough:
        assert result["isError"]
        assert result["content"][0]["text"].endswith(f"call it with {CALLS[case.tool_class]}")


@pytest.mark.parametrize("most", CLASSES)
@pytest.mark.parametrize("door", sorted(DOORS.keys() - EXACT))
def test_a_caller_says_what_a_call_may_do_at_most(
    place: Place, door: str, most: str, tmp_path: Path
) -> None:
    visit = place.visit(tmp_path, [c for c in cases() if c.rule == "allow"], most=most)
    allowed = CLASSES[: CLASSES.index(most) + 1]
    wanted = {
        name: "called" if each in allowed else "wrong class" for name, each in visit.classes.items()
    }
    assert DOORS[door](visit) == wanted
    made = place.made
    reached = {name for name, mark in visit.marks.items() if mark in made}
    assert reached == {name for name, each in wanted.items() if each == "called"}


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


@pytest.fixture
def patient(cli: Cli, scripted: Scripted) -> Cli:
    """A gateway whose calls wait for an answer as long as a test may take."""
    cli.env = {**FUZZY, "TOOLSCRIPT_APPROVAL_TIMEOUT": f"{PATIENCE_S:g}"}
    path = cli.configure(s=scripted(tool("edit") | HINTS["write"]))
    written = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(written | {"permissions": {"s__edit": "ask"}}), "utf-8")
    cli.start_gateway()
    return cli


@pytest.mark.both_storages
def test_a_waiting_call_is_answered_by_its_owner(patient: Cli) -> None:
    """Once, for a session, for always and revoked; that no answer is a no, the table says."""
    cli, record = patient, patient.record()
    own = _bearer(record["key"])

    def call(answer: str | None, session_name: str = "") -> str:
        """What becomes of a call; ``answer`` is None where nothing is to be asked."""
        named = {"Toolscript-Session": session_name} if session_name else {}
        headers = {**own, **named, "Content-Type": "application/json"}
        with ThreadPoolExecutor(1) as pool:
            more: dict[str, Any] = {"method": "POST", "headers": headers, "body": b"{}"}
            waiting = pool.submit(fetch, record["url"], "/tools/s__edit", **more)
            if answer is not None:
                listed = until(
                    lambda: fetch(record["url"], "/pending", headers=own)[1]["pending"], "waits"
                )
                assert (listed[0]["toolId"], listed[0]["holder"]) == ("s__edit", "owner")
                identifier = listed[0]["id"]
                assert f"call {identifier}: s__edit (write) is called" in cli("review").stdout
                options = ["--reject"] if answer == "no" else ["--approve"]
                options += [] if answer in {"once", "no"} else ["--for", answer]
                done = cli("review", identifier, *options)
                assert (done.returncode, done.stdout) == (0, f"s__edit: {answer}\n"), done.stderr
            status, said = waiting.result()
            assert (status, said.get("type")) in {(200, None), (403, "DeniedError")}
            return "called" if status == 200 else "not allowed"

    assert call("no") == "not allowed"
    assert call("once") == "called"
    assert call("no") == "not allowed"
    assert call("session", "a") == "called"
    assert call(None, "a") == "called"
    assert call("no", "b") == "not allowed"
    assert call("always") == "called"
    assert call(None) == "called"
    [kept] = cli.json("permissions")["remembered"]
    assert (kept["toolId"], kept["holder"]) == ("s__edit", "owner")
    assert cli("permissions", "--revoke", kept["id"]).returncode == 0
    assert call("no") == "not allowed"
    assert "no call '00000000' waits" in cli("review", "00000000", "--approve").stderr
    assert "--for is about a call" in cli("review", "s__edit", "--for", "always").stderr


@pytest.mark.both_storages
def test_an_answer_for_always_over_mcp_counts_in_the_next_session(patient: Cli) -> None:
    for is_asked in (True, False):
        with session(patient, "--exposure", "all", elicitation={}) as one:
            number = one.begin("tools/call", name="s__edit", arguments={})
            if is_asked:
                asked = one.until(lambda each: each.get("method") == "elicitation/create")
                reply = {"action": "accept", "content": {"allow": "always"}}
                one.send(id=asked["id"], result=reply)
            assert not one.answer(number)["result"].get("isError")
    [kept] = patient.json("permissions")["remembered"]
    assert kept["toolId"] == "s__edit"


def test_an_answer_about_a_former_definition_is_shown_as_such(patient: Cli) -> None:
    with session(patient, "--exposure", "all", elicitation={}) as one:
        number = one.begin("tools/call", name="s__edit", arguments={})
        asked = one.until(lambda each: each.get("method") == "elicitation/create")
        one.send(id=asked["id"], result={"action": "accept", "content": {"allow": "always"}})
        assert not one.answer(number)["result"].get("isError")
    now = patient.json("permissions")
    [kept] = now["remembered"]
    assert not now["outdated"]
    for path in patient.home.rglob("permissions/*.json"):
        path.write_text(path.read_text("utf-8").replace(kept["digest"], "0" * 16), "utf-8")
    assert patient.json("permissions")["outdated"] == [kept["id"]]
    [row] = [line for line in patient("permissions").stdout.splitlines() if kept["id"] in line]
    assert "ask (the tool has changed)" in row
    assert kept["toolClass"] in row


def test_a_rule_of_a_token_itself_asks_the_owner(patient: Cli) -> None:
    """Its bearer's client could be asked, and is not."""
    token = create_token(patient, "--permission", "s__edit=ask")["token"]
    url, own = patient.record()["url"], _bearer(patient.record()["key"])
    bearer = Cli(
        patient.home,
        {**patient.env, "TOOLSCRIPT_GATEWAY_URL": url, "TOOLSCRIPT_GATEWAY_TOKEN": token},
    )
    with session(bearer, "--exposure", "all", elicitation={}) as one:
        number = one.begin("tools/call", name="s__edit", arguments={})
        [waiting] = until(lambda: fetch(url, "/pending", headers=own)[1]["pending"], "waits")
        assert waiting["holder"] != "owner"
        assert patient("review", waiting["id"], "--approve").returncode == 0
        assert not one.answer(number)["result"].get("isError")
        assert not [each for each in one.others if each.get("method") == "elicitation/create"]


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

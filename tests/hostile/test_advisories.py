"""What was found in other programs of this kind, until November 2026: each is a row here.

A row has the advisory, the fault, whose class is a row of the table in
`docs/explanation/security.md`, and the tests that prove the refusal. Some are in this module: they
ask one gateway, or look for a door that must not be there. Add a row for a new advisory.
"""

import re
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.support import (
    FUZZY,
    NO_HUB,
    READ_FILE,
    ROOT,
    SEND_MAIL,
    Cli,
    Scripted,
    create_token,
    fetch,
)
from toolscript.surfaces.http.routes import every_endpoint
from toolscript.text.json_values import as_list, as_object

_CLASSES = {
    "credentials": "A server chooses who gets its credentials",
    "tokens": "A token counts elsewhere",
    "others": "A caller gets what is another's",
    "pages": "A web page reaches a local gateway",
    "addresses": "Somebody names an address that the gateway asks",
    "floods": "A message ends the process, or takes all of it",
    "programs": "A request or a folder starts a program",
    "persons": "A person sees less than they decide about",
    "sandboxes": "A script leaves its sandbox",
    "defaults": "A fresh installation is open",
    "meanings": "Two readers take one message for different things",
    "paths": "A name becomes a path or a command line",
    "changes": "A good server turns bad",
}


class Row(NamedTuple):
    """One advisory."""

    advisory: str
    kind: str
    """A key of `_CLASSES`."""
    fault: str
    proofs: str
    """The tests: a module below ``tests``, and names of tests in it; several with `;`."""


ROWS = (
    Row("CVE-2026-115563 GHSA-qx49-fqc8-xw99 (Python SDK)", "credentials",
        "a server names another issuer after the log-in",
        "hostile/test_issuers.py test_what_a_login_asks_for "
        "test_a_registered_client_is_kept_from_another_issuer"),
    Row("CVE-2026-104850 GHSA-6qxp-vccf-f47h (TypeScript SDK)", "credentials",
        "a refresh token goes to a new issuer",
        "hostile/test_issuers.py test_a_client_of_its_own_is_made_for_another_issuer"),
    Row("DHI-xmf2-wny7-wwz6-fx4t (FastMCP)", "credentials",
        "a client's secret goes to any issuer",
        "hostile/test_issuers.py test_a_registered_client_is_kept_from_another_issuer"),
    Row("CVE-2026-116684 GHSA-w4fh-qvv9-3v23", "tokens",
        "a token for another audience is accepted",
        "hostile/test_oidc.py test_no_such_token_asks_anything;"
        "hostile/test_oauth.py test_nothing_but_a_token_opens_a_door"),
    Row("CVE-2025-69196 GHSA-5h2m-4q8j-pqpj (FastMCP)", "tokens",
        "a token is for the base address, not for the resource",
        "surfaces/http/test_oauth.py test_the_address_of_a_profile_limits_the_token"),
    Row("CVE-2026-27124 GHSA-rww4-4w9c-7733 (FastMCP)", "others",
        "the consent of one browser counts for another",
        "hostile/test_oauth.py test_no_other_page_consents test_no_such_form_gives_a_code;"
        "hostile/test_oidc.py test_only_a_visit_comes_back"),
    Row("CVE-2026-116686 GHSA-rwrf-2pqf-9j8j", "addresses",
        "a reference in a schema is fetched",
        "hostile/test_upstream_schemas.py test_h2_no_schema_takes_more_than_its_budget"),
    Row("CVE-2026-59951 GHSA-84m7-p3x7-pcfv, CVE-2026-67430", "floods",
        "sessions without end",
        "hostile/test_requests_sessions.py test_m6_a_session_without_requests_ends "
        "test_m6_the_session_that_was_longest_idle_makes_room"),
    Row("CVE-2026-52869 GHSA-jpw9-pfvf-9f58", "others",
        "a session is another bearer's",
        "hostile/test_requests_sessions.py test_m6_a_session_is_its_holders_alone"),
    Row("CVE-2026-52870", "others",
        "a task or a result is read by its id",
        "surfaces/mcp/test_stored_results.py "
        "test_h1_a_handle_is_the_sessions_and_its_grants_alone"),
    Row("CVE-2026-59950", "pages",
        "a WebSocket is opened without a look at host and origin",
        "hostile/test_advisories.py test_no_such_request_is_answered"),
    Row("CVE-2025-66416 CVE-2026-34742 CVE-2026-42559 CVE-2025-64443", "pages",
        "a name that is bound anew reaches this machine",
        "hostile/test_advisories.py test_no_route_answers_a_foreign_host "
        "test_no_such_request_is_answered"),
    Row("CVE-2026-25536 GHSA-345p-7cg4-v4c7", "others",
        "an answer goes to another client",
        "gateway/upstream/test_request_router.py test_many_calls_at_once_are_not_mixed_up"),
    Row("CVE-2026-27896 (Go SDK)", "meanings",
        "a key counts in another case, or twice",
        "hostile/test_advisories.py test_a_message_has_one_meaning"),
    Row("GHSA-j975-95f5-7wqh", "floods",
        "an odd message ends the transport",
        "hostile/test_upstream_messages.py "
        "test_l2_an_answer_that_cannot_be_read_fails_its_request_at_once;"
        "surfaces/cli/test_cli_bridge.py test_an_odd_message_does_not_end_the_session"),
    Row("GHSA-8r9q-7v3j-jr4g (TypeScript SDK)", "floods",
        "a pattern or template takes exponential time",
        "hostile/test_upstream_schemas.py "
        "test_h2_a_regular_expression_is_checked_in_bounded_steps;"
        "hostile/test_advisories.py test_there_is_no_such_door"),
    Row("CVE-2026-63119 (Ruby SDK)", "floods",
        "a line without an end",
        "hostile/test_upstream_messages.py "
        "test_m18_a_result_past_the_limit_fails_and_the_connection_goes_on"),
    Row("CVE-2026-45609 (spring mcp-security)", "addresses",
        "an address in a client's description is asked",
        "hostile/test_oauth.py test_nothing_is_asked_on_this_machine"),
    Row("CVE-2026-134492 GHSA-3rxj-6jhw-qfv7 (mcp-server-fetch)", "addresses",
        "a private address counts as one of the internet",
        "hostile/test_internet_addresses.py test_b8_an_address_is_not_of_the_internet"),
    Row("CVE-2026-51994 (mcp-remote)", "addresses",
        "a refusal names an internal address for the log-in",
        "hostile/test_login.py "
        "test_l18_a_server_that_refuses_a_token_cannot_make_us_ask_elsewhere"),
    Row("CVE-2025-6514 (mcp-remote)", "credentials",
        "the address of a log-in becomes a command",
        "hostile/test_process_list.py test_a_login_is_begun_without_its_state_in_an_argument;"
        "hostile/test_login.py test_l18_what_a_server_may_name"),
    Row("mcp-cli before 1.13", "credentials",
        "the page of a log-in is a script",
        "hostile/test_login.py test_l18_what_a_server_may_name;"
        "hostile/test_oidc.py test_no_such_provider_is_believed"),
    Row("CVE-2025-62800 GHSA-mxxr-jv3v-6pgc (FastMCP)", "pages",
        "an error becomes a part of a page",
        "hostile/test_oidc.py test_an_error_is_shown_as_a_text;"
        "hostile/test_issuers.py test_an_error_of_another_issuer_is_not_shown"),
    Row("CVE-2025-49596 (Inspector)", "programs",
        "a route starts a program for anybody",
        "hostile/test_advisories.py test_no_request_names_a_program_or_an_address"),
    Row("CVE-2026-23744 (MCPJam)", "defaults",
        "it listens to all machines",
        "surfaces/http/test_http_tokens.py test_other_machines_need_a_token"),
    Row("CVE-2026-30623 CVE-2026-42271 (LiteLLM)", "programs",
        "a test of a connection runs a command",
        "hostile/test_advisories.py test_no_request_names_a_program_or_an_address"),
    Row("CVE-2026-59822 GHSA-7488-6r32-c95q CVE-2026-12773 (LiteLLM)", "tokens",
        "a bad token counts as none",
        "hostile/test_advisories.py test_no_such_token_counts"),
    Row("CVE-2026-49468 GHSA-4xpc-pv4p-pm3w (LiteLLM)", "meanings",
        "the host moves the route",
        "hostile/test_advisories.py test_no_such_request_is_answered"),
    Row("CVE-2026-35030 GHSA-jjhc-v7c2-5hh6 (LiteLLM)", "tokens",
        "a token counts by its beginning",
        "hostile/test_advisories.py test_no_such_token_counts"),
    Row("CVE-2026-136537 (LiteLLM)", "tokens",
        "a small token makes others",
        "hostile/test_roles.py test_the_table_of_roles_is_true"),
    Row("CVE-2026-79748 GHSA-mx89-jjx9-gjr8 (MCPHub)", "programs",
        "somebody else than the owner adds a server",
        "hostile/test_advisories.py test_no_request_names_a_program_or_an_address;"
        "hostile/test_roles.py test_the_table_of_roles_is_true"),
    Row("CVE-2026-79747 GHSA-9wx9-prgc-gmjr (MCPHub)", "addresses",
        "a user names an address that is fetched",
        "hostile/test_advisories.py test_no_request_names_a_program_or_an_address"),
    Row("CVE-2026-32871 GHSA-vv7q-7jx5-f767 (FastMCP)", "addresses",
        "a parameter leaves the path of an interface",
        "hostile/test_advisories.py test_there_is_no_such_door"),
    Row("CVE-2026-79538 (MetaMCP)", "programs",
        "an inspector's route runs code",
        "hostile/test_advisories.py test_no_request_names_a_program_or_an_address"),
    Row("CVE-2026-53709 (ContextForge)", "defaults",
        "a key is the same in every installation",
        "config/test_secret_key.py "
        "test_a_gateway_without_a_key_keeps_one_that_its_owner_alone_reads;"
        "deploy/test_chart.py test_without_a_secret_it_says_what_is_missing"),
    Row("CVE-2026-53710 GHSA-xm98-3vcf-fph7 (ContextForge)", "sandboxes",
        "Python is left by its attributes",
        "hostile/test_scripts.py test_a_probe_gets_nothing"),
    Row("CVE-2026-19958 (pptr-mcp)", "sandboxes",
        "JavaScript's `vm` is taken for a sandbox",
        "hostile/test_advisories.py test_there_is_no_such_door"),
    Row("GO-2026-5390 (Kuadrant)", "meanings",
        "a header of the inside comes from outside",
        "hostile/test_roles.py test_the_table_of_roles_is_true"),
    Row("CVE-2026-14537 (Google toolbox)", "tokens",
        "an older door knows no grants",
        "surfaces/mcp/test_mcp_tokens.py test_nothing_else_is_found_listed_described_or_called;"
        "surfaces/http/test_http_tokens.py "
        "test_a_token_of_one_server_finds_and_lists_nothing_else"),
    Row("CVE-2026-33032 (nginx-ui) CVE-2026-32211 (Azure)", "tokens",
        "the door of MCP asks for no token",
        "surfaces/http/test_http_tokens.py test_a_wrong_token_opens_no_door_of_the_protocol"),
    Row("CVE-2026-40933 CVE-2026-56274 CVE-2026-73601 CVE-2026-91931 (Flowise)", "persons",
        "a variable or a flag runs what a list of commands forbids",
        "hostile/test_trust.py "
        "test_h4_what_is_shown_cannot_steer_a_terminal_and_hides_no_argument"),
    Row("CVE-2026-34935 CVE-2026-30617 CVE-2026-30624 CVE-2026-22252 CVE-2025-65720", "programs",
        "a configuration is code",
        "hostile/test_trust.py test_h4_below_a_strangers_file_no_command_starts_anything"),
    Row("CVE-2026-30615 (Windsurf) CVE-2026-116109 (Continue)", "programs",
        "a folder that is opened starts servers",
        "hostile/test_trust.py test_h4_below_a_strangers_file_no_command_starts_anything"),
    Row("CVE-2025-54136 (Cursor)", "persons",
        "a name is trusted, and its command changes",
        "hostile/test_trust.py test_h4_trusting_is_for_one_content"),
    Row("CVE-2025-54133 (Cursor)", "persons",
        "the question hides arguments",
        "hostile/test_trust.py "
        "test_h4_what_is_shown_cannot_steer_a_terminal_and_hides_no_argument"),
    Row("CVE-2025-65099 CVE-2026-21852 (Claude Code)", "programs",
        "something runs, or a key leaves, before the question",
        "hostile/test_advisories.py test_a_folder_moves_nothing_before_it_is_trusted"),
    Row("CVE-2026-25725 (Claude Code)", "sandboxes",
        "settings are written from inside",
        "hostile/test_scripts.py test_a_probe_gets_nothing;"
        "hostile/test_trust.py test_h4_a_record_that_others_can_write_counts_for_nothing"),
    Row("CVE-2026-47751 (Claude Code Action)", "programs",
        "a pull request's file counts in CI",
        "hostile/test_advisories.py test_a_folder_moves_nothing_before_it_is_trusted"),
    Row("CVE-2026-0757 (MCP Manager)", "paths",
        "an entry reaches a shell",
        "hostile/test_advisories.py test_there_is_no_such_door"),
    Row("CVE-2025-53109 CVE-2025-53110 (filesystem)", "paths",
        "a folder's name is a beginning of another's, or a link",
        "skills/test_confined_reader.py test_a_path_that_leads_elsewhere_or_nowhere "
        "test_links_are_not_followed"),
    Row("CVE-2026-27735 (git) CVE-2026-27825 (atlassian) CVE-2026-40576 (excel)", "changes",
        "a server of a known bad version goes on",
        "surfaces/cli/test_cli_doctor.py test_packages_are_named_and_whether_they_are_pinned"),
    Row("CVE-2026-77261 CVE-2026-77267 CVE-2026-77274 (atlassian)", "addresses",
        "a redirection, or a second look-up, comes after the check",
        "hostile/test_oauth.py test_nothing_is_asked_on_this_machine;"
        "integrations/test_remote_tools.py test_a_redirection_is_not_followed"),
    Row("CVE-2026-26118 (Azure)", "addresses",
        "an argument of a call names an internal address",
        "hostile/test_advisories.py test_no_request_names_a_program_or_an_address"),
    Row("postmark-mcp", "changes",
        "a good server turns bad",
        "hostile/test_changed_tools.py "
        "test_a_change_between_list_and_call_is_noticed "
        "test_every_door_says_why_a_held_tool_is_not_there;"
        "surfaces/cli/test_cli_doctor.py test_packages_are_named_and_whether_they_are_pinned"),
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.advisory.split()[0])
def test_each_advisory_has_a_class_and_tests_that_exist(row: Row) -> None:
    assert row.kind in _CLASSES
    for proof in row.proofs.split(";"):
        module, *names = proof.split()
        source = (ROOT / "tests" / module).read_text("utf-8")
        assert names
        assert all(re.search(rf"def {name}\(", source) for name in names), proof


def test_the_page_says_what_is_done_about_each_class() -> None:
    page = (ROOT / "docs" / "explanation" / "security.md").read_text("utf-8")
    told = re.findall(r"^\| (A .+?|Somebody .+?|Two .+?) \| .+ \|$", page, re.MULTILINE)
    assert {row.kind for row in ROWS} == {*_CLASSES}
    assert [each for each in told if each in _CLASSES.values()] == [*_CLASSES.values()]


# Doors that are not there

_ABSENT = {
    "templates of addresses are matched": ("", r"(?i)uritemplate\("),
    "an interface's description becomes tools": ("config", r"(?i)openapi"),
    "JavaScript is run": ("", r"node:vm|deno run|\bnew Function\("),
    "a shell is asked": ("", r"shell\s*=\s*True|subprocess_shell|os\.system\(|getoutput\("),
    "tasks have ids for callers": ("surfaces", r"tasks/(?:get|result|list)"),
}


@pytest.mark.parametrize("door", _ABSENT)
def test_there_is_no_such_door(door: str) -> None:
    folder, pattern = _ABSENT[door]
    files = [*(ROOT / "src" / "toolscript" / folder).rglob("*.py")]
    assert files
    assert not [file for file in files if re.search(pattern, file.read_text("utf-8"))]


# One gateway with two servers, and a token for one of them


class Asked(NamedTuple):
    url: str
    token: str
    whole: str
    """A token for both."""
    calls: Path
    """The calls of the server that is not granted."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Generator[Asked]:
    home = tmp_path_factory.mktemp("advisories")
    cli, scripted, calls = Cli(home, FUZZY), Scripted(home), home / "calls"
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL, calls=str(calls)))
    token, whole = create_token(cli, "--server", "files"), create_token(cli)
    with cli:
        yield Asked(cli.start_gateway(), token["token"], whole["token"], calls)


def _status(url: str, head: str) -> int:
    """The status of an answer to a request that is sent as it is."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), 30) as connection:
        connection.sendall(head.encode())
        return int(connection.makefile("rb").readline().split()[1])


def _get(asked: Asked, host: str, *headers: str, target: str = "/tools") -> str:
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {asked.token}"]
    return "\r\n".join([*lines, *headers, "Connection: close", "", ""])


def test_no_request_names_a_program_or_an_address(asked: Asked) -> None:
    """No parameter and no body: so nobody starts a server by a request, or has one asked."""
    bearer = {"Authorization": f"Bearer {asked.token}"}
    document = fetch(asked.url, "/openapi.json", headers=bearer)[1]
    names = set[str]()

    def collect(part: Any) -> None:
        fields, schemas = as_object(part), document["components"]["schemas"]
        names.update(as_object(fields.get("properties")))
        names.update([str(fields["name"])] if "in" in fields else [])
        for each in (*fields.values(), *as_list(part)):
            collect(each)
        if "$ref" in fields:
            collect(schemas.pop(fields["$ref"].rpartition("/")[2], None))  # each once

    operations = [each for path in document["paths"].values() for each in path.values()]
    for each in operations:
        collect([each.get("parameters"), each.get("requestBody")])
    assert {"q", "arguments"} & names
    assert not names & {"command", "args", "env", "url", "cwd", "headers", "host", "redirect"}


@pytest.mark.parametrize(
    "route", every_endpoint(), ids=lambda route: f"{route.method} {route.path}"
)
def test_no_route_answers_a_foreign_host(asked: Asked, route: Any) -> None:
    request = _get(asked, "evil.example", "Content-Length: 0", target=route.path)
    assert _status(asked.url, request.replace("GET", route.method, 1)) == 400


WEBSOCKET = (
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)


@pytest.mark.parametrize(
    ("host", "headers", "target"),
    [
        *(
            pytest.param(host, (), "/tools", id=host)
            for host in (
                "127.0.0.1.",
                "localhost.",
                "localhost.evil.example",
                "evil@127.0.0.1",
                "127.0.0.1@evil.example",
                "127.0.0.1/?x=",
                "127.0.0.1#",
                "0x7f.1",
                "2130706433",
                "127.0.0.1, evil.example",
                "[::ffff:127.0.0.1]",
                "127.1",
                "",
            )
        ),
        pytest.param("127.0.0.1", ("Origin: http://evil.example",), "/tools", id="origin"),
        pytest.param("127.0.0.1", ("Origin: null",), "/tools", id="no origin"),
        pytest.param("127.0.0.1", ("Sec-Fetch-Site: cross-site",), "/tools", id="page"),
        pytest.param("127.0.0.1", WEBSOCKET, "/mcp", id="websocket"),
        pytest.param("evil.example", WEBSOCKET, "/mcp", id="foreign websocket"),
        pytest.param(
            "127.0.0.1", (*WEBSOCKET, "Origin: http://evil.example"), "/ui", id="page's websocket"
        ),
        pytest.param("127.0.0.1", (), "//tools", id="doubled"),
        pytest.param("127.0.0.1", (), "/live/../tools", id="up"),
        pytest.param("127.0.0.1", (), "/live%2f..%2ftools", id="hidden up"),
    ],
)
def test_no_such_request_is_answered(
    asked: Asked, host: str, headers: tuple[str, ...], target: str
) -> None:
    assert 400 <= _status(asked.url, _get(asked, host, *headers, target=target)) < 500


CHANGES = [
    "",
    "{token}x",
    "{shorter}",
    "{begins}",
    "{swapped}",
    "{token}, {token}",
    "sk-1234",
    "null",
]


@pytest.mark.parametrize("change", [*CHANGES, "x" * 8000])
@pytest.mark.parametrize("scheme", ["Bearer", "Basic", ""])
def test_no_such_token_counts(asked: Asked, change: str, scheme: str) -> None:
    token, begins = asked.token, f"{asked.token[:20]:x<{len(asked.token)}}"
    shown = change.format(token=token, shorter=token[:-1], begins=begins, swapped=token.swapcase())
    headers = {"Authorization": f"{scheme} {shown}".strip()}
    for path in ("/tools", "/mcp", "/mcp/p/any", "/search?q=x", "/servers", "/ui/search.json"):
        assert fetch(asked.url, path, headers=headers)[0] == 401


MAIL = '{"id": 1, "method": "tools/call", "params": {"name": "mail:send_mail", "arguments": {}}}'
FILES = MAIL.replace("mail:send_mail", "files:read_file")
MESSAGES = {
    "plain": MAIL,
    "another case": MAIL.replace("method", "Method"),
    "both cases": MAIL.replace('"method"', '"method": "tools/list", "METHOD"'),
    "a name twice": FILES.replace('"arguments"', '"name": "mail:send_mail", "arguments"'),
    "a name twice, first": MAIL.replace('"arguments"', '"name": "files:read_file", "arguments"'),
    "a name in two cases": FILES.replace('"arguments"', '"Name": "mail:send_mail", "arguments"'),
    "parameters twice": FILES[:-1] + ", " + MAIL[MAIL.index('"params"') :],
    "an escape": MAIL.replace("send_mail", "send\\u005fmail"),
    "a batch": f"[{MAIL}]",
    "a byte order mark": f"\ufeff{MAIL}",
}


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_has_one_meaning(asked: Asked, message: str) -> None:
    """The gate and the server read the same: a grant for one server reaches no other."""
    headers = {"Authorization": f"Bearer {asked.token}", "Content-Type": "application/json"}
    body = MESSAGES[message].encode()
    for path in ("/message", "/mcp", "/tools/files:read_file"):
        fetch(asked.url, path, method="POST", headers=headers, body=body)
    assert not asked.calls.exists()


def test_an_honest_request_is_answered(asked: Asked) -> None:
    """Without a change the same requests do something: the tests above see it."""
    for host in ("127.0.0.1", "LOCALHOST:1", "[::1]"):
        assert _status(asked.url, _get(asked, host)) == 200
    owner = {"Authorization": f"Bearer {asked.whole}", "Content-Type": "application/json"}
    fetch(asked.url, "/message", method="POST", headers=owner, body=MAIL.encode())
    assert asked.calls.exists()
    asked.calls.unlink()


# A folder of somebody else's


@pytest.mark.parametrize("variables", [{}, {"CI": "true", "GITHUB_ACTIONS": "true"}])
@pytest.mark.parametrize("command", ["list-servers", "search read", "doctor", "token list"])
def test_a_folder_moves_nothing_before_it_is_trusted(
    cli: Cli, scripted: Scripted, command: str, variables: dict[str, str]
) -> None:
    """Its files name programs, proxies and addresses: none starts, and none is asked."""
    cli.configure(files=scripted(READ_FILE))
    folder = cli.home / "project"
    folder.mkdir()
    started = folder / "started"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        proxies = "".join(f"{name}={address}\n" for name in ("HTTP_PROXY", "ALL_PROXY"))
        model = f"TOOLSCRIPT_SEARCH_MODEL=ollama://{address.removeprefix('http://')}/m\n"
        (folder / ".env").write_text(f"{proxies}{model}TOOLSCRIPT_DATA_DIR={folder}\n", "utf-8")
        (folder / "pyproject.toml").write_text(f'[tool.toolscript]\nurl = "{address}"\n', "utf-8")
        evil = f'{{"command": "touch", "args": ["{started}"]}}, "b": {{"url": "{address}/mcp"}}'
        for name in (".toolscript.json", ".mcp.json"):
            (folder / name).write_text(f'{{"mcpServers": {{"a": {evil}}}}}', "utf-8")
        cli(*command.split(), cwd=folder, env={**FUZZY, **NO_HUB, **variables})
        with pytest.raises(TimeoutError):
            listener.accept()
    assert not started.exists()
    assert sorted(path.name for path in folder.iterdir()) == [
        ".env", ".mcp.json", ".toolscript.json", "pyproject.toml",
    ]  # fmt: skip

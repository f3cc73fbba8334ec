"""Attacks on a login by OAuth, as the security considerations of its RFCs list them.

RFC 6749 and 9700 (redirections, codes, downgrades), 7636 (PKCE), 7591 (registration), 8252
(programs on the user's machine), 8707 (audience), 9207 (issuers), and client documents. Each
attack changes one step of a login that would succeed; none may create a token or lead a browser
anywhere.
"""

import json
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from ssl import create_default_context
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import anyio
import pytest

from tests.servers.documents import Documents, document_server
from tests.support import fetch
from tests.surfaces.oauth_flow import (
    CALLBACK,
    CHALLENGE,
    FORM,
    LEAVE_OUT,
    VERIFIER,
    Flow,
    led,
    oauth_gateway,
)
from tests.surfaces.web.browser import Answer, Browser
from toolscript.config.access_tokens import TokenStore
from toolscript.config.secret_key import SecretKey
from toolscript.errors import InputError
from toolscript.surfaces.server.authorization_server import (
    CODE_S,
    REQUEST_S,
    OAuthError,
    OAuthServer,
)
from toolscript.surfaces.server.oauth_client_metadata import ClientDocuments

EVIL = "https://evil.example/callback"
JSON = "application/json"
LONG = 10_000


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Generator[Flow]:
    with oauth_gateway(tmp_path_factory.mktemp("attacked")) as flow:
        yield flow


def count(flow: Flow) -> int:
    """How many tokens there are."""
    files = list(flow.cli.home.rglob("tokens/tokens-*.json"))
    return sum(len(json.loads(file.read_bytes())["tokens"]) for file in files)


def check_harmless(answer: Answer) -> None:
    """An answer that refuses, asks nothing, and leads nowhere."""
    assert answer.status >= 400, answer.body
    assert not {"location", "refresh", "access-control-allow-origin"} & set(answer.headers)
    assert "evil.example" not in answer.headers.get("content-security-policy", "")
    if answer.headers["content-type"].startswith("text/html"):
        assert answer.page.all("input", name="request") == []
        assert [a for a in answer.page.all("a") if "evil" in (a.attributes["href"] or "")] == []


# Registration

ADDRESSES = [
    *("http://evil.example/cb", "http://127.0.0.1.evil.example/cb", "http://localhost.evil/cb"),
    *("http://127.1/cb", "http://2130706433/cb", "http://0x7f000001/cb", "http://0.0.0.0/cb"),
    *("http://[::]/cb", "http://localhost./cb", "http://user@127.0.0.1/cb", "http://10.0.0.1/cb"),
    *("https://user:password@app.example/cb", "https://app.example@evil.example/cb"),
    *("https://app.example/cb#fragment", "https://app.example/cb#", "https://app.example\\@evil/"),
    *(
        "javascript:alert(1)",
        "javascript://app.example/%0aalert(1)",
        "JavaScript://a.b/%0aalert(1)",
    ),
    *("data:text/html,<script>alert(1)</script>", "data://text/html", "vbscript://a.b/c"),
    *("file:///etc/passwd", "file://app.example/etc/passwd", "blob:https://app.example/1"),
    *("about:blank", "about://blank", "view-source://app.example/", "chrome://settings/"),
    *("intent://app.example/cb", "ftp://app.example/cb", "ws://app.example/", "mailto:a@b.example"),
    *("//app.example/cb", "/cb", "cb", "", "https:", "https://", "https:///cb", "://app.example"),
    *("https://app.example:0/cb", "https://app.example:99999/cb", "https://app.example:x/cb"),
    *("https://app.example/c b", " https://app.example/cb", "https://app.example/cb\t"),
    *("https://app.example/cb\r\nSet-Cookie: a=b", "https://app.example/cb\n", "https://a.b/\0"),
    *("https://äpp.example/cb", "https://app.example/ü", "https://app.example/\u202ebc"),
    *('https://app.example/"onload=', "https://app.example/<script>", "https://app.example/`"),
    *("https://[app.example/cb", f"https://app.example/{'a' * 500}", "https://app.example/{cb}"),
]


@pytest.mark.parametrize("uri", ADDRESSES)
def test_no_client_registers_such_an_address(uri: str, flow: Flow) -> None:
    for uris in ([uri], [CALLBACK, uri]):
        status, answer = flow.register(redirect_uris=uris)
        assert (status, answer["error"]) == (400, "invalid_redirect_uri")


DESCRIPTIONS: dict[str, tuple[bytes, dict[str, str]]] = {
    "no addresses": (b'{"client_name": "x"}', {}),
    "an empty list": (b'{"redirect_uris": []}', {}),
    "null": (b'{"redirect_uris": null}', {}),
    "a text": (b'{"redirect_uris": "https://app.example/cb"}', {}),
    "a number": (b'{"redirect_uris": [1]}', {}),
    "a list within": (b'{"redirect_uris": [["https://app.example/cb"]]}', {}),
    "too many": (json.dumps({"redirect_uris": [CALLBACK] * 11}).encode(), {}),
    "a name that is no text": (b'{"redirect_uris": ["https://a.b/c"], "client_name": {}}', {}),
    "no object": (b"[]", {}),
    "no JSON": (b"redirect_uris=x", {}),
    "nothing": (b"", {}),
    "no UTF-8": (b'{"redirect_uris": ["https://a.b/c"], "client_name": "\xff"}', {}),
    "half a character": (b'{"redirect_uris": ["https://a.b/c"], "client_name": "\\ud800"}', {}),
    "too large": (json.dumps({"redirect_uris": [CALLBACK], "x": "x" * 20_000}).encode(), {}),
    "brackets": (b"[" * 16_000, {}),
    "a form": (b'{"redirect_uris": ["https://a.b/c"]}', {"Content-Type": FORM}),
    "plain text": (b'{"redirect_uris": ["https://a.b/c"]}', {"Content-Type": "text/plain"}),
    "no type": (b'{"redirect_uris": ["https://a.b/c"]}', {"Content-Type": ""}),
    "another site": (
        b'{"redirect_uris": ["https://a.b/c"]}',
        {"Content-Type": JSON, "Origin": "https://evil.example"},
    ),
    "a browser's other site": (
        b'{"redirect_uris": ["https://a.b/c"]}',
        {"Content-Type": JSON, "Sec-Fetch-Site": "cross-site"},
    ),
    "another host": (
        b'{"redirect_uris": ["https://a.b/c"]}',
        {"Content-Type": JSON, "Host": "evil.example"},
    ),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_no_client_registers_so(name: str, flow: Flow) -> None:
    body, headers = DESCRIPTIONS[name]
    sent = {"Content-Type": JSON, **headers}
    status, answer = fetch(flow.url, "/oauth/register", method="POST", headers=sent, body=body)
    assert 400 <= status < 500, answer
    assert "client_id" not in answer


def test_a_flood_of_registrations_fills_nothing(flow: Flow) -> None:
    """Nothing is stored, so the client before them stays."""
    before = sorted(file for file in flow.cli.home.rglob("*") if "cache" not in file.parts)
    for number in range(300):
        assert flow.register(client_name=f"flood {number}")[0] == 201
    assert sorted(f for f in flow.cli.home.rglob("*") if "cache" not in f.parts) == before
    assert flow.ask().status == 200


# Requests

REQUESTS: dict[str, list[Any]] = {
    "response_type": [LEAVE_OUT, "token", "code token", "", "CODE", ["code", "token"]],
    "code_challenge": [
        *(LEAVE_OUT, "", CHALLENGE[:-1], CHALLENGE + "A", CHALLENGE + "=", CHALLENGE[:-1] + " "),
        *(CHALLENGE + "\n", CHALLENGE[:-1] + "+", "ä" * 43, [CHALLENGE, "A" * 43]),
    ],
    "code_challenge_method": [LEAVE_OUT, "plain", "s256", "S512", "", "S256 ", ["S256", "plain"]],
    "resource": [
        *("https://evil.example/mcp", "{url}.evil.example/mcp", "{url}@evil.example/mcp"),
        *("{url}/tools", "{url}/mcp?x=1", "{url}/mcp#x", "{url}/mcp/../tools", "{url}/mcp/p/"),
        *("{url}/mcp/p/reader?x", "{url}/mcp//", "{url}/mcp/search/x/y", "{url}/mcp/p/nobody"),
        *("", "/mcp", "{url}1/mcp", "https://127.0.0.1/mcp", "{url} ", "{url}/mcp\n"),
        ["{url}/mcp", "https://evil.example/mcp"],
    ],
    "redirect_uri": [
        *(LEAVE_OUT, "", EVIL, CALLBACK + "/", CALLBACK + "?x=1", CALLBACK + "#x", CALLBACK + " "),
        *(
            CALLBACK + ".evil.example",
            "https://APP.example/callback",
            "HTTPS://app.example/callback",
        ),
        *("http://app.example/callback", "https://app.example:443/callback", "https://app.example"),
        *("https://app.example/x/../callback", "https://app.example/%63allback", "/callback"),
        *("https://user@app.example/callback", "https://app.example@evil.example/callback"),
        *("https://sub.app.example/callback", "https://app.example//callback"),
        *("javascript:alert(1)", CALLBACK + "\r\nX: y", "http://127.0.0.1/callback"),
        [CALLBACK, EVIL],
    ],
    "state": ["x" * 2_001, ["a", "b"]],
    "client_id": [
        *(LEAVE_OUT, "", "x", "client-", "client-AAAA", "client-" + "A" * LONG, "client-ä"),
        *("{client}A", "{client}=", "{request}", "client-{request}", "client-{code}", "x{client}"),
        *(
            "{client}\n",
            "http://app.example/client.json",
            "https://app.example/",
            "ftp://a.example/b",
        ),
        *("https://app.example/a/../b", "https://app.example/a/%2e%2e/b", "https://a.example/b#c"),
        *("https://user@app.example/b", "file:///etc/passwd", "data:application/json,{{}}"),
        *(
            "https:///b",
            "https://a b/c",
            "https://localhost/b",
            "https://[::1]/b",
            "https://127.1/b",
        ),
        *("https://169.254.169.254/latest/meta-data", "https://[::ffff:127.0.0.1]/b"),
        *("https://no-such-host.invalid/b", f"https://app.example/{'b' * 500}"),
        ["client-x", "client-y"],
    ],
}
"""The values of each parameter that lead nowhere; a list is a parameter that comes twice."""


def rows(table: Mapping[str, list[Any]]) -> Any:
    """A test of each value of each parameter."""
    each = [(name, value) for name, values in table.items() for value in values]
    return pytest.mark.parametrize(("name", "value"), each, ids=lambda part: repr(part)[:60])


def filled(value: Any, **known: str) -> Any:
    """A value with the name of something known replaced by that."""
    if isinstance(value, list):
        return [filled(each, **known) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value.format(**known) if isinstance(value, str) else value


@rows(REQUESTS)
def test_no_such_request_reaches_the_owner(name: str, value: Any, flow: Flow) -> None:
    known = {"url": flow.url, "client": flow.client_id, "request": flow.held(), "code": flow.code()}
    check_harmless(flow.ask(**{name: filled(value, **known)}))


def test_plain_challenges_and_none_at_all_reach_nobody(flow: Flow) -> None:
    check_harmless(flow.ask(code_challenge=VERIFIER, code_challenge_method="plain"))
    check_harmless(flow.ask(code_challenge=LEAVE_OUT, code_challenge_method=LEAVE_OUT))


def test_only_the_owner_is_asked(flow: Flow) -> None:
    """Before anything of the request is looked at: strangers learn nothing, and fetch nothing."""
    limited = flow.cli.json("token", "create", "--server", "files")["token"]
    shown = flow.stranger.open("/ui/link", "POST", "{}", Authorization=f"Bearer {limited}").json
    bearer = Browser(flow.url)
    assert bearer.open(shown["path"]).status == 303
    for browser, status in ((flow.stranger, 401), (bearer, 403)):
        answer = flow.ask(browser)
        check_harmless(answer)
        assert answer.status == status
        refusal = browser.send("/ui/authorize", request=flow.held(), answer="allow", days="7")
        check_harmless(refusal)
        assert refusal.status == status


# Consent

OWN = {"Content_Type": FORM, "Origin": "null", "Sec_Fetch_Site": "same-origin"}
FORGERIES: dict[str, dict[str, str]] = {
    "another origin": {"Content_Type": FORM, "Origin": "https://evil.example"},
    "another site": {**OWN, "Sec_Fetch_Site": "cross-site"},
    "another port": {**OWN, "Sec_Fetch_Site": "same-site"},
    "another site's navigation": {
        **OWN,
        "Sec_Fetch_Site": "cross-site",
        "Sec_Fetch_Dest": "document",
    },
    "no origin": {"Content_Type": FORM},
    "a hidden origin": {"Content_Type": FORM, "Origin": "null"},
    "plain text": {**OWN, "Content_Type": "text/plain"},
    "JSON": {**OWN, "Content_Type": JSON},
    "parts": {**OWN, "Content_Type": "multipart/form-data; boundary=x"},
    "another host": {**OWN, "Host": "evil.example"},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_no_other_page_consents(name: str, flow: Flow) -> None:
    """With the owner's cookie and a request that the owner was asked about."""
    body = f"request={flow.held()}&answer=allow&profile=&days=7"
    check_harmless(flow.owner.open("/ui/authorize", "POST", body, **FORGERIES[name]))


FORMS: dict[str, list[Any]] = {
    "days": ["0", "-1", "", "8", "36500", "7.5", "1e9", "\u0667", "7\n7", "nan"],
    "profile": ["nobody", "READER", "reader,x", "../x", "*"],
    "request": ["", "x", "A" * 100, "{request}A", "{request}=", "{code}", "{client}", "A" * LONG],
}


@rows(FORMS)
def test_no_such_form_gives_a_code(name: str, value: str, flow: Flow) -> None:
    request, code = flow.held(), flow.code()
    client = flow.client_id.removeprefix("client-")
    changed = filled(value, request=request, code=code, client=client)
    check_harmless(flow.decide(**{"request": request, name: changed}))


@pytest.mark.parametrize("answer", ["", "deny", "ALLOW", "yes", "allow,deny", "true"])
def test_every_other_answer_is_a_refusal(answer: str, flow: Flow) -> None:
    assert led(flow.decide(flow.held(), answer=answer))["error"] == "access_denied"


def test_consent_cannot_be_framed_or_cached(flow: Flow) -> None:
    for answer in (flow.ask(), flow.decide(flow.held())):
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "state",
    ["a\r\nSet-Cookie: x=y", "<script>", "ä\u202e😀", "a&code=b&iss=c", "%0d%0a", "\t \x7f"],
)
def test_a_state_comes_back_as_it_was_and_does_no_more(state: str, flow: Flow) -> None:
    answer = flow.decide(flow.held(state=state))
    assert "set-cookie" not in answer.headers
    query = parse_qs(urlsplit(answer.headers["refresh"].removeprefix("0; url=")).query)
    assert (query["state"], query["iss"], len(query["code"])) == ([state], [flow.url], 1)


# Codes

EXCHANGES: dict[str, list[Any]] = {
    "grant_type": [
        *(LEAVE_OUT, "password", "client_credentials", "refresh_token", "", "AUTHORIZATION_CODE"),
        *("urn:ietf:params:oauth:grant-type:token-exchange", "authorization_code "),
        ["authorization_code", "client_credentials"],
    ],
    "code": [
        *(LEAVE_OUT, "", "x", "{code}A", "{code}=", "{code}\n", "A{code}", "{request}", "{client}"),
        *("A" * LONG, ["x", "{code}"]),
    ],
    "client_id": [
        *(LEAVE_OUT, "", "x", "{other}", "client-{client}A", "https://app.example/b"),
        *("CLIENT-{client}", ["{other}", "client-{client}"]),
    ],
    "redirect_uri": [
        *(LEAVE_OUT, "", EVIL, CALLBACK + "/", "HTTPS://app.example/callback"),
        *("http://127.0.0.1/cb", [EVIL, CALLBACK]),
    ],
    "code_verifier": [
        *(LEAVE_OUT, "", "w" * 64, CHALLENGE, "v" * 42, "v" * 129, VERIFIER[:-1]),
        *(VERIFIER + "\n", "ä" * 64, ["w" * 64, VERIFIER]),
    ],
    "resource": [
        *("https://evil.example/mcp", "{url}/mcp/all", "{url}/mcp/p/reader", "", "{url}"),
        ["https://evil.example/mcp", "{url}/mcp"],
    ],
}


@rows(EXCHANGES)
def test_no_such_exchange_gives_a_token(name: str, value: Any, flow: Flow) -> None:
    code, request = flow.code(), flow.held()
    changed = filled(
        value,
        url=flow.url,
        code=code,
        request=request,
        client=flow.client_id.removeprefix("client-"),
        other=flow.register(client_name="Other")[1]["client_id"],
    )
    before = count(flow)
    sent: dict[str, Any] = {"code": code, name: changed}
    status, answer = flow.exchange(sent.pop("code"), **sent)
    assert status in {400, 401}, answer
    assert set(answer) == {"error", "error_description"}
    assert count(flow) == before
    assert flow.exchange(code)[0] == 200, "the honest exchange would have succeeded"


HEADERS: dict[str, Mapping[str, str]] = {
    "JSON": {"Content-Type": JSON},
    "parts": {"Content-Type": "multipart/form-data; boundary=x"},
    "plain text": {"Content-Type": "text/plain"},
    "another origin": {"Content-Type": FORM, "Origin": "https://evil.example"},
    "another site": {"Content-Type": FORM, "Sec-Fetch-Site": "cross-site"},
    "another host": {"Content-Type": FORM, "Host": "evil.example"},
}


@pytest.mark.parametrize("name", HEADERS)
def test_no_page_exchanges_a_code(name: str, flow: Flow) -> None:
    sent = dict(HEADERS[name])
    before = count(flow)
    status, answer = flow.exchange(flow.code(), headers=sent)
    assert 400 <= status < 500, answer
    assert "access_token" not in answer
    assert count(flow) == before


def test_a_scope_that_is_asked_for_gives_no_more(flow: Flow) -> None:
    """The owner decides; the answer says which scope there is."""
    given = flow.exchange(flow.code(scope="mcp admin owner *"), scope="admin")[1]
    assert given["scope"] == "mcp"
    bearer = {"Authorization": f"Bearer {given['access_token']}"}
    for path in ("/permissions", "/review", "/pending", "/ui/access.json", "/ui/doctor.json"):
        assert fetch(flow.url, path, headers=bearer)[0] == 403


def test_nothing_but_a_token_opens_a_door(flow: Flow) -> None:
    code, request = flow.code(), flow.held()
    cookie = next(iter(flow.owner.cookies.values()))
    for each in (code, request, flow.client_id, cookie, VERIFIER, CHALLENGE, "", "null", "ts_"):
        assert flow.opens(each) == 401
    for path in ("/mcp?access_token=", "/mcp?token="):
        token = flow.exchange(flow.code())[1]["access_token"]
        answer = flow.post(path + token, "{}", JSON)
        assert answer[0] == 401


def test_a_revoked_token_is_not_had_again_by_its_code(flow: Flow) -> None:
    code = flow.code()
    token = flow.exchange(code)[1]["access_token"]
    for each in flow.tokens():
        flow.cli("token", "revoke", each["id"])
    assert flow.opens(token) == 401
    assert flow.exchange(code)[0] == 400
    assert count(flow) == 0


def test_methods_that_are_not_meant_do_nothing(flow: Flow) -> None:
    for path in ("/oauth/token", "/oauth/register"):
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            assert fetch(flow.url, path, method=method)[0] == 405
    check_harmless(flow.owner.open("/ui/authorize", "PUT"))


# Time, replicas and other gateways


class Clock:
    """A time that a test sets."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def server(folder: Path, clock: Clock, issuer: str = "https://a.example") -> OAuthServer:
    """A replica: each has its own store over the same file, and the same key."""
    tokens = TokenStore(folder, "test")
    return OAuthServer(issuer, SecretKey("k" * 32), tokens, ClientDocuments(), clock)


def asked(oauth: OAuthServer) -> dict[str, str]:
    """The parameters of a client that has registered there."""
    registered = oauth.register(json.dumps({"redirect_uris": [CALLBACK]}).encode())
    return {
        "response_type": "code",
        "client_id": registered["client_id"],
        "redirect_uri": CALLBACK,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }


def allowed(oauth: OAuthServer, parameters: dict[str, str]) -> list[tuple[str, str]]:
    """The form of an exchange, after consent."""
    request = anyio.run(oauth.check, parameters.items())
    answer = dict(parse_qsl(urlsplit(oauth.allow(request, "", 7)).query))
    return [
        ("grant_type", "authorization_code"),
        ("code", answer["code"]),
        ("client_id", parameters["client_id"]),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ]


def test_a_code_counts_for_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    oauth = server(tmp_path, clock)
    form = allowed(oauth, asked(oauth))
    clock.now += CODE_S + 1
    with pytest.raises(OAuthError, match="too old"):
        anyio.run(oauth.exchange, form)
    clock.now -= 2
    assert anyio.run(oauth.exchange, form)["access_token"]


def test_a_question_counts_for_ten_minutes(tmp_path: Path) -> None:
    clock = Clock()
    oauth = server(tmp_path, clock)
    sealed = oauth.seal_request(anyio.run(oauth.check, asked(oauth).items()))
    clock.now += REQUEST_S + 1
    with pytest.raises(InputError, match="too old"):
        oauth.read_request(sealed)
    clock.now -= 2
    assert oauth.read_request(sealed).redirect_uri == CALLBACK


def test_another_gateway_with_the_same_key_takes_nothing(tmp_path: Path) -> None:
    """Mixed-up issuers: clients, questions and codes belong to one."""
    clock = Clock()
    one, other = server(tmp_path, clock), server(tmp_path, clock, "https://b.example")
    parameters = asked(one)
    form = allowed(one, parameters)
    with pytest.raises(OAuthError):
        anyio.run(other.exchange, form)
    with pytest.raises(InputError):
        anyio.run(other.check, parameters.items())
    with pytest.raises(InputError):
        other.read_request(one.seal_request(anyio.run(one.check, parameters.items())))
    assert anyio.run(one.exchange, form)["access_token"]


def test_of_many_exchanges_at_once_at_most_one_gives_a_token(tmp_path: Path) -> None:
    """On several replicas; afterwards the token is taken back, since the code came again."""
    clock = Clock()
    replicas = [server(tmp_path, clock) for _ in range(8)]
    form = allowed(replicas[0], asked(replicas[0]))

    def exchange(oauth: OAuthServer) -> bool:
        try:
            return bool(anyio.run(oauth.exchange, form)["access_token"])
        except OAuthError:
            return False

    with ThreadPoolExecutor(len(replicas)) as threads:
        assert sum(threads.map(exchange, replicas)) == 1
    assert TokenStore(tmp_path, "test").all() == ()


# Client documents


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Generator[Documents]:
    with document_server(tmp_path_factory.mktemp("documents")) as documents:
        yield documents


def fetching(documents: Documents) -> ClientDocuments:
    """Fetches from this machine, too."""
    tls = create_default_context(cafile=str(documents.certificate))
    return ClientDocuments(may_ask=lambda _: True, tls=tls)


def test_an_honest_document_is_believed(documents: Documents) -> None:
    client = anyio.run(fetching(documents).fetch, documents.put("/honest.json"))
    assert client.name == "Documented"
    assert client.accepts("http://127.0.0.1:4711/callback")


CLAIMS: dict[str, dict[str, Any]] = {
    "another's id": {"client_id": "https://claude.ai/client.json"},
    "no id": {"client_id": ""},
    "its id in capitals": {"client_id": "HTTPS://LOCALHOST/claims.json"},
    "a secret": {"client_secret": "s"},
    "a method with a secret": {"token_endpoint_auth_method": "client_secret_basic"},
    "a method with a key": {"token_endpoint_auth_method": "private_key_jwt"},
    "an evil address": {"redirect_uris": ["javascript://a.b/%0aalert(1)"]},
    "no address": {"redirect_uris": []},
    "an address of another machine": {"redirect_uris": ["http://evil.example/cb"]},
}


@pytest.mark.parametrize("name", CLAIMS)
def test_no_such_document_is_believed(name: str, documents: Documents) -> None:
    with pytest.raises(InputError):
        anyio.run(fetching(documents).fetch, documents.put("/claims.json", **CLAIMS[name]))


BODIES: dict[str, tuple[bytes, int, dict[str, str]]] = {
    "too large": (b'{"x": "' + b"x" * 11_000 + b'"}', 200, {}),
    "no JSON": (b"<html>", 200, {}),
    "no UTF-8": (b'{"client_id": "\xff"}', 200, {}),
    "brackets": (b"[" * 10_000, 200, {}),
    "compressed": (b"\x1f\x8b" + b"\0" * 100, 200, {"content-encoding": "gzip"}),
    "missing": (b"", 404, {}),
    "a fault": (b"", 500, {}),
    "moved": (b"", 302, {"location": "https://localhost/honest.json"}),
    "moved to this machine": (b"", 307, {"location": "http://169.254.169.254/latest/meta-data"}),
    "nothing": (b"", 200, {}),
}


@pytest.mark.parametrize("name", BODIES)
def test_no_such_body_is_a_document(name: str, documents: Documents) -> None:
    body, status, headers = BODIES[name]
    url = documents.put_bytes("/body.json", body, status, **headers)
    before = len(documents.requests)
    with pytest.raises(InputError):
        anyio.run(fetching(documents).fetch, url)
    assert documents.requests[before:] == ["/body.json"], "no redirection is followed"


def test_a_body_without_end_is_cut(documents: Documents) -> None:
    sent: list[int] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while len(sent) < 10_000:
                request.wfile.write(b" " * 10_000)
                sent.append(10_000)
        except OSError:
            pass  # hung up

    documents.answers["/endless.json"] = answer
    with pytest.raises(InputError, match="more than"):
        anyio.run(fetching(documents).fetch, f"{documents.url}/endless.json")
    assert len(sent) < 10_000


def test_a_certificate_has_to_count(documents: Documents) -> None:
    url = documents.put("/honest.json")
    with pytest.raises(InputError, match="cannot be fetched"):
        anyio.run(ClientDocuments(may_ask=lambda _: True).fetch, url)


def test_the_certificate_is_that_of_the_name(documents: Documents) -> None:
    """Though the address is asked: this name is not in it."""
    port = urlsplit(documents.url).port
    url = f"https://127.0.0.2:{port}/honest.json"
    with pytest.raises(InputError, match="cannot be fetched"):
        anyio.run(fetching(documents).fetch, url)


def test_nothing_is_asked_on_this_machine(documents: Documents) -> None:
    url, before = documents.put("/honest.json"), len(documents.requests)
    tls = create_default_context(cafile=str(documents.certificate))
    with pytest.raises(InputError, match="no host of the internet"):
        anyio.run(ClientDocuments(tls=tls).fetch, url)
    assert len(documents.requests) == before

"""Strategies for what is sent: JSON-RPC in which anything may be anything, headers and forms."""

import json
from typing import Any

import hypothesis
from hypothesis import strategies as st

_NO_CHECKS: Any = list(hypothesis.HealthCheck)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
}
"""What a request of the newest protocol says of its client."""
_METHODS = (
    *("initialize", "notifications/initialized", "ping", "tools/list", "tools/call", "tools/call"),
    *("prompts/list", "prompts/get", "resources/list", "resources/read"),
    *("notifications/cancelled", "logging/setLevel", "server/discover", "roots/list", "x", ""),
)
_NAMES = (
    *("search_tools", "describe_tools", "read_tool", "call_tool", "call_destructive_tool"),
    *("tool_search", "search_skills", "read_skill", "s__echo", "s:echo", "Vector.SearchSkills"),
)
_KEYS = (
    *("query", "limit", "context_tools", "tools", "tool", "arguments", "skill", "file"),
    *("max_tools", "uri", "name", "_meta", "protocolVersion", "capabilities", "clientInfo"),
    *("requestState", "inputResponses", "requestId", "cursor", "ref", "argument", "include_skills"),
)
_ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, 2**70, "", "x", "\x00", "﷽", "\ud800", "a" * 9000, "s__echo"),
    *("2025-06-18", "2026-07-28", "../../etc/passwd", "__", " ", "%00", "${HOME}", "{}", "["),
)


def run(strategy: st.SearchStrategy[Any], cases: int, seed: int, use: Any) -> None:
    """Use so many examples, the same for a seed; fewer where there are no more."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=_NO_CHECKS,
    )
    @hypothesis.given(strategy)
    def each(example: Any) -> None:
        use(example)

    each()


def _mostly(
    usual: st.SearchStrategy[Any], *others: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """The usual one in three of four examples; ``one_of`` counts equal strategies once."""
    return st.integers(0, 3).flatmap(lambda number: usual if number else st.one_of(*others))


def encoded(value: Any) -> bytes:
    """Returns a value as JSON."""
    return json.dumps(value).encode()


def _values() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from(_ODD) | st.sampled_from(_NAMES) | st.integers() | st.text(max_size=30)
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=8), inner, max_size=5)
        ),
        max_leaves=12,
    )


def _requests(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Requests with a right frame, in whose parameters anything may be anything."""
    arguments = st.dictionaries(st.sampled_from(_KEYS), values, max_size=5)
    params = st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(_NAMES) | values,
            "arguments": arguments | values,
            "uri": values,
            "_meta": values,
            "protocolVersion": values,
            "capabilities": values,
            "clientInfo": values,
        },
    )
    return st.fixed_dictionaries(
        {
            "jsonrpc": st.just("2.0"),
            "id": st.integers(0, 2**40),
            "method": st.sampled_from(_METHODS),
            "params": params,
        }
    )


def _messages() -> st.SearchStrategy[Any]:
    values = _values()
    requests = _requests(values)
    broken = st.tuples(
        requests,
        st.dictionaries(
            st.sampled_from(("jsonrpc", "id", "method", "params", "result", "error")),
            values,
            max_size=3,
        ),
        st.sets(st.sampled_from(("jsonrpc", "id", "method", "params")), max_size=2),
    ).map(lambda made: {k: v for k, v in {**made[0], **made[1]}.items() if k not in made[2]})
    return _mostly(requests | broken, st.lists(broken, max_size=3), values)


def bodies() -> st.SearchStrategy[bytes]:
    """Messages, and what is none."""
    messages = _messages().map(encoded)
    cut = st.tuples(messages, st.integers(0, 200), st.binary(max_size=4)).map(
        lambda parts: parts[0][: parts[1]] + parts[2]
    )
    deep = st.integers(1, 3000).map(lambda levels: b"[" * levels + b"]" * levels)
    odd = st.sampled_from(
        [b"", b"NaN", b'{"id":1e999}', b'{"a":1,"a":2}', b"\xff\xfe", b"null", b"\xef\xbb\xbf{}"]
    )
    return _mostly(messages, cut, deep, odd, st.binary(max_size=60))


_JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_HEADER_TEXTS = st.sampled_from(
    ["", "x", "2025-06-18", "2026-07-28", "1", "a" * 300, "../..", "%00", "tools/call"]
)


def odd_headers() -> st.SearchStrategy[dict[str, str]]:
    """Headers of MCP and of toolscript, with any value."""
    names = st.sampled_from(
        [
            *("Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-Id"),
            *("Toolscript-Session", "Toolscript-Profile", "Toolscript-Project"),
        ]
    )
    accepts = st.sampled_from([_JSON["Accept"], "application/json", "*/*"])
    more = st.dictionaries(names, _HEADER_TEXTS, max_size=2)
    return st.tuples(accepts, more).map(lambda pair: {**_JSON, "Accept": pair[0], **pair[1]})


def posts() -> st.SearchStrategy[tuple[bytes, dict[str, str]]]:
    """Bodies with headers that have nothing to do with them."""
    return st.tuples(bodies(), odd_headers())


SESSIONS = ("live", "damaged", "ended")
"""Whose id a request of the older protocols has: see `fuzz_doors`."""


def session_posts() -> st.SearchStrategy[tuple[bytes, dict[str, str]]]:
    """Posts with the id of a session, which ``Session`` names, and at which byte it is damaged."""
    sessions = st.sampled_from(SESSIONS)
    places = st.integers(0, 400)
    versions = st.sampled_from([{}, {"Mcp-Protocol-Version": "2025-06-18"}])
    return st.tuples(bodies(), sessions, places, versions).map(
        lambda made: (made[0], {**_JSON, **made[3], "Session": made[1], "Place": str(made[2])})
    )


def newest_posts() -> st.SearchStrategy[tuple[bytes, dict[str, str]]]:
    """Requests of the newest protocol, whose headers say what their bodies do."""

    def framed(request: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
        params = request["params"]
        name, method = params.get("name", params.get("uri")), request["method"]
        named = {"Mcp-Name": name} if isinstance(name, str) and name.isascii() else {}
        headers = {**_JSON, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, **named}
        shown = {key: value for key, value in headers.items() if value.isprintable()}
        return encoded({**request, "params": {**params, "_meta": META}}), shown

    return _requests(_values()).map(framed)


PATHS = (
    *("/", "/search.json", "/tools/s__echo", "/tools/s__erase", "/tools/s__echo.json"),
    *("/servers", "/servers/s", "/servers.json", "/review", "/activity", "/activity.json"),
    *("/graph", "/skills", "/access", "/doctor", "/link"),
    *("/enter", "/leave", "/static/page.css", "/static/../x", "/none", "/servers/s.json"),
)
_FIELDS = (
    *("q", "limit", "threshold", "alpha", "why", "server", "servers", "text", "tool", "who"),
    *("outcome", "before", "name", "code", "approve", "reject", "call", "answer"),
    *("id", "token", "revoke", "query", "tools", "restart", "add", "remove"),
)


def page_requests() -> st.SearchStrategy[tuple[str, str, list[tuple[str, str]], dict[str, str]]]:
    """A method, a path below the page's address, fields, and headers."""
    texts = st.sampled_from([str(each) for each in _ODD if each != "\ud800"]) | st.text(
        st.characters(exclude_categories=["Cs"]), max_size=30
    )
    paths = _mostly(st.sampled_from(PATHS), texts.map(lambda text: f"/tools/{text}"[:300]))
    fields = st.lists(st.tuples(st.sampled_from(_FIELDS), texts), max_size=5)
    own = st.just({"Origin": "null", "Sec-Fetch-Site": "same-origin"})
    headers = _mostly(own, st.sampled_from([{}, {"Sec-Fetch-Site": "cross-site"}]))
    cookies = _mostly(st.just("live"), st.sampled_from(["none", "odd"]))
    kinds = _mostly(
        st.just("application/x-www-form-urlencoded"),
        st.sampled_from(["application/json", "multipart/form-data", ""]),
    )
    sent = st.tuples(headers, cookies, kinds).map(
        lambda made: {**made[0], "Session": made[1], "Content-Type": made[2]}
    )
    methods = st.sampled_from([*["GET"] * 5, *["POST"] * 4, "PUT"])
    return st.tuples(methods, paths, fields, sent)

"""The frame of the page: who is let in, what answers say of themselves, what forms have to be."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support import (
    FUZZY,
    READ_FILE,
    SEND_MAIL,
    Cli,
    Scripted,
    create_token,
    revoke_token,
)
from tests.surfaces.web.browser import Browser

import toolscript.surfaces.web
from toolscript.surfaces.server.authentication import Access
from toolscript.surfaces.server.page_sessions import (
    LINK_S,
    MAX_LINKS,
    MAX_SESSIONS,
    SESSION_S,
    PageSessions,
)
from toolscript.surfaces.web.rendering import NAVIGATION
from toolscript.surfaces.web.screens import MAX_FORM_BYTES
from toolscript.types import Grant

WEB = Path(toolscript.surfaces.web.__file__).parent
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """A gateway of two servers, which lets this machine in as long as there is no token."""
    home = tmp_path_factory.mktemp("door")
    cli, scripted = Cli(home, FUZZY), Scripted(home)
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
    with cli:
        cli.start_gateway()
        yield cli


@pytest.fixture
def guarded(door: Cli) -> Generator[Cli]:
    """The same, with a token."""
    create_token(door)
    yield door
    door("token", "off")


def browser(door: Cli) -> Browser:
    return Browser(door.record()["url"])


def link_of(door: Cli) -> str:
    """A link that lets the owner in, without the gateway's address."""
    return door("gateway", "page", "--print").stdout.strip().removeprefix(door.record()["url"])


def test_every_answer_says_what_the_browser_may_do(door: Cli) -> None:
    visitor = browser(door)
    paths = ["/ui/", "/ui/search.json", "/ui/none", "/ui/enter?code=x", "/ui/static/page.css"]
    for path in paths:
        headers = visitor.open(path).headers
        policy = [each.split(None, 1) for each in headers["content-security-policy"].split(";")]
        assert dict(policy) == POLICY, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


def test_a_screen_has_nothing_inline_and_nothing_from_elsewhere(door: Cli) -> None:
    visitor = browser(door).log_in(door)
    for element in (e for path, _ in NAVIGATION for e in visitor.page(f"/ui{path}").all("*")):
        assert element.tag != "style"
        assert not [n for n in element.attributes if n == "style" or n.startswith("on")]
        if element.tag == "script":
            assert not element.text
        for name in ("src", "href", "action"):
            target = element.attributes.get(name)
            assert target is None or re.match(r"/ui|#", target), target


def test_every_screen_is_also_json(door: Cli) -> None:
    visitor = browser(door).log_in(door)
    for path, _ in NAVIGATION:
        place = "/search" if path == "/" else path
        assert isinstance(visitor.open(f"/ui{place}.json").json, dict)


def test_what_is_not_there(door: Cli) -> None:
    answer = browser(door).open("/ui/none")
    assert answer.status == 404
    assert "there is no page at /ui/none" in answer.page.one("main").text


def test_the_scripts_and_the_style_are_small_and_ours() -> None:
    scripts = [*WEB.glob("static/*.js")]
    assert scripts
    assert sum(path.stat().st_size for path in scripts) <= 25_000
    assert not [path for path in WEB.rglob("*") if "min." in path.name]


# Logging in


def test_with_a_token_the_page_asks_to_log_in(guarded: Cli) -> None:
    answer = browser(guarded).open("/ui/")
    assert answer.status == 401
    assert "toolscript gateway page" in answer.page.one("main").text
    assert not answer.page.all("nav")
    assert browser(guarded).open("/ui/search.json").status == 401


def test_a_link_becomes_a_cookie_once(guarded: Cli) -> None:
    link = link_of(guarded)
    first, second = browser(guarded), browser(guarded)
    entered = first.open(link)
    cookie = entered.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/ui"} <= {e.strip() for e in cookie.split(";")}
    assert "You are the owner" in first.page("/ui/").one("footer").text
    again = second.open(link)
    assert again.status == 403
    assert "opened already" in again.page.one("main").text
    assert second.open("/ui/").status == 401


def test_the_cookie_opens_nothing_but_the_page(guarded: Cli) -> None:
    visitor = browser(guarded).log_in(guarded)
    assert visitor.open("/servers").status == 401
    assert visitor.open("/search?q=x").status == 401


def test_a_session_has_what_its_token_grants_and_ends_with_it(guarded: Cli) -> None:
    made, url = create_token(guarded, "--server", "files"), guarded.record()["url"]
    env = {"TOOLSCRIPT_GATEWAY_URL": url, "TOOLSCRIPT_GATEWAY_TOKEN": made["token"]}
    visitor = browser(guarded).log_in(guarded, **env)
    found = visitor.open("/ui/search.json?q=send_mail&threshold=0").json
    assert {hit["serverName"] for hit in found["search"]["results"]} == {"files"}
    assert "You are the owner" not in visitor.page("/ui/").one("footer").text
    revoke_token(guarded, made["id"], made["token"])
    assert visitor.open("/ui/").status == 401


def test_only_a_link_may_be_opened_from_elsewhere(guarded: Cli) -> None:
    link = link_of(guarded)
    code = link.rpartition("=")[2]
    visitor = browser(guarded)
    led = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"}

    def waiting() -> bool:
        return visitor.open("/ui/link/waiting", "POST", code).json["isWaiting"]

    assert waiting()
    for path, headers in {
        link: led | {"Sec_Fetch_Dest": "iframe"},
        f"{link}&x=": led | {"Origin": "null"},
        "/ui/": led,
        "/ui/search.json": led,
    }.items():
        assert visitor.open(path, **headers).status == 403
    assert waiting(), "what is refused does not use it up"
    answer = visitor.open(link, **led)
    assert (answer.status, answer.headers["refresh"]) == (200, "0; url=/ui/")
    assert "You are the owner" in visitor.page("/ui/").one("footer").text
    assert not waiting()


def test_logging_out_ends_the_session(guarded: Cli) -> None:
    visitor = browser(guarded).log_in(guarded)
    cookies = dict(visitor.cookies)
    assert visitor.send("/ui/leave").status == 303
    visitor.cookies = cookies
    assert visitor.open("/ui/").status == 401


def test_links_and_sessions_are_few_and_short() -> None:
    now, admitted = 0.0, {"a", "b"}
    a, b = Access(Grant(), "a"), Access(Grant(), "b")
    sessions = PageSessions[Access](lambda holder: holder in admitted, lambda: now)
    late = sessions.link(a)
    now = LINK_S
    assert sessions.enter(late) is None
    secret = sessions.enter(sessions.link(a))
    assert secret is not None
    assert sessions.find(secret) == a
    other = sessions.enter(sessions.link(b))
    admitted.remove("b")
    assert other is not None
    assert sessions.find(other) is None
    now += SESSION_S
    assert sessions.find(secret) is None
    links = [sessions.link(a) for _ in range(MAX_LINKS + 1)]
    assert sessions.enter(links[0]) is None
    assert sessions.enter(links[1])
    admitted.add("b")
    waiting = sessions.link(b)
    other = sessions.enter(sessions.link(b)) or ""
    made = [sessions.enter(sessions.link(a)) or "" for _ in range(MAX_SESSIONS + 1)]
    assert [sessions.find(made[at]) for at in (0, -1)] == [None, a]
    assert sessions.find(other) == b, "many of one holder end nothing of another"
    assert sessions.enter(waiting)
    assert sessions.find("") is None


# Forms


def test_a_long_form_is_refused_before_it_is_read(door: Cli) -> None:
    visitor = browser(door).log_in(door)
    refused = visitor.send("/ui/access", revoke="%" * MAX_FORM_BYTES)
    assert refused.status == 400
    assert f"at most {MAX_FORM_BYTES} are read" in refused.page.one("main").text
    fits = "a" * (MAX_FORM_BYTES - 200)
    assert visitor.send("/ui/access", revoke=fits).status == 404


def test_a_form_has_to_be_the_pages_own(guarded: Cli) -> None:
    visitor = browser(guarded).log_in(guarded)
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    ids, own = [create_token(guarded)["id"] for _ in range(2)], {"Sec_Fetch_Site": "same-origin"}

    def send(**headers: str) -> int:
        return visitor.open("/ui/access", "POST", f"revoke={ids[-1]}", **headers).status

    origin = visitor.url
    assert send(**form) == 403, "nothing says where it comes from"
    assert send(**form, Origin="null") == 403
    assert send(**form, Origin="https://evil.example") == 403
    assert send(**form, Origin="null", Sec_Fetch_Site="cross-site") == 403
    assert send(**form, Origin=origin, Sec_Fetch_Site="same-site") == 403
    assert send(Content_Type="text/plain", Origin=origin) == 400
    assert all(each in visitor.page("/ui/access").one("main").text for each in ids)
    assert send(**form, Origin=origin) == 303
    ids.pop()
    assert send(**form, Origin="null", **own) == 303


def test_a_visitor_who_is_nobody_decides_nothing(door: Cli) -> None:
    """While there are no tokens everybody on this machine may search, but not decide."""
    visitor = browser(door)
    assert "Open to this machine" in visitor.page("/ui/").one("footer").text
    assert visitor.send("/ui/access", revoke="x").status == 403
    assert visitor.open("/ui/access").status == 403

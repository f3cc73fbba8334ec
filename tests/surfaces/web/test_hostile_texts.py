"""Texts of servers that try to run, or to break the page: read without a browser."""

import html
from collections.abc import Generator
from urllib.parse import quote

import pytest
from tests.support import fetch
from tests.surfaces.web.browser import Browser, Element
from tests.surfaces.web.hostile import PAYLOADS, hostile_gateway

from toolscript.text.display import harmless

OWN = {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "nav", "main"),
    *("footer", "span", "form", "button", "p", "div", "section", "h1", "h2", "h3", "dl", "dt"),
    *("dd", "table", "thead", "tbody", "tr", "th", "td", "ol", "ul", "li", "label", "input"),
    *("select", "option", "textarea", "details", "summary", "svg", "rect", "path", "pre", "code"),
    *("abbr", "i", "strong", "br", "kbd", "time", "ins", "del", "defs", "marker", "circle"),
    *("text", "search-lab", "live-part"),
}
"""The elements that templates have: every other one would be a server's."""


def check(page: Element) -> None:
    """Fails for an element, an attribute or an address that is not the page's own."""
    scripts = 0
    for element in page.all("*"):
        assert element.tag in OWN, element
        names = set(element.attributes)
        assert not {n for n in names if n.startswith("on") or n in {"style", "srcdoc"}}, element
        for name in ("href", "src", "action"):
            target = element.attributes.get(name) or "/ui"
            assert target.startswith(("/ui", "#", "?")), element
        scripts += element.tag == "script"
    assert scripts == 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    with hostile_gateway(tmp_path_factory.mktemp("hostile")) as (cli, url):
        yield Browser(url).log_in(cli)


@pytest.fixture(scope="module")
def known(site: Browser) -> list[str]:
    """The ids of the tools that the gateway took."""
    found = [each["id"] for each in site.open("/ui/servers/s.json").json["tools"]]
    assert len(found) > 50, "most of the names are taken"
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/ui/",
        "/ui/?q=read+the+file&limit=100&threshold=0&alpha2=0&skills=true",
        "/ui/servers",
        "/ui/servers/s",
        "/ui/review",
        "/ui/activity",
        "/ui/graph",
        "/ui/doctor",
    ],
)
def test_a_screen_shows_texts_as_texts(site: Browser, known: list[str], path: str) -> None:
    check(site.page(path))


def test_each_tool(site: Browser, known: list[str]) -> None:
    for identifier in known:
        path = f"/ui/tools/{quote(identifier)}"
        page = site.page(path)
        check(page)
        assert harmless(identifier.partition("__")[2]) == page.one("h1").text, identifier


@pytest.mark.parametrize("text", PAYLOADS[:50:2], ids=range(25))
def test_what_a_visitor_sends_comes_back_as_text(site: Browser, text: str) -> None:
    for path in (
        f"/ui/?q={quote(text)}&why={quote(text)}&limit=3",
        f"/ui/?q=x&open={quote(text)}&profile={quote(text)}",
        f"/ui/tools/{quote(text)}",
        f"/ui/servers/{quote(text)}",
        f"/ui/activity?tool={quote(text[:100])}&who={quote(text)}",
        f"/ui/{quote(text)}",
    ):
        answer = site.open(path)
        assert answer.status < 500, (path, answer.body)
        if answer.headers["content-type"].startswith("text/html"):
            check(answer.page)


def test_what_callers_send_is_shown_as_text(site: Browser, known: list[str]) -> None:
    """As the name of a tool, on every page of the activity."""
    headers = {"Content-Type": "application/json"}
    texts = [text for text in PAYLOADS[:50] if not {"\n", "\0"} & {*text}]  # as in no name
    for name in [known[0], *(text[:40] for text in texts)]:
        fetch(site.url, f"/tools/{quote(name)}", method="POST", headers=headers, body=b"{}")
    shown, path = 0, "/ui/activity"
    while path:
        page = site.page(path)
        check(page)
        shown += len(page.all("tr")) - 1
        older = [e for e in page.all("a") if e.text == "Older calls"]
        path = f"/ui/activity{older[0].attributes['href']}" if older else ""
    assert shown > len(texts)


def test_what_is_hidden_is_marked(site: Browser, known: list[str]) -> None:
    body = site.open("/ui/?q=evil+hidden&limit=100&threshold=0").body
    assert not {c for c in html.unescape(body) if c in "\u202e\u2066\u200b\x1b\x00\x07"}

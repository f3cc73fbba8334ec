"""A small browser for the page: it keeps cookies, sends forms, and reads HTML without scripts."""

import http.client
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.support import PATIENCE_S, Cli

VOID = {"meta", "link", "input", "br", "hr", "img", "rect"}


@dataclass
class Element:
    """An element of a page, with its text."""

    tag: str
    attributes: dict[str, str | None]
    children: list["Element | str"] = field(default_factory=list["Element | str"])

    @property
    def text(self) -> str:
        """All text within, with blanks folded."""
        parts = (each if isinstance(each, str) else each.text for each in self.children)
        return " ".join("".join(f" {part}" for part in parts).split())

    def all(self, tag: str, **attributes: str) -> list["Element"]:
        """The elements within that have this tag and these attributes (``class_`` for class)."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        found: list[Element] = []
        for child in self.children:
            if isinstance(child, Element):
                has = all(
                    value in (child.attributes.get(name) or "").split()
                    if name == "class"
                    else child.attributes.get(name) == value
                    for name, value in wanted.items()
                )
                found += [child] if has and tag in {child.tag, "*"} else []
                found += child.all(tag, **attributes)
        return found

    def one(self, tag: str, **attributes: str) -> "Element":
        """The one element of this description."""
        found = self.all(tag, **attributes)
        assert len(found) == 1, (tag, attributes, len(found))
        return found[0]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parsed(html: str) -> Element:
    """The elements of a page; fails where they are not closed in their order."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert [each.tag for each in parser.open] == [""], "every element is closed"
    return parser.root


@dataclass
class Answer:
    """What came back: a redirection is not followed."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def page(self) -> Element:
        """The HTML."""
        assert self.headers["content-type"].startswith("text/html"), self.body
        return parsed(self.body)

    @property
    def json(self) -> Any:
        """The JSON."""
        assert self.headers["content-type"] == "application/json", self.body
        return json.loads(self.body)


@dataclass
class Browser:
    """Asks a gateway for pages."""

    url: str
    cookies: dict[str, str] = field(default_factory=dict[str, str])

    def open(self, path: str, method: str = "GET", body: str = "", **headers: str) -> Answer:
        """Asks for a path; ``headers`` have ``_`` for ``-``."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=PATIENCE_S
        )
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            connection.request(method, path, body.encode(), sent)
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            for cookie in response.headers.get_all("set-cookie") or ():
                name, _, value = cookie.partition(";")[0].partition("=")
                self.cookies[name] = value.strip('"')
            return Answer(response.status, received, response.read().decode(errors="replace"))
        finally:
            connection.close()

    def page(self, path: str) -> Element:
        """The screen at a path, which is there."""
        answer = self.open(path)
        assert answer.status == 200, answer.body
        return answer.page

    def send(self, path: str, **fields: str | list[str]) -> Answer:
        """Sends a form of the page itself."""
        kind = "application/x-www-form-urlencoded"
        own = {"Content_Type": kind, "Origin": "null", "Sec_Fetch_Site": "same-origin"}
        return self.open(path, "POST", urlencode(fields, doseq=True), **own)

    def log_in(self, cli: Cli, **env: str) -> "Browser":
        """Opens the link of ``toolscript gateway page``."""
        done = cli("gateway", "page", "--print", env=env)
        assert done.returncode == 0, done.stderr
        link = done.stdout.strip()
        assert link.startswith(self.url)
        answer = self.open(link.removeprefix(self.url))
        assert (answer.status, answer.headers["location"]) == (303, "/ui/"), answer.body
        return self

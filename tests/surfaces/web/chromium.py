"""A real browser: the system's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.base import (  # pyright: ignore[reportMissingTypeStubs] - it has none
    AXE_SCRIPT,
)
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}
SCHEMES = ("light", "dark")
_WATCH = """
window.ran = [];
window.violations = [];
for (const name of ["alert", "confirm", "prompt"]) window[name] = () => window.ran.push(name);
document.addEventListener("securitypolicyviolation", (e) =>
  window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
"""


def executable() -> str:
    """The path of Chromium; skips the test where there is none."""
    given = os.environ.get("TOOLSCRIPT_TEST_CHROMIUM")
    found = given or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip("there is no Chromium; on Debian: apt install chromium")
    return found


@dataclass
class Chromium:
    """Opens pages, each in a context of its own with the cookies of a session."""

    browser: Any
    url: str
    cookies: list[Any] = field(default_factory=list[Any])

    @contextmanager
    def page(
        self,
        path: str = "/ui/",
        size: str = "wide",
        scheme: str = "light",
        said: str = "",
        **more: Any,
    ) -> Generator[Page]:
        """A page at a path; fails where something ran that should not, or was refused.

        ``said`` is part of what the console may say.
        """
        width, height = SIZES[size]
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            **more,
        )
        context.add_cookies(self.cookies)
        context.add_init_script(_WATCH)
        heard: list[str] = []
        page: Page = context.new_page()
        page.on("pageerror", lambda error: heard.append(str(error)))

        def hear(message: ConsoleMessage) -> None:
            if message.type == "error":
                heard.append(f"{message.text} {message.location['url']}")

        page.on("console", hear)
        try:
            page.goto(self.url + path)
            yield page
            if more.get("java_script_enabled", True):
                assert page.evaluate("[window.ran, window.violations]") == [[], []]
            complaints = [each for each in heard if not said or said not in each]
            assert not complaints, complaints
        finally:
            context.close()

    def log_in(self, link: str) -> None:
        """Opens a link of ``toolscript gateway page``; the pages after this have its session."""
        context = self.browser.new_context()
        page = context.new_page()
        page.goto(link)
        self.cookies = context.cookies()
        context.close()


@contextmanager
def launched() -> Generator[Any]:
    """The browser, for as long as the block lasts: its thread can run no event loop then."""
    path = executable()
    with sync_playwright() as playwright:
        # Text without coloured edges looks the same on every screen that a picture is shown on.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-lcd-text"]
        )
        try:
            yield browser
        finally:
            browser.close()


def axe_problems(page: Page, scheme: str = SCHEMES[0]) -> list[str]:
    """What axe-core finds wrong with a page: only its colours in another scheme than the first."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if scheme != SCHEMES[0]:
        options["runOnly"] = ["cat.color"]
    # Nothing else is handed over: what passes is most of a result.
    found = page.evaluate("options => axe.run(options).then(all => all.violations)", options)
    return [
        f"{rule['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for rule in found
        for node in rule["nodes"]
    ]


def overflow(page: Page) -> int:
    """How many pixels a page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

"""Pictures of every screen, over real servers in a real browser.

With ``TOOLSCRIPT_TEST_PICTURES=docs/guides/pictures`` they are written there.
"""

import base64
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from tests.support import ROOT, Cli, processes, stop_all
from tests.surfaces.web.chromium import (
    SCHEMES,
    SIZES,
    Chromium,
    axe_problems,
    launched,
    overflow,
)
from tests.surfaces.web.real_site import RealSite, real_site

pytestmark = pytest.mark.servers
PICTURES = ROOT / "docs" / "guides" / "pictures"
SCREENS = {
    "search": "/?q=read+a+file&open=filesystem__read_text_file",
    "compare": "/?q=save+my+work&threshold=0.2&alpha2=0&why=git_commit",
    "questions": "/questions?measure=true",
    "tool": "/tools/sqlite__read_query",
    "servers": "/servers",
    "server": "/servers/calendar",
    "review": "/review",
    "activity": "/activity",
    "savings": "/savings",
    "graph": "/graph",
    "skills": "/skills",
    "access": "/access",
    "doctor": "/doctor",
}
MAX_HEIGHT = 1600
QUALITY = 100


@pytest.fixture(scope="module")
def engine() -> Generator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(
    engine: Any, real_servers: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Generator[RealSite]:
    with real_site(engine, tmp_path_factory.mktemp("home"), real_servers) as made:
        yield made


@pytest.fixture(scope="module")
def empty(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Generator[Chromium]:
    """A gateway with no servers."""
    cli = Cli(tmp_path_factory.mktemp("empty"))
    cli.configure()
    try:
        yield Chromium(engine, cli.start_gateway())
    finally:
        stop_all([cli.record()["pid"]])
        assert not processes(str(cli.home))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    given = os.environ.get("TOOLSCRIPT_TEST_PICTURES")
    return ROOT / given if given else tmp_path


def take(page: Page, path: Path, home: Path) -> None:
    """Saves a picture in which the home directory is written as a user would."""
    page.evaluate(
        """home => {
          const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          while (all.nextNode()) all.currentNode.data = all.currentNode.data.replaceAll(home, "~");
        }""",
        str(home),
    )
    page.evaluate("document.activeElement.blur()")
    size: Any = page.viewport_size
    height = min(MAX_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size({"width": size["width"], "height": height})
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(shot["data"]))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_over_real_servers(
    site: RealSite, name: str, size: str, scheme: str, folder: Path
) -> None:
    with site.chromium.page(f"/ui{SCREENS[name]}", size, scheme) as page:
        assert axe_problems(page) == []
        assert overflow(page) <= 0
        if name == "tool":
            page.get_by_label("query required").fill("select item, amount from orders")
            page.get_by_role("button", name="Call").click()
            page.locator("#result").wait_for()
        take(page, folder / f"{name}-{size}-{scheme}.webp", site.home)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_first_visit(empty: Chromium, size: str, scheme: str, folder: Path) -> None:
    with empty.page("/ui/", size, scheme) as page:
        assert axe_problems(page) == []
        take(page, folder / f"first-visit-{size}-{scheme}.webp", folder)

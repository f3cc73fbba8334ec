"""The page over real servers in a real browser: every screen and its picture.

All pictures go to a temporary folder; with ``TOOLSCRIPT_TEST_PICTURES=docs/guides/pictures`` in the
environment, and ``--endurance``, those that the guide shows are renewed.
"""

import base64
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.support import ROOT, Cli
from tests.surfaces.web.chromium import SCHEMES, SIZES, Chromium, axe_problems, launched, overflow
from tests.surfaces.web.real_site import RealSite, real_site

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]
long = pytest.mark.long  # the usual run has the same screens in `test_chromium.py`
GUIDE = ROOT / "docs" / "guides" / "page.md"
PICTURES = GUIDE.parent / "pictures"
FIRST_VISIT = "first-visit"
SCREENS = {
    "search": "/?q=read+a+file&open=filesystem__read_text_file",
    "why-not": "/?q=save+my+work&threshold=0.2&alpha=0&why=git_commit",
    "tool": "/tools/time__convert_time",
    "servers": "/servers",
    "server": "/servers/calendar",
    "review": "/review",
    "activity": "/activity",
    "graph": "/graph",
    "skills": "/skills",
    "access": "/access",
    "doctor": "/doctor",
}
MAX_HEIGHT = 1600
QUALITY = 60
MAX_TOTAL_BYTES = 800_000
_SHORTEN = """home => {
  const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (all.nextNode()) all.currentNode.data = all.currentNode.data.replaceAll(home, "~");
  document.activeElement.blur();
}"""


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
    """A gateway without servers."""
    cli = Cli(tmp_path_factory.mktemp("empty"))
    cli.configure()
    with cli:
        yield Chromium(engine, cli.start_gateway())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("TOOLSCRIPT_TEST_PICTURES")
    return ROOT / given if given else tmp_path_factory.mktemp("pictures")


def picture_name(screen: str, size: str, scheme: str) -> str:
    return f"{screen}-{size}-{scheme}.webp"


IN_GUIDE = ("search", "servers", "review", "activity")
NAMES = {picture_name(screen, "wide", scheme) for screen in IN_GUIDE for scheme in SCHEMES}


def check_and_take(page: Page, name: str, folder: Path, home: Path) -> None:
    """Checks a screen in each scheme, and takes its pictures.

    In these the home directory is ``~``, and what is far below is cut off.
    """
    size: Any = page.viewport_size
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert axe_problems(page, scheme) == []
        assert overflow(page) <= 0
        page.evaluate(_SHORTEN, str(home))
        height = min(MAX_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
        page.set_viewport_size({"width": size["width"], "height": height})
        page.evaluate("scrollTo(0, 0)")
        session: Any = page.context.new_cdp_session(page)
        shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
        page.set_viewport_size(size)
        file = folder / f"{name}-{scheme}.webp"
        if folder != PICTURES or file.name in NAMES:
            file.write_bytes(base64.b64decode(shot["data"]))


@long
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_over_real_servers(site: RealSite, name: str, size: str, folder: Path) -> None:
    with site.chromium.page(f"/ui{SCREENS[name]}", size) as page:
        if name in {"search", "why-not"}:
            page.reload()  # the first search since the start takes longest, and the picture says so
        elif name == "activity":
            expect(page.locator("tbody tr")).not_to_have_count(0)
        check_and_take(page, f"{name}-{size}", folder, site.home)


@long
@pytest.mark.parametrize("size", SIZES)
def test_the_first_visit(empty: Chromium, size: str, folder: Path) -> None:
    with empty.page("/ui/", size) as page:
        expect(page.locator("main")).to_contain_text("Nothing is configured yet")
        check_and_take(page, f"{FIRST_VISIT}-{size}", folder, folder)


def test_every_picture_is_in_the_guide_and_small() -> None:
    there = {path.name for path in PICTURES.iterdir()}
    assert there == NAMES
    text = GUIDE.read_text("utf-8")
    assert not [name for name in NAMES if f"pictures/{name}" not in text]
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) <= MAX_TOTAL_BYTES

"""The documentation says what is true: its code runs, its commands exist, its links lead somewhere.

What a page shows is compared with what comes out, numbers up to a small difference, since the
model's last digits depend on the processor.
"""

import ast
import contextlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click
import pytest
import yaml

from tests import launcher
from tests.docs.pages import (
    DOCS,
    ROOT,
    Fence,
    Mention,
    anchors,
    check_command,
    commands,
    every_fence,
    fences,
    links,
    name_of,
    pages,
    prose,
)
from tests.support import NO_HUB
from toolscript.config import servers as config
from toolscript.config.entry import KEYS
from toolscript.config.entry_aliases import ALIASES, SWITCH_KEYS, UNREAD_KEYS
from toolscript.config.file_parser import TOP_LEVEL_KEYS
from toolscript.config.settings import OPTIONS
from toolscript.surfaces.cli.main import cli
from toolscript.types import OAuthClient

CLOSE = 0.03
LANGUAGES = {"python", "typescript", "json", "bash", "console", "text", "ini", "toml", "yaml"}


def _ids(fence: Fence) -> str:
    return str(fence)


class TestBlocks:
    def test_say_their_language(self) -> None:
        odd = [str(f) for page in pages() for f in fences(page) if f.language not in LANGUAGES]
        assert not odd

    @pytest.mark.parametrize("fence", every_fence("python"), ids=_ids)
    def test_python_is_python(self, fence: Fence) -> None:
        ast.parse(fence.text)

    @pytest.mark.parametrize("fence", every_fence("toml"), ids=_ids)
    def test_toml_is_toml(self, fence: Fence) -> None:
        assert tomllib.loads(fence.text)

    @pytest.mark.parametrize("fence", every_fence("yaml"), ids=_ids)
    def test_yaml_is_yaml(self, fence: Fence) -> None:
        assert yaml.safe_load(fence.text)

    @pytest.mark.parametrize("fence", every_fence("json"), ids=_ids)
    def test_json_is_json_and_configurations_work(self, fence: Fence, tmp_path: Path) -> None:
        value = json.loads(fence.text)
        if isinstance(value, dict) and "mcpServers" in value:
            file = tmp_path / "servers.json"
            file.write_text(fence.text, "utf-8")
            problems = config.load_config(file, tmp_path, {}).problems
            # What a client is given names toolscript itself.
            assert not [each for each in problems if each.server != "toolscript"]


@pytest.mark.parametrize("page", pages(), ids=name_of)
class TestPage:
    def test_commands_exist(self, page: Path) -> None:
        for mention in commands(page):
            check_command(mention)

    def test_programs_exist(self, page: Path) -> None:
        text = page.read_text("utf-8")
        programs = re.findall(r"\bscripts/[a-z]\w+(?:\.\w+)?", text)
        assert [name for name in programs if not (ROOT / name).is_file()] == []
        for module in re.findall(r"-m +(benchmarks\.\w+)", text):
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module

    def test_variables_exist(self, page: Path) -> None:
        known = {option.env for option in OPTIONS} | {"TOOLSCRIPT_CLASS"}  # of typed clients
        assert set(re.findall(r"\bTOOLSCRIPT_[A-Z_]+\b", page.read_text("utf-8"))) <= known

    def test_links_lead_somewhere(self, page: Path) -> None:
        for link in links(page):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link

    def test_lines_are_short_enough_to_read(self, page: Path) -> None:
        long = [
            line
            for line in prose(page).splitlines()
            if len(line) > 100 and not line.startswith("|")
        ]
        assert not long


@pytest.mark.parametrize(
    "line", ["serch", "search", "search x --no", "gateway begin", "gateway start --port"]
)
def test_a_wrong_command_is_noticed(line: str) -> None:
    with pytest.raises((AssertionError, click.UsageError)):
        check_command(Mention(line.split(), whole=True))


def test_the_readme_can_be_read_in_three_minutes() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700


class TestCompleteness:
    def test_every_page_can_be_reached(self) -> None:
        reached: set[Path] = set()
        ahead = [DOCS / "index.md"]
        while ahead:
            page = ahead.pop()
            if page in reached or page.suffix != ".md":
                continue
            reached.add(page)
            paths = (link.partition("#")[0] for link in links(page) if ":" not in link)
            ahead += [(page.parent / path).resolve() for path in paths if path]
        assert set(DOCS.rglob("*.md")) <= reached

    def test_the_generated_pages_are_current(self) -> None:
        script = ROOT / "scripts" / "make_reference.py"
        done = subprocess.run(
            [sys.executable, script, "--check"], capture_output=True, text=True, check=False
        )
        assert not done.returncode, f"{done.stdout}{done.stderr}; run scripts/make_reference.py"

    @pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
    def test_every_option_is_in_the_reference(self, option: Any) -> None:
        text = (DOCS / "reference" / "settings.md").read_text("utf-8")
        assert f"## {option.name}\n" in text
        assert all(f"`{name}`" in text for name in (option.env, option.flag) if name)

    def test_every_command_is_in_the_reference(self) -> None:
        text = (DOCS / "reference" / "cli.md").read_text("utf-8")
        root = click.Context(cli)
        for name in cli.list_commands(root):
            command = cli.get_command(root, name)
            below = list(command.commands) if isinstance(command, click.Group) else []
            for each in (name, *(f"{name} {child}" for child in below)):
                assert f"## toolscript {each}\n" in text

    @pytest.mark.parametrize(
        "word",
        """upstream;session;tool;catalogue;document;corpus;encoder;embedding;index;retriever;
        reranker;signal;ranking;fusion;profile;hit;surface;wire;degraded""".split(";"),  # noqa: SIM905 - reads best as words
    )
    def test_every_word_is_in_the_glossary(self, word: str) -> None:
        text = (DOCS / "glossary.md").read_text("utf-8").casefold()
        assert re.search(rf"^\*\*[^*]*\b{word.strip()}\b[^*]*\*\*", text, re.MULTILINE)

    def test_a_module_that_a_page_names_is_there(self) -> None:
        package = ROOT / "src" / "toolscript"
        named = {
            (page.name, module)
            for page in pages()
            for module in re.findall(r"`([\w*/]+/[\w*]+\.py)`", page.read_text("utf-8"))
        }
        assert named
        missing = [each for each in named if not any(r.glob(each[1]) for r in (package, ROOT))]
        assert missing == []

    @pytest.mark.parametrize(
        ("page", "keys"),
        [
            ("configuration.md", (*KEYS, *TOP_LEVEL_KEYS, *SWITCH_KEYS, *ALIASES, *UNREAD_KEYS)),
            ("servers.md", OAuthClient.__struct_encode_fields__),
        ],
    )
    def test_every_key_of_an_entry_is_in_the_guide(self, page: str, keys: tuple[str, ...]) -> None:
        guide = (DOCS / "guides" / page).read_text("utf-8")
        named = (key for key in keys if f"`{key}`" in guide or f'`"{key}": ' in guide)
        assert {*keys} == {*named}


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "url": "http://y"},
        {"description": "x"},
        {"type": "ftp", "url": "http://y"},
        {"command": "x", "args": "-v"},
        {"url": "y.z"},
        {"command": "x", "env": {"K": "${NOT_THERE}"}},
        {"command": "x", "protocol": "new"},
        {"comand": "x"},
    ],
    ids=json.dumps,
)
def test_mistakes_are_shown_as_they_are(entry: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"s": entry}}), "utf-8")
    (problem,) = config.load_config(file, tmp_path, {}).problems
    assert problem.message in (DOCS / "guides" / "configuration.md").read_text("utf-8")


# What a page shows is what comes out


@dataclass(frozen=True)
class Place:
    """A folder with what a page tells its reader to save, and an environment of its own."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """This one's, with a home of its own and any free port."""
        ours = ("PYTHON", "TOOLSCRIPT_")
        own = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        home = str(self.folder / "home")
        return own | {"HOME": home, "PATH": path, "TOOLSCRIPT_PORT": "0", **NO_HUB}

    def toolscript(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command of ours there."""
        return launcher.run(arguments, self.folder, self.environ, 60)

    def python(self, script: str) -> "subprocess.CompletedProcess[str]":
        """Runs a script there."""
        return subprocess.run(
            [sys.executable, "-"],
            cwd=self.folder,
            env=self.environ,
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@contextlib.contextmanager
def _place(folder: Path, page: Path) -> Generator[Place]:
    (folder / "home").mkdir()
    for fence in fences(DOCS / "tutorial.md") + fences(page):
        if fence.file:
            (folder / fence.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / fence.file).write_text(fence.text, "utf-8")
    place = Place(folder)
    place.toolscript("trust", "--yes")
    try:
        yield place
    finally:
        place.toolscript("gateway", "stop")


def _pages_that_run() -> list[Path]:
    return [page for page in pages() if any(fence.runs for fence in fences(page))]


@pytest.mark.parametrize("page", _pages_that_run(), ids=name_of)
def test_examples_do_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    found = fences(page)
    with _place(tmp_path, page) as place:
        for at, fence in enumerate(found):
            if not fence.runs:
                continue
            if fence.language == "console":
                _check_console(fence, place)
                continue
            done = place.python(fence.text)
            assert not done.returncode, f"{fence}: {done.stderr}"
            after = found[at + 1] if at + 1 < len(found) else None
            if after and after.language == "text" and after.directly_after:
                _assert_alike(done.stdout, after.text, fence)


def _check_console(fence: Fence, place: Place) -> None:
    for step in fence.text.removeprefix("$ ").split("\n$ "):
        line, _, expected = step.partition("\n")
        words = shlex.split(line)
        assert words[0] == "toolscript", f"{fence}: only our own commands are run"
        done = place.toolscript(*words[1:])
        assert "Traceback" not in done.stderr, f"{fence}: {done.stderr}"
        out = done.stdout.replace(str(place.folder / "home"), "/home/ana")
        out = out.replace(str(Path(sys.executable).parent), "/home/ana/.local/bin")
        _assert_alike(out, expected, fence)


def _assert_alike(real: str, shown: str, fence: Fence) -> None:
    real_words, real_numbers = _apart(real)
    shown_words, shown_numbers = _apart(shown)
    assert real_words == shown_words, f"{fence} is out of date; now:\n{real}"
    pairs = zip(real_numbers, shown_numbers, strict=True)
    assert all(abs(a - b) <= CLOSE for a, b in pairs), f"{fence} is out of date; now:\n{real}"


def _apart(text: str) -> tuple[str, list[float]]:
    """A text with marks for its numbers, and those; what differs from run to run is blanked."""
    text = re.sub(r"(?<=127\.0\.0\.1):\d+|(?<=process) \d+", " …", text.strip())
    text = re.sub(r"(\d+)%", lambda match: f"{int(match[1]) / 100}%", text)
    number = re.compile(r"\d+\.\d+")
    return number.sub("#", text), [float(each) for each in number.findall(text)]


# The HTTP interface, asked for what its page shows


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, Place]]:
    with _place(tmp_path_factory.mktemp("gateway"), DOCS / "tutorial.md") as place:
        started = place.toolscript("gateway", "start", "--open")
        assert not started.returncode, started.stderr
        yield re.findall(r"http://[\d.:]+\d", started.stdout)[0], place


def _asked(url: str, note: str) -> tuple[int, Any]:
    """What a request such as ``GET /path`` or ``POST /path {"a": 1}`` is answered with."""
    method, path, *body = note.split(" ", 2)
    return _get(url + path, body[0].encode() if method == "POST" else None)


def _get(url: str, body: bytes | None = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - a gateway of our own
    try:
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - the same
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_answers_are_as_the_page_shows(gateway: tuple[str, Place]) -> None:
    notes = ("GET ", "POST ")
    examples = [f for f in fences(DOCS / "reference" / "http.md") if f.note.startswith(notes)]
    assert len(examples) >= 9
    for fence in examples:
        _, answer = _asked(gateway[0], fence.note)
        difference = _difference(json.loads(fence.text), answer)
        assert not difference, f"{fence}: {difference}\nnow: {json.dumps(answer, indent=2)}"


def test_every_route_is_on_the_page(gateway: tuple[str, Place]) -> None:
    status, answer = _get(f"{gateway[0]}/nothing-here")
    assert status == 404
    routes = answer["error"].partition("there are ")[2].split(", ")
    assert len(routes) >= 5
    page = (DOCS / "reference" / "http.md").read_text("utf-8")
    titles = [route if " " in route else f"GET {route}" for route in routes]
    assert [title for title in titles if f"## {title.split(':')[0]}" not in page] == []


def test_every_file_is_on_the_page(gateway: tuple[str, Place]) -> None:
    data = gateway[1].folder / "home" / ".toolscript"
    page = (DOCS / "reference" / "files.md").read_text("utf-8")
    files = [file for file in data.rglob("*") if file.is_file()]
    assert len(files) >= 5
    for file in files:
        plain = re.sub(r"-[0-9a-f]{16}", "-", file.name.replace("notes", "<name>"))
        assert plain in re.sub(r"<(?:key|hash)>", "", page), file


VOLATILE = {"pid", "since", "configuration", "id", "time", "ms"}


def _difference(shown: Any, real: Any, where: str = "answer") -> str:
    """Where an example and an answer differ in more than they may; empty if nowhere."""
    if where.rpartition(".")[2] in VOLATILE:
        return "" if type(shown) is type(real) else where
    if isinstance(shown, dict):
        return _objects_differ(cast("dict[str, Any]", shown), real, where)
    if isinstance(shown, list):
        items = cast("list[Any]", shown)
        others = cast("list[Any]", real) if isinstance(real, list) else []
        pairs = list(zip(items, others, strict=False))
        if len(pairs) < len(items):
            return where
        return next(filter(None, (_difference(a, b, where) for a, b in pairs)), "")
    if isinstance(shown, float):
        alike = isinstance(real, float) and math.isclose(shown, real, abs_tol=CLOSE)
        return "" if alike else where
    return "" if shown == real else where


def _objects_differ(shown: dict[str, Any], real: Any, where: str) -> str:
    if not isinstance(real, dict):
        return where
    fields = cast("dict[str, Any]", real)
    if not shown:  # shortened on the page
        return ""
    if shown.keys() != fields.keys():
        return f"{where} has {sorted(fields)}"
    differences = (_difference(shown[k], fields[k], f"{where}.{k}") for k in shown)
    return next(filter(None, differences), "")

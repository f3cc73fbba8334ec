"""Hostile skills and configurations under a running gateway: a file may cost itself (row H1, H4).

What must not be is a gateway that goes on as if all were well, or one that stops serving.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.endurance.effort import Effort
from tests.endurance.observed import observed
from tests.gateways import Started, configure, gateway, scripted, write
from tests.support import FUZZY, until
from toolscript.config.servers import load_config
from toolscript.config.trust import ProjectFile, TrustStore
from toolscript.errors import ConfigError

_TOOL = {"name": "ping", "description": "Answer", "inputSchema": {"type": "object"}}
_GOOD = "---\nname: lawn\ndescription: How to water the lawn.\n---\nBefore sunrise.\n"
_AT_ONCE = 40


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with a good skill."""
    path = tmp_path / "home" / ".claude" / "skills" / "lawn" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(_GOOD, "utf-8")
    return tmp_path / "home"


@pytest.fixture
def started(tmp_path: Path, home: Path) -> Generator[Started]:
    """A gateway over one server."""
    configure(tmp_path, {"s": scripted(tools=[_TOOL], tag=str(tmp_path))})
    with gateway(tmp_path, HOME=str(home), **FUZZY) as started:
        yield started


def get(gateway: Started, path: str) -> dict[str, Any]:
    """Returns an answer's JSON; nothing if there is no answer."""
    status, body, _ = gateway.ask("GET", path)
    return json.loads(body) if status else {}


# Skills


def malicious() -> list[tuple[str, bytes]]:
    """Returns every kind of malice that somebody thought of: paths, and the files' contents."""
    tags = ("!!bool x", "!!int ''", "!!float ''", "!!timestamp x", "!!binary '%'", "!!set x")
    objects = ("!!python/object/apply:os.system [id]", "!!python/name:os.system", "!x y", "!!a b")
    fields = [*tags, *objects, "*a", "&a x", "[" * 8000, "{a: " * 3000, "? " * 7000, "- " * 7000]
    merges = [f"b{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 9)}]}}" for n in range(1, 10)]
    laughs = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    fields += [f"x\n{chr(10).join(lines)}" for lines in (merges, laughs)]
    front = "---\nname: bad\ndescription: {}\n---\nbody\n"
    files = [
        (f"field{number}/SKILL.md", front.replace("{}", field).encode())
        for number, field in enumerate(fields)
    ]
    heads = (" \t" * 400_000, "#" * 900_000, " #" * 400_000, "a " * 400_000)
    bodies = [f"# x{head}y\n\ntext" for head in heads]
    bodies += ["# a\n\ntext\n" * 60_000, "```\n" * 200_000, "\n \n" * 300_000, "x" * 1_000_000]
    bodies += [" " * 1_000_000 + "x", "\u202e" * 300_000, "é" * 500_000, ". " * 500_000]
    files += [(f"body{n}.md", body.encode()[: 1024**2]) for n, body in enumerate(bodies)]
    files += [("huge.md", b"x" * 5_000_000), ("nul.md", b"a\0b"), ("latin.md", b"\xe4\xf6")]
    names = ("evil\n\x1b[31m.md", "\u202egnp.exe.md", "<img src=x>.md", "a" * 250 + ".md", " .md")
    return files + [(name, b"Cut the hedge in June.") for name in names]


def mutated(chance: random.Random, number: int) -> list[tuple[str, bytes]]:
    """Returns good files with bytes changed, put in and taken out, of those that mean something."""
    marks = b"-:#&*!<>{}[]|?%@'\"`\\ \t\n\0\xff\xe2\x80\xae0a"
    files: list[tuple[str, bytes]] = []
    for at in range(number):
        text = bytearray(_GOOD.encode() * chance.randint(1, 3))
        for _ in range(chance.randint(1, 12)):
            place = chance.randrange(len(text))
            some = bytes(chance.choices(marks, k=chance.choice((1, 1, 2, 5, 300))))
            text[place : place + chance.randint(0, 2)] = some
        files.append((f"mutant{at}/SKILL.md", bytes(text)))
    return files


def put(folder: Path, path: str, data: bytes) -> None:
    """Writes a file, if the file system takes its name."""
    with suppress(OSError):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def test_h1_skills_that_nobody_should_write_cost_themselves(
    started: Started, home: Path, effort: Effort
) -> None:
    """The gateway calls tools meanwhile, is well afterwards, and finds the good skill."""
    folder = home / ".claude" / "skills"
    corpus = [*malicious(), *mutated(effort.chance, effort.times(400))]
    with observed(started) as seen:
        for at in range(0, len(corpus), _AT_ONCE):
            for path, data in corpus[at : at + _AT_ONCE]:
                put(folder, f"batch{at}/{path}", data)
            started.ask("POST", "/skills/update", b"{}")
            assert started.ask("POST", "/tools/s__ping", b"{}")[0] == 200
        put(folder, "last/SKILL.md", _GOOD.replace("lawn", "last").encode())
        names = lambda: [skill["name"] for skill in get(started, "/skills").get("skills", ())]  # noqa: E731
        until(lambda: "last" in names(), "the last skill is there")
    health = get(started, "/health")
    assert health["status"] == "ready"
    assert set(health.get("tasks", {"": "running"}).values()) == {"running"}
    assert get(started, "/skills/search?q=water+the+lawn")["results"]
    assert not seen.unanswered, str(seen)
    assert not seen.blocked, str(seen)


# Configurations


def nonsense() -> list[bytes]:
    """Returns configurations that nobody can use."""
    objects: list[Any] = [
        *([], "x", 1, None, {"mcpServers": []}, {"mcpServers": {"s": 1}}, {"mcpServers": {"": {}}}),
        {"mcpServers": {"s": {"command": "\0"}}},
        {"mcpServers": {"\ud800": {"command": "x", "args": ["\ud800"]}}},
        {"mcpServers": {"s": {"command": "x", "env": {"A\0": "\0"}, "cwd": "\0"}}},
        {"mcpServers": {"s": {"url": "http://[::1"}}},
        {"mcpServers": {"s": {"url": "http://x:99999999/"}}},
        {"mcpServers": {}, "skills": ["\0", "\ud800", "x" * 5000]},
        {"mcpServers": {}, "skills": {"a": 1}},
    ]
    others = [b'{"a":' * 100_000, b"[" * 100_000, b"9" * 10_000, b"", b"\xff"]
    return [*(json.dumps(value).encode() for value in objects), *others]


def damaged(chance: random.Random, number: int) -> list[bytes]:
    """Returns a configuration with random bytes in random places."""
    good = json.dumps({"mcpServers": {"s": {"command": "none", "args": ["-x"]}}}).encode()
    texts: list[bytes] = []
    for _ in range(number):
        text = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            text[chance.randrange(len(text))] = chance.randrange(256)
        texts.append(bytes(text))
    return texts


@pytest.mark.long  # the usual run has `tests/hostile/test_tasks.py`
def test_h1_after_any_nonsense_a_good_configuration_is_followed(
    started: Started, tmp_path: Path, effort: Effort
) -> None:
    config = tmp_path / "config.json"
    good = config.read_text("utf-8")
    with observed(started) as seen:
        for text in [*nonsense(), *damaged(effort.chance, effort.times(40))]:
            config.write_bytes(text)
            time.sleep(0.3)  # the gateway looks four times a second
        write(config, good.replace('"s"', '"other"'))
        names = lambda: [s["name"] for s in get(started, "/servers").get("servers", ())]  # noqa: E731
        until(lambda: "other" in names(), "the good configuration is followed")
    assert not seen.unanswered, str(seen)
    assert not seen.blocked, str(seen)


_SWAPPER = """
import os, sys, itertools
file, good, bad, link = sys.argv[1:]
new, contents = file + ".new", [open(good).read(), open(bad).read()]
for turn in itertools.count():
    content = contents[turn % 2]
    if turn % 3 == 0:
        if not os.path.islink(file):
            open(file, "w").write(content)  # in place: some read half of it
    elif turn % 3 == 1:
        open(new, "w").write(content)
        os.replace(new, file)
    else:
        os.symlink(bad if turn % 2 else good, link)
        os.replace(link, file)
"""


def test_h4_a_file_that_is_swapped_while_it_is_read_is_used_as_it_was_checked(
    tmp_path: Path, effort: Effort
) -> None:
    file = tmp_path / "project" / ".toolscript.json"
    file.parent.mkdir()
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"mcpServers": {"good": {"command": "true"}}}', "utf-8")
    bad.write_text('{"mcpServers": {"evil": {"command": "true"}}}', "utf-8")
    file.write_bytes(good.read_bytes())
    store = TrustStore(tmp_path / "data")
    store.decide(ProjectFile.read(file), trusted=True)
    command = [sys.executable, "-c", _SWAPPER, *map(str, (file, good, bad, tmp_path / "link"))]
    loaded: set[str] = set()
    with subprocess.Popen(command) as swapper:
        try:
            for _ in range(effort.times(10_000)):
                with suppress(ConfigError):
                    config = load_config(None, file.parent, {"HOME": "/nowhere"}, store)
                    loaded.update(spec.name for spec in config.servers)
        finally:
            swapper.kill()
    assert loaded == {"good"}

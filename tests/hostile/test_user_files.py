"""Files that a user hands over, which may be somebody else's: too deep, or with a key twice.

Each is refused in one line that names it, before anything walks it.
"""

import json

import pytest

from tests.support import FUZZY, READ_FILE, Cli, Scripted

DEPTH = 30_000
LISTS = "[" * DEPTH + "]" * DEPTH
OBJECTS = '{"a":' * DEPTH + "1" + "}" * DEPTH
KEYS = f'{{{", ".join(f"{n}: 1" for n in map(json.dumps, map(str, range(100_000))))}, "99": 1}}'
FILES = {
    "list-servers --config lists.json": f'{{"mcpServers": {LISTS}}}',
    "list-servers --config objects.json": f'{{"mcpServers": {OBJECTS}}}',
    "list-servers --config lists.toml": f"a = {LISTS}",
    "list-servers --config tables.toml": f"{'a.' * DEPTH}a = 1",
    "list-servers --config twice.json": KEYS,
    "graph import graph.json": LISTS,
    "eval questions.json": OBJECTS,
    "eval tools.json --tools tools.json": LISTS,
    "eval right.json --baseline baseline.json": OBJECTS,
}


@pytest.mark.parametrize("command", FILES)
def test_a_hostile_file_is_refused_in_one_line(cli: Cli, scripted: Scripted, command: str) -> None:
    cli.configure(files=scripted(READ_FILE))
    question = {"question": "read", "relevant": "files__read_file"}
    (cli.home / "right.json").write_text(json.dumps(question), "utf-8")
    name = command.rsplit(maxsplit=1)[-1]
    (cli.home / name).write_text(FILES[command], "utf-8")
    done = cli(*command.split(), env=FUZZY)
    said = done.stdout + done.stderr
    assert name in said or "the file" in said
    assert done.returncode
    assert "Traceback" not in said
    assert len(said) < 500

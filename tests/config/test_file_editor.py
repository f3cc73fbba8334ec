"""One value of a file changes, and every other byte stays."""

import json
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.config.file_editor import REMOVED, edit
from toolscript.config.file_parser import parsed
from toolscript.errors import ConfigSyntaxError

JSON = Path("c.json")
ENTRY = {"command": "x", "args": ["mcp"]}
COMMENTED = """{
\t// of the editor
\t"servers": {
\t\t"a": {"command": "a"}, // the first
\t\t/* off: "z": {}, */
\t\t"b": {"command": "b",}, // the second
\t\t// and no more
\t},
\t"theme": "dark" // at night
}
"""


@pytest.mark.parametrize(
    ("before", "keys", "value", "after"),
    [
        ("", ["a"], 1, '{\n  "a": 1\n}\n'),
        ("{}", ["a"], 1, '{\n  "a": 1\n}'),
        ("{\n}\n", ["a", "b"], 1, '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ('{"a": 1}', ["a"], [2], '{"a": [2]}'),
        ('{"a": 1}', ["b"], {"c": 2}, '{"a": 1, "b": {"c": 2}}'),
        ('{"a": 1,}', ["b"], 2, '{"a": 1, "b": 2,}'),
        ('{"a": {}}', ["a", "b"], 2, '{"a": {"b": 2}}'),
        ('{\n    "a": 1\n}', ["b"], [2], '{\n    "a": 1,\n    "b": [\n        2\n    ]\n}'),
        ('{\n  "a": 1, // one\n}', ["b"], 2, '{\n  "a": 1, // one\n  "b": 2,\n}'),
        (
            '{\n  "a": 1 // one\n  // "z": 0\n}',
            ["b"],
            2,
            '{\n  "a": 1, // one\n  // "z": 0\n  "b": 2\n}',
        ),
        ("{\n  // none\n}", ["b"], 2, '{\n  // none\n  "b": 2\n}'),
        ("{ /* none */ }", ["b"], 2, '{"b": 2 /* none */ }'),
        ('{\n\t"s": {}\n}', ["s", "b"], 2, '{\n\t"s": {\n\t\t"b": 2\n\t}\n}'),
        ('{\n  "a": 1,\n  "b": 2}', ["c"], 3, '{\n  "a": 1,\n  "b": 2,\n  "c": 3}'),
        (
            '{\r\n  "a": 1\r\n}\r\n',
            ["b"],
            [2],
            '{\r\n  "a": 1,\r\n  "b": [\r\n    2\r\n  ]\r\n}\r\n',
        ),
        ('{"a": "}", "é": {"\\u0061": 1}}', ["é", "a"], "ü", '{"a": "}", "é": {"\\u0061": "ü"}}'),
        (
            COMMENTED,
            ["servers", "c"],
            ENTRY,
            COMMENTED.replace(
                "no more\n",
                'no more\n\t\t"c": {\n\t\t\t"command": "x",\n\t\t\t"args": [\n\t\t\t\t"mcp"\n'
                "\t\t\t]\n\t\t},\n",
            ),
        ),
    ],
)
def test_a_value_is_set(before: str, keys: list[str], value: Any, after: str) -> None:
    assert edit(JSON, before.encode(), [(keys, value)]).decode() == after


@pytest.mark.parametrize(
    ("before", "keys", "after"),
    [
        ('{"a": 1}', ["a"], "{}"),
        ('{"a": 1, "b": 2, "c": 3}', ["b"], '{"a": 1, "c": 3}'),
        ('{"a": 1, "b": 2}', ["b"], '{"a": 1}'),
        ('{"a": 1, "b": 2, }', ["b"], '{"a": 1, }'),
        ('{\n  "a": 1,\n  "b": 2\n}', ["b"], '{\n  "a": 1\n}'),
        ('{\n  "a": 1,\n  "b": 2\n}', ["a"], '{\n  "b": 2\n}'),
        ('{\r\n  "a": 1,\r\n  "b": 2\r\n}', ["b"], '{\r\n  "a": 1\r\n}'),
        ('{\n  "a": 1, // one\n  "b": [\n    2\n  ]\n}', ["b"], '{\n  "a": 1 // one\n}'),
        ('{\n  "a": 1 /* one */,\n  "b": 2\n}', ["a"], '{\n  /* one */\n  "b": 2\n}'),
        (COMMENTED, ["servers", "a"], COMMENTED.replace('"a": {"command": "a"}, ', "")),
        (COMMENTED, ["servers", "b"], COMMENTED.replace('"b": {"command": "b",}, ', "")),
        (COMMENTED, ["theme"], COMMENTED.replace('},\n\t"theme": "dark" //', "}\n\t//")),
        (COMMENTED, ["servers", "none"], COMMENTED),
        (COMMENTED, ["none", "none"], COMMENTED),
    ],
)
def test_a_key_is_removed(before: str, keys: list[str], after: str) -> None:
    assert edit(JSON, before.encode(), [(keys, REMOVED)]).decode() == after


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("path", [JSON, Path("c.toml")])
def test_the_encoding_and_its_mark_stay(encoding: str, path: Path) -> None:
    text = "\ufeff" + ('# ü\na = "ü"\n' if path.suffix == ".toml" else '{"a": "ü"}')
    added = edit(path, text.encode(encoding), [(["b"], 1)])
    assert parsed(path, added) == {"a": "ü", "b": 1}
    assert added.decode(encoding)[:5] == text[:5]


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        ("[]", ["a"], "c.json must hold a JSON object"),
        ('{"a": 1, "a": 2}', ["b"], "c.json has the key 'a' twice"),
        ('{"a": [1]}', ["a", "b"], "c.json: a.b has no object to be in"),
        ('{"a": ', ["b"], "c.json is not valid JSON"),
    ],
)
def test_another_file_is_refused(text: str, keys: list[str], message: str) -> None:
    with pytest.raises(ConfigSyntaxError) as caught:
        edit(JSON, text.encode(), [(keys, 1)])
    assert str(caught.value).startswith(message)


def test_several_changes_are_one() -> None:
    edits: list[tuple[list[str], Any]] = [(["b"], 2), (["a"], REMOVED), (["c", "d"], REMOVED)]
    assert edit(JSON, b'{"a": 1}', edits) == b'{"b": 2}'
    assert edit(JSON, b'{"c": [1]}', edits[1:]) == b'{"c": [1]}'


def test_text_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(
        ConfigSyntaxError, match="cannot be changed without changing more; edit it yourself"
    ):
        edit(JSON, b"{}", [(["a"], "\ud800")])


@pytest.mark.requirement("setup:move")
@pytest.mark.parametrize("text", ["a.b = 1\na.c = 2\n", "a = {b = {c = 1}}\n"])
def test_an_ambiguous_change_is_refused(text: str) -> None:
    """A table would follow keys with dots, or stand within one line."""
    with pytest.raises(
        ConfigSyntaxError, match=r"c.toml cannot be changed without changing more; edit it yourself"
    ):
        edit(Path("c.toml"), text.encode(), [(["a", "d"], {**ENTRY, "env": {"K": "v"}})])


KEYS = st.text(alphabet='/*,]}"\\ aé', max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='/*,]}"\\ \n{[x'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
NOISE = st.sampled_from(
    ["", "", " ", "\n", "\r\n  ", "\n\t", " /* , } */ ", ' // ", ]\n', "\n  // {\n"]
)


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """Returns a value as somebody might write it: blanks, comments, trailing commas."""
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    members: list[str] = []
    for each in cast("list[Any]", value):
        inner = draw(texts(value[each] if isinstance(value, dict) else each))
        key = f"{json.dumps(each)}{draw(NOISE)}:{draw(NOISE)}" if isinstance(value, dict) else ""
        members.append(f"{draw(NOISE)}{key}{inner}{draw(NOISE)}")
    text = ",".join(members) + ("," + draw(NOISE) if members and draw(st.booleans()) else "")
    text = text or draw(NOISE)
    return f"{{{text}}}" if isinstance(value, dict) else f"[{text}]"


@given(st.data(), st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_text_has_exactly_the_one_change(data: st.DataObject, document: dict[str, Any]) -> None:
    """That no other value changes, the editor checks by itself."""
    before = (data.draw(NOISE) + data.draw(texts(document)) + data.draw(NOISE)).encode()
    parent, keys = document, [data.draw(KEYS | st.sampled_from([*document, "new"]))]
    while isinstance(inner := parent.get(keys[-1]), dict) and len(keys) < 3:
        parent = cast("dict[str, Any]", inner)
        keys.append(data.draw(st.sampled_from([*parent, "new"])))
    is_new = keys[-1] not in parent
    after = edit(JSON, before, [(keys, data.draw(VALUES))])
    assert not is_new or _is_within(before, after)
    removed = edit(JSON, after, [(keys, REMOVED)])
    assert _is_within(removed, after)
    assert not is_new or _comments(removed) == _comments(before)


def _is_within(less: bytes, more: bytes) -> bool:
    """Whether all of some bytes are in others, in the same order."""
    rest = iter(more)
    return all(each in rest for each in less)


def _comments(data: bytes) -> list[int]:
    return [data.count(comment) for comment in (b"/* , } */", b'// ", ]\n', b"// {\n")]


TOML = """# mine
model = "o4"

[mcp_servers.a] # the first
command = "a"
args = [
  "x", # one
]

[mcp_servers.a.env]
K = "v"

[mcp_servers.b]
command = "b"

[tui]
theme = "dark"
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_toml_keeps_its_comments(newline: str) -> None:
    path, before = Path("c.toml"), TOML.replace("\n", newline).encode()
    removed = edit(path, before, [(["mcp_servers", "a"], REMOVED)])
    lines = [*before.splitlines(keepends=True)]
    assert removed.splitlines(keepends=True) == lines[:3] + lines[12:]
    added = edit(path, removed, [(["mcp_servers", "toolscript"], ENTRY)])
    assert tomllib.loads(added.decode())["mcp_servers"] == {
        "b": {"command": "b"},
        "toolscript": ENTRY,
    }
    assert set(removed.splitlines()) <= set(added.splitlines())
    lines = added.decode().splitlines(keepends=True)
    assert {line[len(line.rstrip()) :] for line in lines} == {newline}
    assert lines[lines.index(f"[tui]{newline}") - 1] == newline
    assert b"[mcp_servers]" in edit(
        path, b"[mcp_servers.a]\nx = 1\n", [(["mcp_servers", "a"], REMOVED)]
    )
    assert edit(path, b"", [(["mcp_servers", "t"], ENTRY)]) == (
        b'[mcp_servers.t]\ncommand = "x"\nargs = ["mcp"]\n'
    )

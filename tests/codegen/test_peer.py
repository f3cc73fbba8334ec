"""What json-schema-to-typescript accepts and rejects, so do we; where not, it is said why."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.compilers import PACKAGES, node, tsc
from toolscript.codegen import typescript
from toolscript.codegen.identifiers import Identifiers
from toolscript.types import ToolSpec

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}
CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}
OPEN = "properties that nothing mentions: theirs may be there, ours where the schema says so"
LENGTH = "how many items there are at the least: theirs counts them, ours does not"
REQUIRED_ONE = "one of two is required: theirs forgets it, ours has a type for each"

SCHEMAS: list[tuple[dict[str, Any], list[Any]]] = [
    (TEXT, ["a", 1, None]),
    ({"type": "integer"}, [1, 1.5, "1"]),
    ({"type": ["string", "null"]}, ["a", None, 1]),
    ({"enum": ["a", 1, None]}, ["a", 1, None, "b", 2]),
    ({"const": "x"}, ["x", "y"]),
    ({"type": "array", "items": TEXT}, [[], ["a"], [1], "a"]),
    ({"type": "array", "items": TEXT, "minItems": 2}, [["a", "b"], ["a"]]),
    ({"type": "array", "items": [TEXT, NUMBER], "minItems": 2, "additionalItems": False},
     [["a", 1], [1, "a"], ["a"], ["a", 1, 2]]),
    ({"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
     [{"a": "x"}, {}, {"a": 1}, {"a": "x", "b": 1}]),
    ({**CLOSED, "properties": {"a": TEXT}}, [{}, {"a": "x"}, {"b": 1}, {"a": 1}]),
    ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": True},
     [{"a": "x", "b": 1}, {"b": 1}, {"a": 1}]),
    ({"type": "object", "additionalProperties": NUMBER}, [{}, {"a": 1}, {"a": "x"}]),
    ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": NUMBER},
     [{"a": "x"}, {"a": "x", "b": 1}, {"b": True}]),
    ({"type": "object", "patternProperties": {"^x": NUMBER}, "additionalProperties": False},
     [{"x1": 1}, {"x1": "a"}]),
    ({"anyOf": [TEXT, {**CLOSED, "properties": {"a": NUMBER}, "required": ["a"]}]},
     ["x", {"a": 1}, {"a": "x"}, {}, 1]),
    ({"oneOf": [{**CLOSED, "properties": {"k": {"const": "a"}, "n": NUMBER}, "required": ["k"]},
                {**CLOSED, "properties": {"k": {"const": "b"}, "s": TEXT}, "required": ["k"]}]},
     [{"k": "a", "n": 1}, {"k": "b", "s": "x"}, {"k": "a", "s": "x"}, {"k": "c"}]),
    ({"allOf": [{**CLOSED, "properties": {"a": TEXT}, "required": ["a"]},
                {**CLOSED, "properties": {"b": NUMBER}, "required": ["b"]}]},
     [{"a": "x", "b": 1}, {"a": "x"}, {"b": 1}]),
    ({**CLOSED, "properties": {"a": TEXT, "b": NUMBER},
      "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": "x"}, {"b": 1}, {}]),
    ({**CLOSED, "properties": {"n": {"$ref": "#/definitions/node"}},
      "definitions": {"node": {**CLOSED, **NODE}}},
     [{"n": {"next": {"next": {}}}}, {"n": {"next": 1}}]),
    ({**CLOSED, "properties": {"a-b": TEXT, "class": TEXT}, "required": ["class"]},
     [{"a-b": "x", "class": "y"}, {"a-b": "x"}]),
]  # fmt: skip
DIFFERENCES = {(6, 1): LENGTH, (8, 3): OPEN, (17, 2): REQUIRED_ONE}
"""Schema and value, by their places, on which the two do not agree."""

PEER = """
import { createRequire } from "node:module";
const [packages, schemas] = process.argv.slice(1);
const { compile } = createRequire(packages + "/")("json-schema-to-typescript");
const options = { bannerComment: "", format: false };
const made = [];
for (const schema of JSON.parse(schemas)) made.push(await compile(schema, "T", options));
console.log(JSON.stringify(made));
"""


def accepted(folder: Path) -> dict[tuple[int, int], bool]:
    """Which values fit the types in the folder's files, one for each schema, called T."""
    about: dict[tuple[str, int], tuple[int, int]] = {}
    for at, (_, values) in enumerate(SCHEMAS):
        lines = [f'import type {{ T }} from "./t{at}.ts";']
        for number, value in enumerate(values):
            lines.append(f"export const v{number}: T = {json.dumps(value)};")
            about[f"v{at}.ts", len(lines)] = (at, number)
        (folder / f"v{at}.ts").write_text("\n".join(lines), "utf-8")
    wrong = tsc(sorted(folder.glob("*.ts")), "--allowImportingTsExtensions")
    elsewhere = [each for each in wrong if not each.file.startswith("v")]
    assert not elsewhere
    refused = {(each.file, each.line) for each in wrong}
    return {place: key not in refused for key, place in about.items()}


@pytest.mark.requirement("types:typescript")
def test_we_agree_with_the_peer_or_say_why_not(tmp_path: Path) -> None:
    schemas = [schema for schema, _ in SCHEMAS]
    theirs = json.loads(node(PEER, PACKAGES, json.dumps(schemas)))
    results: list[dict[tuple[int, int], bool]] = []
    for name, made in (("peer", theirs), ("ours", [ours(schema) for schema in schemas])):
        folder = tmp_path / name
        folder.mkdir()
        for at, text in enumerate(made):
            (folder / f"t{at}.ts").write_text(text, "utf-8")
        results.append(accepted(folder))
    peer, own = results
    assert {place for place in own if own[place] != peer[place]} == set(DIFFERENCES)


def ours(schema: dict[str, Any]) -> str:
    tool = ToolSpec(server="s", name="t", input_schema=schema)
    made = typescript.module([tool], Identifiers([("s", "t")]))
    return f"{made}\nexport type T = STParams;\n"

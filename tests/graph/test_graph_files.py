import json

import msgspec
import pytest

from toolscript.errors import InputError
from toolscript.graph.graph_files import LoggedCall, read

TEXT = """
{"workflows": [{"name": "t", "steps": ["git__diff", "files__write", "mail__send"]}],
 "dependencies": [["a__b", "a__c"]],
 "sequences": [[{"tool": "a__b"}, {"tool": "a__c", "ok": false, "arguments": {"k": "secret"}}]]}
"""


@pytest.mark.requirement("graph:methods", "graph:learning")
def test_what_a_file_teaches() -> None:
    known = read(TEXT)
    [template] = known.templates
    assert template.pairs == (("git__diff", "files__write"), ("files__write", "mail__send"))
    assert known.dependencies == (("a__b", "a__c"),)
    assert known.sequences == ((LoggedCall("a__b"), LoggedCall("a__c", ok=False)),)
    assert len(known.tools) == 5
    assert b"secret" not in msgspec.json.encode(known)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("null", "Expected `object`, got `null`"),
        ("workflows: [{steps: [a__b, a__c]}]", "not JSON: JSON is malformed"),
        ("[" * 9_000, "not JSON"),
        ("{}", "there is nothing in it"),
        ('{"workflows": 3}', r"Expected `array`, got `int` - at `\$.workflows`"),
        ('{"workflows": [{"steps": ["a__b"]}]}', r"length >= 2 - at `\$.workflows\[0\].steps`"),
        ('{"workflows": [{"steps": ["a__b", "a:c"]}]}', r"at `\$.workflows\[0\].steps\[1\]`"),
        ('{"dependencies": [["a__b"]]}', r"at `\$.dependencies\[0\]`"),
        (
            '{"sequences": [["a__b"]]}',
            r"Expected `object`, got `str` - at `\$.sequences",
        ),
        ('{"sequences": [[{"tool": "a__b", "ok": "no"}]]}', r"Expected `bool`, got `str`"),
        (json.dumps({"dependencies": [["a__b", "a__\0"]]}), r"at `\$.dependencies\[0\]\[1\]`"),
        ("x" * 17_000_000, "at most 16000000 are read"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(text)

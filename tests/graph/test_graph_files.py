import pytest

from toolscript.errors import InputError
from toolscript.graph.graph_files import read

TASKS = """
workflows:
- tasks:
  - {id: 1, tool: git__diff}
  - {id: 2, tool: files__write, depends_on: [1]}
  - {id: 3, tool: mail__send, depends_on: [2]}
"""
PAIRS = (("git__diff", "files__write"), ("files__write", "mail__send"))


@pytest.mark.requirement("graph:methods")
@pytest.mark.parametrize(
    "text",
    [
        "workflows: [{name: t, steps: ['git:diff', files__write, mail__send]}]",
        '{"workflows": [{"steps": ["git__diff", "files__write", "mail__send"]}]}',
        "workflows:\n  - edges: [['git__diff', 'files:write'], ['files:write', 'mail__send']]\n",
        TASKS,
    ],
)
def test_a_template_in_every_form(text: str) -> None:
    """graph:methods"""
    [template] = read(text).templates
    assert template.pairs == PAIRS


def test_dependencies_and_sequences() -> None:
    """graph:learning"""
    known = read(
        '{"dependencies": [["a:b", "a:c", "why"]],'
        ' "sequences": [["a:b", {"tool": "a:c", "ok": false, "arguments": {"key": "secret"}}]]}'
    )
    assert known.dependencies == (("a__b", "a__c"),)
    assert known.sequences == ((("a__b", True), ("a__c", False)),)
    assert "secret" not in repr(known)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expected `object`, got `null`"),
        ("{", "neither JSON nor YAML"),
        ("!!python/object/apply:os.system [ls]", "neither JSON nor YAML"),
        ("{}", "there is nothing in it"),
        ("workflows: 3", r"Expected `array`, got `str` - at `\$.workflows`"),
        ("workflows: [steps: [a__b]]", r"workflows\[0\] leads nowhere"),
        (
            "workflows: [steps: [a__b, c]]",
            r"workflows\[0\].steps: 'c' is no tool; expected server__tool",
        ),
        ("workflows: [edges: [[a__b]]]", r"length >= 2 - at `\$.workflows\[0\].edges\[0\]`"),
        (
            "workflows: [tasks: [{id: 1, tool: a__b, depends_on: [9]}]]",
            "depends on '9', which is no task",
        ),
        ("sequences: [a__b]", r"Expected `array`, got `str` - at `\$.sequences\[0\]`"),
        ("x" * 17_000_000, "at most 16000000 are read"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(text)

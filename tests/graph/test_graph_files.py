import pytest

from toolscript.errors import InputError
from toolscript.graph.graph_files import read

PAIRS = (("git__diff", "files__write"), ("files__write", "mail__send"))


@pytest.mark.requirement("graph:methods")
@pytest.mark.parametrize(
    "text",
    [
        "workflows: [{name: t, steps: ['git:diff', files__write, mail__send]}]",
        '{"workflows": [{"steps": ["git__diff", "files__write", "mail__send"]}]}',
        "workflows:\n  - steps: [git:diff, 'files:write', mail__send]\n",
    ],
)
def test_a_template_in_every_form(text: str) -> None:
    [template] = read(text).templates
    assert template.pairs == PAIRS


def test_dependencies_and_sequences() -> None:
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
        ("dependencies: [[a__b]]", r"length >= 2 - at `\$.dependencies\[0\]`"),
        ("sequences: [a__b]", r"Expected `array`, got `str` - at `\$.sequences\[0\]`"),
        ("x" * 17_000_000, "at most 16000000 are read"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(text)

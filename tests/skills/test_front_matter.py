"""Front matter: what it may say, and what is told of one that is broken."""

import pytest

from toolscript.errors import SkillError
from toolscript.skills.front_matter import MAX_CHARS, FrontMatter, read_front_matter


@pytest.mark.parametrize(
    ("text", "front"),
    [
        ("no front matter", FrontMatter("", "", "no front matter")),
        ("", FrontMatter("", "", "")),
        ("---\nname: pdf\ndescription: Do\n---\n# Body\n", FrontMatter("pdf", "Do", "# Body\n")),
        ("---\n---\nbody", FrontMatter("", "", "body")),
        ("--- \nname: a\n---\n", FrontMatter("a", "", "")),
        (
            "---\ndescription: >-\n  Two\n  lines\nname: 'q: r'\n---",
            FrontMatter("q: r", "Two lines", ""),
        ),
        ("---\nname: x\nlicense: MIT\nmetadata:\n  author: me\n---\ny", FrontMatter("x", "", "y")),
        ("---\nname: a\n---\nbody\n---\nmore", FrontMatter("a", "", "body\n---\nmore")),
        ("---\nname: 2024\ndescription: 2026-13-45\n---\n", FrontMatter("2024", "2026-13-45", "")),
    ],
)  # fmt: skip
def test_what_front_matter_says(text: str, front: FrontMatter) -> None:
    """skills:folders"""
    assert read_front_matter(text) == front


@pytest.mark.requirement("skills:folders")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("---\nname: pdf\n", "has no closing ---"),
        ("---", "has no closing ---"),
        ("---\n" + "# " + "x" * MAX_CHARS + "\n---\n", "has no closing ---"),
        ("---\nname: [\n---\n", "is no YAML: "),
        ("---\nname: a: b\n---\n", "is no YAML: mapping values are not allowed here, line 2"),
        ("---\n\tname: a\n---\n", "is no YAML: "),
        ("---\n- a\n- b\n---\n", "is no mapping; expected lines such as"),
        ("---\njust words\n---\n", "is no mapping"),
        ("---\nname: {a: b}\n---\n", "its name is a dict; expected text"),
        ("---\nname: a\ndescription: [x]\n---\n", "its description is a list; expected text"),
        ("---\nname: " + "n" * 101 + "\n---\n", "its name has 101 characters; at most 100"),
        ("---\nx: !!python/object/apply:os.system [ls]\n---\n", "is no YAML: "),
        ("---\n" + "[" * 5000 + "\n---\n", "is no YAML: "),
        ("---\nname: &a x\nd: y\n---\n", "anchors and aliases (& and *) are not allowed"),
        ("---\nname: a\nd: *x\n---\n", "write the text out, line 3"),
        ("---\nname: !!str a\n---\n", "tags (!) are not allowed; put the text in quotes, line 2"),
    ],
)
def test_broken_front_matter(text: str, told: str) -> None:
    """skills:folders: one clear line, whatever it is."""
    with pytest.raises(SkillError) as caught:
        read_front_matter(text)
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


def test_aliases_that_refer_to_each_other_cost_nothing() -> None:
    """skills:folders: a billion laughs, were they written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    front = "\n".join(["---", *lines, "name: *a11", "---", ""])
    with pytest.raises(SkillError, match=r"anchors and aliases .* are not allowed"):
        read_front_matter(front)

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
        ("\n \n---\nname: a\n---\nx", FrontMatter("a", "", "x")),
        ("<!-- made\nby hand -->\n---\nname: a\n---\nx", FrontMatter("a", "", "x")),
        ("---\nname: a\n...\nx", FrontMatter("a", "", "x")),
        ("---\nName: a\nDescription: Do\n---\n", FrontMatter("a", "Do", "")),
        ("---\n\nA rule above.\n", FrontMatter("", "", "---\n\nA rule above.\n")),
        ("---", FrontMatter("", "", "---")),
    ],
)  # fmt: skip
def test_what_front_matter_says(text: str, front: FrontMatter) -> None:
    assert read_front_matter(text) == front


@pytest.mark.requirement("skills:folders")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("---\nname: pdf\n", "has no closing ---"),
        ("---\n" + "# " + "x" * MAX_CHARS + "\n---\n", "has no closing ---"),
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


BREAD = "Bake bread."


@pytest.mark.requirement("skills:folders")
@pytest.mark.parametrize(
    ("lines", "name", "description", "warning"),
    [
        ("description: Use it for baking: rolls", "x", "Use it for baking: rolls", "is no YAML"),
        ("description: a: b\n  goes on\n  here", "x", "a: b goes on here", "is no YAML"),
        ('description: "Bake" when "loaf" is said', "x", '"Bake" when "loaf" is said', "no YAML"),
        (f"description: {BREAD}\nargument-hint: [loaf] [minutes]", "x", BREAD, "line 4"),
        (f"description: {BREAD}\nallowed-tools: *", "x", BREAD, "is no YAML"),
        (f"description: {BREAD}\nhint: !important", "x", BREAD, "tags (!) are not allowed"),
        (f"description: {BREAD}\nmetadata:\n\tauthor: me", "x", BREAD, "is no YAML"),
        ("description: >-\n  Bake\n  bread.\nglobs: **/*", "x", BREAD, "line by line"),
        ("description: `bake` makes bread", "x", "`bake` makes bread", "is no YAML"),
        ("description: %bread is baked", "x", "%bread is baked", "is no YAML"),
        ('description: "In C:\\oven."', "x", "In C:\\oven.", "is no YAML"),
        (f"description: {BREAD}\nname: @baker/at", "@baker/at", BREAD, "is no YAML"),
        ("description: [a, b]", "x", "", "its description is a list; expected text"),
        (f"name: {{a: b}}\ndescription: {BREAD}", "", BREAD, "its name is a dict"),
        ("name: " + "n" * 101, "n" * 100, "", "its name has 101 characters; 100 of them are read"),
        ("description: " + "d" * 2001, "x", "d" * 2000, "2001 characters; 2000 of them"),
        ("name: [", "[", "", "is no YAML"),
    ],
)  # fmt: skip
def test_a_mistake_costs_a_warning_and_no_skill(
    lines: str, name: str, description: str, warning: str
) -> None:
    """skills:folders: as the clients read it that the skill was written for."""
    front = read_front_matter(f"---\nname: x\n{lines}\n---\nbody")
    assert (front.name, front.description, front.body) == (name, description, "body")
    [told] = front.warnings
    assert warning in told
    assert told.isprintable()


@pytest.mark.parametrize("text", ["- a\n- b", "just words"])
def test_what_is_no_mapping_is_read_as_text(text: str) -> None:
    whole = f"---\n{text}\n---\nbody"
    front = read_front_matter(whole)
    assert (front.name, front.body) == ("", whole)
    assert front.warnings == ("its front matter is no mapping, and was read as text",)


def test_aliases_that_refer_to_each_other_cost_nothing() -> None:
    """skills:folders: a billion laughs, were they written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    front = "\n".join(["---", *lines, "name: *a11", "---", ""])
    with pytest.raises(SkillError, match=r"anchors and aliases .* are not allowed"):
        read_front_matter(front)

"""Passages: cut where a reader would, nothing lost, none too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.skills.passages import MAX_CHARS, MAX_PASSAGES, Passage, split

TEXT = """\
Before any heading.

# Guide

What it is for.

## First step ##

Do this.

Then that.

```bash
# no heading
```

### Detail

Small print.

## Second step

Done.
"""


def test_a_text_is_cut_at_its_headings() -> None:
    """skills:folders: each passage knows the headings that it stands under."""
    assert split(TEXT) == (
        Passage("", "Before any heading."),
        Passage("Guide", "What it is for."),
        Passage("Guide > First step", "Do this.\n\nThen that.\n\n```bash\n# no heading\n```"),
        Passage("Guide > First step > Detail", "Small print."),
        Passage("Guide > Second step", "Done."),
    )


def test_plain_text_has_no_headings() -> None:
    assert split("# a remark\n\ntext", headings=False) == (Passage("", "# a remark\n\ntext"),)


def test_paragraphs_stay_together_as_long_as_they_fit() -> None:
    first, second, third = "a" * 500, "b" * 290, "c" * 20
    assert [p.text for p in split(f"{first}\n\n{second}\n \n{third}")] == [
        f"{first}\n\n{second}",
        third,
    ]


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentence = "The quick brown fox jumps over the lazy dog. "
    pieces = [p.text for p in split(sentence * 60)]
    assert len(pieces) > 3
    assert all(piece.endswith("dog.") and len(piece) <= MAX_CHARS for piece in pieces)
    assert " ".join(pieces) == (sentence * 60).strip()


def test_a_file_has_so_many_passages_and_no_more() -> None:
    assert len(split("\n".join(f"# {n}\ntext {n}" for n in range(3000)))) == MAX_PASSAGES


def test_headings_without_a_text_make_no_passage() -> None:
    assert split("# One\n\n## Two\n\n") == ()


@pytest.mark.requirement("skills:folders")
@given(text=st.text(alphabet="ab .\n#`~ü\t", max_size=3000), most=st.integers(10, 900))
def test_nothing_is_lost_and_no_passage_is_too_long(text: str, most: int) -> None:
    """skills:folders: of a text without headings every letter is in some passage, in order."""
    passages = split(text, most, headings=False)
    assert all(0 < len(passage.text) <= most for passage in passages)
    assert "".join("".join(p.text for p in passages).split()) == "".join(text.split())

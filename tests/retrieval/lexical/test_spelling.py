import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from toolscript.retrieval.lexical.spelling import MAX_EDITS, Spellings

WORD = st.text(alphabet="abcdeé漢_1", min_size=1, max_size=12)
WORDS = st.lists(WORD, max_size=30, unique=True)
MANY = st.sampled_from([0, 1000])
"""Whether few words are looked for by their signatures, as many are."""


@given(words=WORDS, word=WORD, edits=st.integers(0, 4), many=MANY)
def test_no_word_within_reach_is_left_out(
    words: list[str], word: str, edits: int, many: int
) -> None:
    expected = [(near, OSA.distance(word, near)) for near in words]
    found = Spellings(words, many).within(word, edits)
    assert found == [(near, far) for near, far in expected if far <= edits]


@given(words=WORDS, word=WORD, least=st.sampled_from([0.5, 0.75, 0.8, 1.0]), many=MANY)
def test_no_word_that_is_alike_enough_is_left_out(
    words: list[str], word: str, least: float, many: int
) -> None:
    found = dict(Spellings(words, many).alike(word, least))
    for near in words:
        similarity = OSA.normalized_similarity(word, near)
        if similarity >= least:
            assert found.pop(near) == pytest.approx(similarity)
    assert not found


def test_so_many_edits_are_no_misspelling_however_long_the_word() -> None:
    name = "create_monthly_report_from_the_ledger"
    misspelled = [name.replace(letter, "#", 1) for letter in ("c", "m")]
    assert [near for near, _ in Spellings(misspelled).alike(name, 0.75)] == misspelled
    assert Spellings([f"{name[:-MAX_EDITS]}{'#' * MAX_EDITS}"]).alike(name, 0.75)
    assert not Spellings([f"{name[: -MAX_EDITS - 1]}{'#' * (MAX_EDITS + 1)}"]).alike(name, 0.75)


def test_without_words_nothing_is_near() -> None:
    assert Spellings([]).within("word", 2) == []
    assert Spellings([]).alike("word", 0.5) == []


def test_a_transposition_is_one_edit_and_a_missing_separator_too() -> None:
    assert Spellings(["read", "file"]).within("raed", 1) == [("read", 1)]
    assert Spellings(["read_file"]).within("readfile", 1) == [("read_file", 1)]


def test_half_of_a_surrogate_pair_is_a_letter_like_any_other() -> None:
    assert Spellings(["a\ud800"]).within("a\ud800", 0) == [("a\ud800", 0)]
    assert Spellings(["a\ud800", "b"], 0).within("a\ud800", 0) == [("a\ud800", 0)]

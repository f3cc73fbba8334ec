import gc
import math
from weakref import ReferenceType, ref

import numpy as np
import pytest

from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.lexical.analyzer import Stemmer, Vocabulary
from toolscript.retrieval.lexical.bm25f import LexicalIndex, LexicalSignal, saturate
from toolscript.types import Document


def document(name: str, description: str = "", **more: object) -> Document:
    return Document(id=f"s__{name}", server="s", name=name, description=description, **more)  # pyright: ignore[reportArgumentType] - any field


def index(*documents: Document) -> LexicalIndex:
    return LexicalSignal().index(Corpus(documents))


def scores(of: LexicalIndex, text: str) -> list[float]:
    return [float(score) for score in of.rank(Query(text)).scores]


def test_a_score_is_bm25_over_the_fields_by_hand() -> None:
    of = index(document("alpha", "beta beta"), document("gamma", "delta"))
    # The word beta: twice in a description of 2 words, 1.5 on average, weight 1.
    frequency = 2 * 1.0 / (1 - 0.75 + 0.75 * 2 / 1.5)
    rarity = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    bm25 = rarity * frequency * 2.2 / (frequency + 1.2)
    expected = bm25 / (bm25 + 8.0)
    np.testing.assert_allclose(scores(of, "beta"), [expected, 0.0], rtol=1e-5)


def test_the_best_is_saturated_by_itself_and_the_others_by_their_share_of_it() -> None:
    found = saturate(np.array([24.0, 6.0, 0.0], dtype=np.float32))
    np.testing.assert_allclose(found, [24 / 32, 0.25**1.5 * 24 / 32, 0.0], rtol=1e-6)
    assert saturate(np.zeros(2, dtype=np.float32)).tolist() == [0.0, 0.0]


def test_the_same_word_counts_most_in_the_name_then_server_then_elsewhere() -> None:
    def score(**field: object) -> float:
        fields = {
            "server": "x",
            "name": "x",
            "description": "x",
            "parameters": (("x", "x"),),
        } | field
        wanted = Document(id="a", **fields)  # pyright: ignore[reportArgumentType] - any field
        other = Document(id="b", server="x", name="x", description="x", parameters=(("x", "x"),))
        return scores(index(wanted, other), "needle")[0]

    found = [
        score(name="needle"),
        score(server="needle"),
        score(description="needle"),
        score(parameters=(("needle", "x"),)),
        score(parameters=(("x", "needle"),)),
    ]
    assert found == sorted(found, reverse=True)
    assert len({round(score, 6) for score in found}) == 4
    assert found[-1] > 0


def test_words_are_found_whatever_their_ending() -> None:
    of = index(document("rename", "Renames directories"), document("zebra", "nothing"))
    for text in ("renaming a directory", "renamed directories", "RENAME Directory"):
        assert scores(of, text)[0] > 0 == scores(of, text)[1], text


@pytest.mark.requirement("search:typo")
def test_a_typo_finds_the_word_and_counts_less_the_farther_it_is() -> None:
    of = index(document("t", "directory of things"), document("u", "nothing at all"))
    found = [scores(of, text)[1] for text in ("x",)] + [
        scores(of, text)[0] for text in ("directory", "direcotry", "driecotry", "xxrxxtory")
    ]
    nothing, exact, one, two, more = found
    assert exact > one > two > 0 == more == nothing


@pytest.mark.requirement("search:typo")
@pytest.mark.parametrize(
    ("word", "allowed"), [("lig", False), ("lgo", False), ("fiel", True), ("serch", True)]
)
def test_at_most_one_edit_per_four_letters_is_forgiven(word: str, *, allowed: bool) -> None:
    of = index(document("t", "log file search"))
    assert (scores(of, word)[0] > 0) is allowed


def test_a_known_word_is_never_taken_for_a_typo() -> None:
    of = index(document("a", "files"), document("b", "tiles"))
    assert scores(of, "tiles")[0] == 0
    assert scores(of, "tiles")[1] > 0


def test_words_that_say_nothing_are_passed_over_unless_there_are_no_others() -> None:
    of = index(document("a", "how is the weather"), document("b", "files"))
    assert [t.stem for t in of.terms(Query("how do i read the files"))] == ["file"]
    assert scores(of, "how is the")[0] > 0


def test_a_word_given_twice_counts_once() -> None:
    of = index(document("a", "files"), document("b", "other"))
    assert scores(of, "files files FILE") == scores(of, "files")


def test_a_stem_is_that_of_english() -> None:
    stem = Stemmer()
    assert [stem(w) for w in ("files", "directories", "running")] == ["file", "directori", "run"]


def test_the_index_knows_its_words() -> None:
    of = index(document("readFile", "contents"))
    assert of.knows("reading")
    assert of.knows("content")
    assert not of.knows("fil")


def test_an_index_after_any_changes_is_that_of_its_documents_alone() -> None:
    signal = LexicalSignal()
    one, two = document("alpha", "beta gamma"), document("delta", "epsilon beta")
    for documents in ([one], [one, two], [two], [document("alpha", "zeta beta"), two]):
        found, fresh = signal.index(Corpus(documents)), index(*documents)
        for text in ("beta", "gamma", "zeta epsilon", "gamna"):
            assert scores(found, text) == pytest.approx(scores(fresh, text)), text
            assert (
                found.name_coverage(Query(text)).tolist()
                == fresh.name_coverage(Query(text)).tolist()
            )


def test_words_that_are_gone_are_forgotten_in_the_end() -> None:
    signal = LexicalSignal()
    known: list[int] = []
    for part in "abcd":
        text = " ".join(f"{part}{number}" for number in range(10_500))
        found = signal.index(Corpus([document("tool", text)]))
        known.append(found.statistics.stale_words)
        assert scores(found, f"{part}77")[0] > 0
        assert not found.knows("a77") or part == "a"
    assert known == [0, 10_500, 21_000, 0]


def test_words_that_are_gone_are_not_kept_by_the_documents_that_stay() -> None:
    signal, corpus = LexicalSignal(), None
    stable = [document(f"stable_{number}", "reads a file") for number in range(100)]
    vocabularies: list[ReferenceType[Vocabulary]] = []
    for number in range(8):
        words = " ".join(f"word{number}x{each}" for each in range(8_000))
        corpus = Corpus([*stable, document("changing", words)], corpus)
        vocabularies.append(ref(signal.index(corpus).statistics.vocabulary))
        assert len(corpus.parts) == min(2, 1 + number)
    gc.collect()
    assert len({id(kept) for each in vocabularies if (kept := each()) is not None}) <= 1


def test_what_is_said_of_a_name_counts_by_rarity() -> None:
    of = index(document("git_commit"), document("git_push"), document("git_log"))
    said = of.name_coverage(Query("git commit please"))
    rare, common = math.log(1 + 2.5 / 1.5), math.log(1 + 0.5 / 3.5)
    partly = common / (rare + common)
    assert said == pytest.approx([1.0, partly, partly], abs=1e-6)


def test_more_words_than_sixteen_bits_count_are_told_apart() -> None:
    """A word's number is sorted by in two halves; each word is in one document only."""
    size, many = 1 << 16, 70_000
    texts = [" ".join(map(str, range(start, many, 7))) for start in range(7)]
    documents = [document(f"d{n}", text) for n, text in enumerate(texts)]
    index = LexicalSignal().index(Corpus(documents))
    for number in (0, 1, size - 1, size, size + 5, many - 1):
        scores = index.rank(Query(str(number))).scores
        assert np.flatnonzero(scores).tolist() == [number % 7]

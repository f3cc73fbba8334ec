"""Words as numbers: kept from one process to the next, never wrong, written when it is worth it."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.lexical.analyzer import BEHIND, VERSION, Analyzer, Stemmer
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.storage.blob_store import BlobStore
from toolscript.types import Document

TEXTS = ("Read the contents of a file.", "readFiles beta Ünï 天気", "running the directories", "")


@pytest.fixture
def kept(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "a.sqlite")


def document(number: int, text: str) -> Document:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Document(
        id=f"s__{number:04}", server="s", name=f"tool_{number}", description=text, digest=digest
    )


def corpus(*texts: str) -> Corpus:
    return Corpus([document(number, text) for number, text in enumerate(texts)])


def wording(kept: BlobStore) -> Analyzer:
    return Analyzer(Stemmer(), lambda: kept)


def spelled(of: Analyzer, corpus: Corpus) -> list[tuple[list[str], list[int]]]:
    """Each document's words and the lengths of its fields."""
    names = of.numbering.words
    return [([names[n] for n in each.numbers], each.lengths.tolist()) for each in of.of(corpus)]


def count(kept: BlobStore) -> int:
    return len(kept.load("words", kept.writer_version("words")))


def kept_before(kept: BlobStore, texts: Sequence[str]) -> None:
    first, documents = wording(kept), corpus(*texts)
    first.of(documents)
    first.keep()
    assert count(kept) == 1


def test_what_another_process_took_apart_is_the_same(kept: BlobStore) -> None:
    """skills:folders: with changes since: others, fewer, more."""
    kept_before(kept, TEXTS)
    for texts in (TEXTS, TEXTS[:2], (*TEXTS, "more"), ("changed", *TEXTS[1:]), TEXTS[::-1]):
        later, fresh = wording(kept), Analyzer(Stemmer(), lambda: None)
        documents = corpus(*texts)
        assert spelled(later, documents) == spelled(fresh, documents)
        assert later.numbering.words[0] == "tool", "the numbers are those that were kept"


def test_every_score_is_the_same_to_the_bit(kept: BlobStore) -> None:
    """search:fusion"""
    kept_before(kept, TEXTS)
    documents = corpus("alpha beta", *TEXTS[1:])
    found, fresh = LexicalSignal(lambda: kept).index(documents), LexicalSignal().index(documents)
    for text in ("read files", "beta alpha", "runing", "tool", "天気"):
        assert found.rank(Query(text)).scores.tolist() == fresh.rank(Query(text)).scores.tolist()
        assert found.said(Query(text)).tolist() == fresh.said(Query(text)).tolist()


def test_it_is_written_when_a_twentieth_is_not_in_it(kept: BlobStore) -> None:
    """skills:folders: an edit writes nothing, many do."""
    texts = [f"text {number}" for number in range(3 * BEHIND)]
    kept_before(kept, texts)
    before = kept.path.read_bytes()
    of = wording(kept)
    for number in range(4):
        assert kept.path.read_bytes() == before, number
        texts[number] = f"another {number}"
        of.of(corpus(*texts))
        of.keep()
    assert kept.path.read_bytes() != before
    assert count(kept) == 1


def test_documents_that_are_gone_count_too(kept: BlobStore) -> None:
    """skills:folders"""
    kept_before(kept, [f"text {number}" for number in range(50)])
    of, few = wording(kept), corpus("text 0")
    of.of(few)
    before = kept.path.read_bytes()
    of.keep()
    assert kept.path.read_bytes() != before


def test_nothing_that_is_damaged_or_of_another_version_is_used(kept: BlobStore) -> None:
    """skills:folders"""
    kept_before(kept, TEXTS)
    data = kept.path.read_bytes()
    expected = spelled(Analyzer(Stemmer(), lambda: None), corpus(*TEXTS))
    assert data.count(b"directories") == 1
    kept.path.write_bytes(data.replace(b"directories", b"directorixs"))
    assert spelled(wording(kept), corpus(*TEXTS)) == expected
    kept.path.write_bytes(data)
    made_by = kept.writer_version("words")
    kept.path.write_bytes(data.replace(made_by.encode(), made_by.replace("1", "0", 1).encode()))
    later = wording(kept)
    assert spelled(later, corpus(*TEXTS)) == expected
    later.keep()
    assert kept.writer_version("words") == made_by


def test_what_is_kept_is_of_no_use_once_texts_are_taken_apart_differently() -> None:
    """skills:folders: where this fails, raise `VERSION`, and put the new digest here."""
    of = Analyzer(Stemmer(), lambda: None)
    found = spelled(of, corpus(*TEXTS, "HTTPServer v2.0 straße_ﬁle's"))
    stems = [of.numbering.stemmer(word) for word in of.numbering.words]
    digest = hashlib.sha256(repr((found, stems)).encode()).hexdigest()[:16]
    assert (VERSION, digest) == ("1", "d350db7bc1e787c8")


def test_threads_that_ask_at_once_get_the_right_stems() -> None:
    """search:fusion: the algorithm writes down what it is at."""
    words = [
        f"{start}{end}" for start in ("walk", "hop", "relat") for end in ("ing", "ed", "ional")
    ]
    words = [f"{word[:1]}{number}{word}" for number in range(60) for word in words]
    alone, shared = Stemmer(), Stemmer()

    def ask(_: int) -> list[str]:
        return [shared(word) for word in words]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert found == [[alone(word) for word in words]] * 8

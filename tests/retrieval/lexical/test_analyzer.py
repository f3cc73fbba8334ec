import tracemalloc
from concurrent.futures import ThreadPoolExecutor

from toolscript.retrieval.lexical.analyzer import (
    FIELDS,
    MAX_STEM_CHARS,
    MAX_STEMS,
    Analyzer,
    Stemmer,
)
from toolscript.types import Document


def test_a_document_becomes_the_numbers_of_its_words_field_by_field() -> None:
    document = Document(
        id="s__readFiles",
        server="s",
        name="readFiles",
        title="Reader",
        description="Reads the files. Ünï 天気",
        parameters=(("path", "where the file is"),),
    )
    analyzer = Analyzer(Stemmer())
    [token_ids] = analyzer.of([document])
    vocabulary = analyzer.vocabulary
    numbers: list[int] = token_ids.numbers.tolist()
    spelled = [vocabulary.words[number] for number in numbers]
    assert dict(zip(FIELDS, token_ids.lengths.tolist(), strict=True)) == {
        "name": 2,
        "title": 1,
        "server": 1,
        "description": 6,
        "parameters": 1,
        "details": 4,
    }
    assert spelled[:6] == ["read", "files", "reader", "s", "reads", "the"]
    assert vocabulary.stem_of[vocabulary["reads"]] == vocabulary.stem_of[vocabulary["read"]]


def test_only_documents_that_changed_are_taken_apart_again() -> None:
    def document(name: str, description: str = "") -> Document:
        return Document(id=name, server="s", name=name, description=description)

    analyzer = Analyzer(Stemmer())
    a, b = analyzer.of([document("a"), document("b")])
    again, changed, _ = analyzer.of([document("a"), document("b", "x"), document("c")])
    assert again is a
    assert (b.numbers.size, changed.numbers.size) == (2, 3)
    analyzer.of([document("b")])
    assert analyzer.of([document("a")])[0] is a, "one of three may be all that has changed"
    analyzer.of([document("b"), document("c")])
    assert analyzer.of([document("a")])[0] is not a


def test_threads_that_ask_at_once_get_the_right_stems() -> None:
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


def test_stems_of_words_that_questions_ask_for_are_not_kept_without_end() -> None:
    stemmer = Stemmer()
    tracemalloc.start()
    for number in range(MAX_STEMS):
        stemmer(f"walking{number}")
    before, _ = tracemalloc.get_traced_memory()
    assert stemmer("walking") == "walk"
    for number in range(1_000):
        stemmer(f"{number}{'x' * 100 * MAX_STEM_CHARS}")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after < before / 10

"""An index that was changed bit by bit answers like one that was made from nothing."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscript.retrieval.base import MIN_CHANGES, Corpus, DocumentMemo
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.types import Document, SearchRequest, tool_id

_WORDS = ("send", "mail", "commit", "branch", "shell", "command", "invoice", "read", "file", "run")
_NAMES = ("read_file", "raed_file", "send-mail", "run_command", "a__read_file", "*", "commit")
_SERVERS = ("a", "a_", "git", "shell")
_TEXTS = st.lists(st.sampled_from(_WORDS), max_size=5).map(" ".join)
QUESTIONS = (
    "read the file and send the mail",
    "raed_file",
    "read_fil",
    "comit the brnch",
    "a__read_file",
    "*",
    "run a command in the shell",
    "xqzv wkpfj",
)


@st.composite
def _changes(draw: st.DrawFn) -> list[Document]:
    """A document for each id: of the same id the last one counts."""
    drawn = draw(
        st.lists(st.tuples(st.sampled_from(_SERVERS), st.sampled_from(_NAMES), _TEXTS), max_size=8)
    )
    return [
        Document(
            id=tool_id(server, name),
            server=server,
            name=name,
            description=text,
            parameters=((text[:4], text),) if text else (),
            digest=text,
        )
        for server, name, text in drawn
    ]


def answers(engine: SearchEngine) -> list[object]:
    results = [engine.search(SearchRequest(text=text, explain=True)) for text in QUESTIONS]
    return [
        [(hit.document, hit.score, hit.signals, hit.reason, hit.explanation) for hit in each.hits]
        for each in results
    ]


def engine_of(documents: Sequence[Document]) -> SearchEngine:
    engine = SearchEngine(search_profile(0.7, 10, 0.0))
    engine.update(documents)
    return engine


@pytest.mark.requirement("upstream:live")
@given(
    start=_changes(),
    steps=st.lists(st.tuples(_changes(), st.sets(st.sampled_from(_SERVERS), max_size=1))),
    padding=st.sampled_from([0, 2 * MIN_CHANGES]),
)
@settings(max_examples=30)
def test_changes_one_after_the_other_lead_to_the_same_answers(
    start: list[Document], steps: list[tuple[list[Document], set[str]]], padding: int
) -> None:
    current = {
        f"p__{number}": Document(id=f"p__{number}", server="p", name=f"{number}", description="x y")
        for number in range(padding)
    }
    engine = engine_of([])
    for added, removed in [(start, set[str]()), *steps]:
        current = {each.id: each for each in current.values() if each.server not in removed}
        current |= {each.id: each for each in added}
        engine.update(current.values())
        assert answers(engine) == answers(engine_of([*current.values()]))


@pytest.mark.requirement("upstream:live")
def test_few_changes_leave_the_first_segment_as_it_is() -> None:
    first = [Document(id=f"s__{n:04}", server="s", name=f"{n}") for n in range(5000)]
    before = Corpus(first)
    changed = [*first[1:], Document(id="s__0001", server="s", name="another")]
    changed.pop(0)
    after = Corpus(changed, before)
    kept, new = after.parts
    assert kept.segment is before.parts[0].segment
    assert kept.missing_places == [0, 1]
    assert [each.name for each in new.segment.documents] == ["another"]
    assert new.rows.tolist() == [0]
    for part in after.parts:
        for place, row in enumerate(part.rows.tolist()):
            assert row < 0 or after.documents[row] is part.segment.documents[place]
    assert len(Corpus(first, after).parts) == 2
    many = [*first[: -2 * MIN_CHANGES]]
    assert len(Corpus(many, after).parts) == 1


def test_what_is_made_of_a_document_is_forgotten_with_it() -> None:
    made: list[str] = []
    memo = DocumentMemo(lambda document: made.append(document.id) or document.id)

    def documents(*numbers: int) -> list[Document]:
        return [Document(id=f"{n}", server="s", name="n") for n in numbers]

    memo.of(documents(*range(10)))
    for number in range(10, 200):
        memo.of(documents(number))
    memo.of(documents(199))
    assert len(made) == 200
    assert memo.of(documents(0)) == ["0"]
    assert made[-1] == "0"

"""Fake uses of a hostile server's tools do not buy their places in other people's searches."""

from collections.abc import Sequence

import pytest

from tests.corpus import ROWS, tools_of
from tests.support import until
from toolscript.embedding.loader import LazyModel
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import EVERYTHING, Document, Grant, PermissionRule, SearchRequest

USES = 1000
QUESTIONS = {
    "show me what is written in this text file": "filesystem__read_file",
    "save this text into a new file": "filesystem__write_file",
    "change two lines of a text file": "filesystem__edit_file",
    "which files and folders are in this directory": "filesystem__list_directory",
    "make a directory for the reports": "filesystem__create_directory",
    "rename a file": "filesystem__move_file",
    "look for files whose name ends in csv": "filesystem__search_files",
    "how large is this file and when was it changed": "filesystem__get_file_info",
    "status of the working tree": "git__git_status",
    "commit my changes to the repository": "git__git_commit",
    "compare two branches": "git__git_diff",
    "show the latest commits": "git__git_log",
    "put the changed files on the staging area": "git__git_add",
    "start a new branch": "git__git_create_branch",
    "switch to the other branch": "git__git_checkout",
    "what time is it in Tokyo": "time__get_current_time",
    "convert nine o'clock in Paris to the time of New York": "time__convert_time",
    "get this web page as markdown": "fetch__fetch",
    "add two entities to the knowledge graph": "memory__create_entities",
    "find nodes in the knowledge graph": "memory__search_nodes",
}
HOSTILE = {
    "hostile": {
        f"assistant_{number}": (f"Helps whoever wants to {' '.join(question.split()[1::2])}.",)
        for number, question in enumerate(QUESTIONS)
    }
}
TARGETS = list(zip(QUESTIONS, (f"hostile__{name}" for name in HOSTILE["hostile"]), strict=True))
LIMITED = Grant(servers=("hostile",), holder="limited-1")
RULED = Grant(servers=("*",), permissions=(PermissionRule("git__*", "deny"),), holder="limited-2")
PROFILED = Grant(servers=("*",), profiles=("reader",), holder="limited-3")
FULL = [Grant(servers=("*",), holder=f"full-{number}") for number in range(3)]
VICTIMS = [EVERYTHING, Grant(servers=("*",), holder="colleague")]
CONTEXTS = ((), ("git__git_status",), ("hostile__assistant_1",))


class Place:
    """An engine and what it has learned, as the application has them."""

    def __init__(self, model: LazyModel) -> None:
        self.learning = Learning()
        semantic = SemanticSignal(model, lambda: None, usage=self.learning.usage)
        self.learning.embed = semantic.embed_query
        profile = search_profile(0.7, 10, 0.0)
        self._engine = SearchEngine(profile, LexicalSignal(), semantic, self.learning)
        self._engine.update(map(Document.of, tools_of(ROWS | HOSTILE)))
        for number in range(30):  # the graph has a say
            history = SessionHistory()
            for name in ("status", "add", "commit"):
                tool = f"git__git_{name}"
                self.learning.record_call(history, tool, succeeded=number != 1)
        self.learning.flush()

    def use(self, grants: Sequence[Grant]) -> None:
        """Have holders search for the questions, and call the hostile tool for each."""
        histories = [SessionHistory() for _ in grants]
        for number in range(USES):
            question, tool = TARGETS[number % len(TARGETS)]
            turn = number // len(TARGETS) % len(grants)
            history, grant = histories[turn], grants[turn]
            history.record_search(question, [tool])
            self.learning.record_call(history, tool, succeeded=True, grant=grant)
        until(self.learning.flush, "everything is learned")

    def found(self, grant: Grant, question: str, context: tuple[str, ...] = ()) -> list[str]:
        """Return the first ten with their scores.

        In their fourth digit: what was learned fades with every second, which a tie may show.
        """
        request = SearchRequest(text=question, grant=grant, context=context)
        return [f"{hit.document.id} {hit.score:.4f}" for hit in self._engine.search(request).hits]

    def all_found(self, grant: Grant) -> list[list[str]]:
        return [self.found(grant, question, used) for question in QUESTIONS for used in CONTEXTS]

    def right(self, grant: Grant) -> int:
        """Return for how many of the questions the right tool is first."""
        firsts = {question: self.found(grant, question)[0].split()[0] for question in QUESTIONS}
        return sum(firsts[question] == tool for question, tool in QUESTIONS.items())


@pytest.mark.requirement("graph:learning")
@pytest.mark.parametrize(
    "grants", [[LIMITED], [RULED], [PROFILED], [LIMITED, RULED, PROFILED]], ids=len
)
def test_a_limited_token_teaches_its_own_searches_only(
    model: LazyModel, grants: list[Grant]
) -> None:
    """No other's first ten change, in their scores neither, with and without a context."""
    place = Place(model)
    before = [place.all_found(victim) for victim in VICTIMS]
    own, figures = place.all_found(grants[0]), place.learning.graph.stats()
    place.use(grants)
    assert [place.all_found(victim) for victim in VICTIMS] == before
    assert place.all_found(grants[0]) != own
    assert place.learning.graph.stats() == figures
    place.learning.close()


@pytest.mark.requirement("graph:learning")
def test_three_tokens_for_everything_move_others_by_a_bound(model: LazyModel) -> None:
    """What they teach their own searches, as the owner's uses do for all, is no gain there."""
    place = Place(model)
    assert min(place.right(victim) for victim in VICTIMS) >= 19
    place.use(FULL)
    assert min(place.right(victim) for victim in VICTIMS) >= 18
    assert max(place.right(grant) for grant in FULL) < 18
    place.use([EVERYTHING])
    assert max(place.right(victim) for victim in VICTIMS) < 18
    place.learning.close()

"""A question whose only known word is a server's name finds the tools of that server."""

import pytest

from toolscript.embedding.loader import LazyModel, load_model
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, Hit, SearchRequest, tool_id

TOOLS = {
    "jira": {"createIssue": "Creates an issue.", "getIssue": "Gets an issue by its key."},
    "slack": {"post_message": "Posts a message to a channel.", "list_channels": "Lists channels."},
    "forge": {"list_branches": "Lists branches.", "sync_jira": "Copies what is new."},
}


def engine(*servers: str, semantic: bool = True) -> SearchEngine:
    model = LazyModel(lambda: load_model("bundled", "bundled", 1))
    signal = SemanticSignal(model, lambda: None) if semantic else None
    found = SearchEngine(search_profile(0.7, 5, 0.35), semantic=signal)
    found.update(
        Document(id=tool_id(server, name), server=server, name=name, description=text)
        for server in servers
        for name, text in TOOLS[server].items()
    )
    return found


def hits(engine: SearchEngine, text: str) -> tuple[Hit, ...]:
    return engine.search(SearchRequest(text=text, explain=True)).hits


@pytest.mark.parametrize("semantic", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        *("我想在 Jira 里创建一个新问题", "我想在Jira里创建一个新问题", "Jira で課題を作成する"),
        *("Jira에서 새 이슈 만들기", "إنشاء مشكلة في Jira", "создать задачу в Jira"),
        "añadir una incidencia en Jira",
    ],
)
def test_a_named_servers_tools_are_found_in_any_language(text: str, *, semantic: bool) -> None:
    found = hits(engine("jira", "slack", semantic=semantic), text)
    assert {hit.document.server for hit in found} == {"jira"}
    assert len(found) == 2
    assert [hit.reason for hit in found] == ["Name of its server"] * 2
    assert all(0.4 <= hit.score <= 0.6 for hit in found)


def test_they_are_ordered_by_their_meaning_and_the_explanation_tells_why() -> None:
    first, second = hits(engine("jira", "slack"), "jira 创建 nuevo")
    meaning = [hit.signals["semantic"] for hit in (first, second)]
    assert meaning == sorted(meaning, reverse=True)
    assert first.explanation is not None
    [step] = [each for each in first.explanation.steps if each.name == "server"]
    assert step.evidence == "the name of its server is all that is known of the question"


def test_words_of_other_tools_and_questions_without_a_server_raise_none() -> None:
    both = engine("jira", "slack", "forge")
    assert {hit.document.server for hit in hits(both, "在 Jira 创建新问题")} == {"jira"}
    assert "Name of its server" not in [hit.reason for hit in hits(both, "在 Jira 创建 branches")]
    assert hits(both, "我想创建一个新问题") == ()
    assert hits(both, "zxqv blorp") == ()
    assert "Name of its server" not in [hit.reason for hit in hits(both, "jira issue")]

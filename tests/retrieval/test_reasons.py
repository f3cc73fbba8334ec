"""Every reason of a hit stands in the table of the ranking page, and every row of it is given."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import MakeEngine
from tests.retrieval.test_copies import COPIES, HONEST, document
from tests.retrieval.test_rerank import HABIT, engine_of
from toolscript.embedding.loader import LazyModel
from toolscript.graph.learning import Learning
from toolscript.retrieval.engine import SearchEngine
from toolscript.types import Document, SearchRequest

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "ranking.md"
VARIABLE = re.compile(r"\([^()]*\)|“[^”]*”|(?<=with )\S+|(?<=see )\S+")
SHELL = document("sh", "run_command", "Run a shell command.")
OLD = document("docs", "read_page", "Read a page. DEPRECATED: use fetch_page instead.")
NEW = document("docs", "fetch_page", "Get a page as text.")
POLISH = document(
    "house",
    "polish_brass_doorknob",
    "Reindexes the vectors of a database table in batches of a thousand rows.",
)
POSTS = document("posthub", "publish", "Publish a post.")


def kinds(reason: str) -> set[str]:
    """The rows that make up a reason, without what is different each time."""
    constant = VARIABLE.sub("*", reason).removeprefix("…")
    first, *remarks = constant.split("; ")
    phrase, wish, _ = first.partition(" for *")
    named = phrase.startswith("Fuzzy match + ")  # with a label or without
    label = phrase.removesuffix(" *") if named else phrase
    return {each for each in (label, wish.strip(), *remarks) if each}


def table() -> set[str]:
    section = PAGE.read_text("utf-8").split("## Reasons\n")[1].split("\n## ")[0]
    return {
        kind
        for row in re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
        for kind in kinds(row.replace("… for", " for"))
    }


def asked(engine: SearchEngine, text: str, **more: object) -> Iterator[str]:
    request = SearchRequest(text=text, limit=100, threshold=0.0, **more)  # type: ignore[arg-type]
    for hit in engine.search(request).hits:
        yield from kinds(hit.reason)


@pytest.mark.requirement("search:reason")
def test_the_table_of_reasons_is_complete(
    make_engine: MakeEngine, model: LazyModel, no_model: LazyModel, documents: tuple[Document, ...]
) -> None:
    every = make_engine([*documents, OLD, NEW, POLISH, POSTS])
    given = {
        kind
        for text in (
            "git_commit",
            "git_comit",
            "commit my changes to git",
            "read a page",
            "find the invoice and then send an email to Ana",
            "xqzv blorp posthub gnarf",
            "polish brass doorknob or the like, to tell me about the weather in Paris",
            "zxqv blorp",
        )
        for kind in asked(every, text)
    }
    given |= set(asked(make_engine([SHELL]), "commit my changes to git"))
    words = make_engine([*documents, SHELL], 0.7, no_model)
    given |= set(asked(words, "commit")) | set(asked(words, "read the file of notes and commit"))
    given |= set(asked(make_engine([*HONEST, *COPIES]), "share a song"))
    learning = Learning()
    habitual = engine_of(model, documents, learning)
    for _ in range(30):
        learning.graph.learn(HABIT)
        learning.graph.record_gain(0.9)
    given |= set(asked(habitual, "write it down", context=("git__git_status", "git__git_add")))
    assert given == table()


@pytest.mark.requirement("search:reason", "search:intent")
def test_a_capability_is_read_from_whole_words(make_engine: MakeEngine) -> None:
    """search:reason, search:intent: "containing" speaks of no container."""
    text = "Find the cells containing a value, as in a container of things."
    engine = make_engine([document("excel", "find_cells", text)])
    [hit] = engine.search(SearchRequest(text="the sheet containing my totals", threshold=0.0)).hits
    assert "container" not in hit.reason
    [hit] = engine.search(SearchRequest(text="a container for my totals", threshold=0.0)).hits
    assert "(container operations)" in hit.reason


@pytest.mark.requirement("search:reason")
def test_a_deprecated_tool_keeps_the_reason_of_its_match(make_engine: MakeEngine) -> None:
    """search:reason: and says which tool has taken its place."""
    hits = make_engine([OLD, NEW]).search(SearchRequest(text="read a page", threshold=0.0)).hits
    assert [hit.document.id for hit in hits] == [NEW.id, OLD.id]
    assert "deprecated" not in hits[0].reason
    assert re.fullmatch(r"\w.*; deprecated, see fetch_page", hits[1].reason)

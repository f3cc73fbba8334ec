"""Abbreviations are read as what they stand for, where only that is a word of the tools."""

import pytest

from toolscript.embedding.loader import LazyModel, load_model
from toolscript.retrieval.abbreviations import expand_abbreviations
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest, tool_id

TOOLS = {
    "forge": {
        "list_pull_requests": "Lists the pull requests of a repository.",
        "create_pull_request": "Opens a pull request from a branch.",
        "create_branch": "Creates a branch.",
        "list_workflow_runs": "Lists the runs of a workflow.",
    },
    "tracker": {"createIssue": "Creates an issue in a project.", "addComment": "Adds a comment."},
    "pager": {"create_incident": "Opens an incident and pages who is on call."},
    "chat": {
        "post_message": "Posts a message to a person or a channel.",
        "list_channels": "Lists channels.",
    },
    "clock": {"convert_timezone": "Converts a time from one timezone into another."},
    "site": {
        "search_documentation": "Searches the documentation.",
        "read_configuration": "Reads a configuration file.",
        "set_environment": "Sets variables of the environment.",
    },
    "store": {"query_database": "Runs a query on the database."},
    "cloud": {"list_virtual_machines": "Lists virtual machines.", "dbbackup": "Saves it."},
    "media": {"resize_image": "Changes the size of an image."},
}
ROWS = {
    "PR": "forge__create_pull_request forge__list_pull_requests",
    "prs": "forge__list_pull_requests",
    "list PRs": "forge__list_pull_requests",
    "list open PRs": "forge__list_pull_requests",
    "open a PR": "forge__create_pull_request",
    "create a PR for my branch": "forge__create_pull_request",
    "open MR": "forge__create_pull_request",
    "list MRs": "forge__list_pull_requests",
    "tickets": "tracker__createIssue",
    "open a ticket": "tracker__createIssue",
    "CI runs": "forge__list_workflow_runs",
    "DM someone": "chat__post_message",
    "tz conversion": "clock__convert_timezone",
    "search the docs": "site__search_documentation",
    "read the config": "site__read_configuration",
    "set env vars": "site__set_environment",
    "what VMs are there": "cloud__list_virtual_machines",
    "resize an img": "media__resize_image",
}


@pytest.fixture(scope="module")
def engine() -> SearchEngine:
    model = LazyModel(lambda: load_model("bundled", "bundled", 1))
    found = SearchEngine(search_profile(0.7, 5, 0.35), semantic=SemanticSignal(model, lambda: None))
    found.update(
        Document(id=tool_id(server, name), server=server, name=name, description=text)
        for server, tools in TOOLS.items()
        for name, text in tools.items()
    )
    return found


@pytest.mark.parametrize("text", ROWS)
def test_an_abbreviation_finds_what_it_stands_for(engine: SearchEngine, text: str) -> None:
    hits = engine.search(SearchRequest(text=text)).hits
    assert hits
    assert hits[0].document.id in ROWS[text].split()


def test_it_is_read_by_both_signals_and_the_explanation_says_so(engine: SearchEngine) -> None:
    for alpha in (0.0, 1.0):
        short, long = (
            engine.search(SearchRequest(text=text, alpha=alpha, explain=True)).hits[0]
            for text in ("open a PR", "open a pull request")
        )
        assert (short.document, short.score) == (long.document, long.score)
        assert short.explanation is not None
        step = short.explanation.steps[0]
        assert (step.name, step.evidence) == ("reading", "PR read as pull request")


def test_a_ticket_is_an_issue_and_what_else_it_may_be(engine: SearchEngine) -> None:
    hits = engine.search(SearchRequest(text="open a ticket")).hits
    ids = [hit.document.id for hit in hits]
    assert ids[0] == "tracker__createIssue"
    assert "pager__create_incident" in ids


def test_in_each_part_of_a_question_it_is_read(engine: SearchEngine) -> None:
    hits = engine.search(SearchRequest(text="list the PRs, then create a ticket")).hits
    assert {"forge__list_pull_requests", "tracker__createIssue"} <= {h.document.id for h in hits}


def test_a_name_with_an_abbreviation_is_still_that_name(engine: SearchEngine) -> None:
    hits = engine.search(SearchRequest(text="DB backup", explain=True)).hits
    assert (hits[0].document.id, hits[0].reason) == ("cloud__dbbackup", "Exact name")


def read(text: str, *words: str) -> str:
    return expand_abbreviations(text, frozenset(words).__contains__)[0]


def test_words_are_replaced_by_those_that_some_tool_has() -> None:
    assert read("list my PRs", "pull", "request") == "list my pull requests"
    assert read("list my PRs", "merge", "request") == "list my merge requests"
    assert read("list my PRs", "pull") == "list my PRs"
    assert read("list my PRs", "pull", "request", "pr") == "list my pr"
    assert read("add deps, k8s", "dependency", "kubernetes") == "add dependencies, kubernetes"
    assert read("fix CI/CD", "pipeline") == "fix pipeline"
    assert read("my tickets", "issue") == "my issue tickets"
    assert read("my tickets") == "my tickets"


@pytest.mark.parametrize(
    "text",
    [
        *("Mr. Smith asks", "open ./repo/file", "list_repo", "repo-name", "repo.txt", "@repo"),
        *("https://example.org/repo", "merge request"),
    ],
)
def test_what_is_no_word_by_itself_is_left_as_it_is(text: str) -> None:
    assert expand_abbreviations(text, {"merge", "request", "repository"}.__contains__) == (text, {})


def test_the_plural_of_an_abbreviation_that_tools_have_is_one_word() -> None:
    found = SearchEngine(search_profile(0.0, 5, 0.0))
    found.update([Document(id="f__x", server="f", name="x", description="Shows a PR.")])
    [hit] = found.search(SearchRequest(text="show my PRs", explain=True)).hits
    assert hit.explanation is not None
    assert hit.explanation.shares[0].evidence == ("show 50%", "pr 50%")


def test_a_long_question_takes_no_time_for_its_length() -> None:
    text = "a/" * 5_000 + "pr" * 5_000 + "/"
    assert expand_abbreviations(text, {"pull", "request"}.__contains__) == (text, {})

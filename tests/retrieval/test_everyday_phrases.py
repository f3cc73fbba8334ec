"""Everyday expressions are read as the wishes behind them, if there is a tool for just that."""

import pytest

from toolscript.embedding.loader import LazyModel, load_model
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.everyday_phrases import SHELL, read_expressions
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest, SearchResult, tool_id

NOTES = {"add_observations": "Adds observations to an entity in memory."}
TASKS = {"create_task": "Creates a task.", "list_tasks": "Lists the tasks."}
CALCULATOR = {"calculate": "Calculates the result of a mathematical expression."}
LOG = {"git_log": "Shows the commit log.", "git_commit": "Records changes to the repository."}
FILES = {"read_text_file": "Reads the contents of a text file."}
SHELL_TOOL = {"execute": "Runs a shell command."}
WEB = {"search": "Searches the web for current information."}
POSTS = {"post_message": "Posts a message to a channel.", "add_reaction": "Adds a reaction."}
BLOG = {"create_post": "Creates a post."}
SERVERS = {"memory": NOTES, "todo": TASKS, "calculator": CALCULATOR, "git": LOG, "web": WEB}
MACHINE = {"files": FILES, "shell": SHELL_TOOL}

READ = {
    "Remember that my brother is called Tom": "store observations in memory",
    "don\N{RIGHT SINGLE QUOTATION MARK}t forget: the code is 1234": "store observations in memory",
    "remind me to water the plants": "create a task",
    "don't forget to buy bread": "create a task",
    "what changed in the last week": "show the commit log",
    "who wrote this": "show the commit log",
    "12 * 7": "calculate the result of a mathematical expression",
    "8 percent of 120": "calculate the result of a mathematical expression",
    "look up the tallest tower": "search the web for current information",
    "what  is on https://example.org": "fetch the content of a web page from a URL",
    "which calendars do I have": "list calendars",
    "throw the photo in there": "throw the image in there",
    "what does notes.txt say": "read the contents of a file",
    "get rid of the old ones": "delete the old ones",
    "spin up the redis box": "start the redis box",
    "dm anna that I am late": "send a message to a person",
    "when's our next standup": "get all calendar events",
    "how much is 50 bucks in euros": "convert an amount between currencies",
    "what's #41 about": "get an issue with its details",
    "#41 is blocked": "update an issue",
    "aGVsbG8gdGhlcmU= says what": "decode a base64 text",
    "when was 1700000000": "convert a unix timestamp to a date",
    "lgtm": "approve a pull request",
    "is the kitchen window open": "get the state of a device",
    "I'm vegan, just so you know": "store observations in memory",
    "a room in Porto for two nights": "search for hotels",
    "who's on call": "get who is on call",
    "is ci green": "get the status of the latest workflow run",
    "$ ls -la src": "list the files in a directory",
    "git st": "show the status of the working tree",
    "GH PR list --state open": "list the pull requests",
    "npm install left-pad": SHELL,
    "cat ~/notes": "read the contents of a file",
    "tail server.log": "read the contents of a file",
    "find . -name '*.py'": "search for files by name",
    "date": "get the current time",
    "SELECT name FROM users": "run a SELECT query on the database",
}
UNREAD = [
    "create a pull request",
    "the meeting on 2024-05-06",
    "call 555-1234 5",
    "I cannot remember the name of it",
    "photo_album",
    "open picture.png",
    "what is on the menu",
    "tell me about the parser",
    "ping 10.0.0.1",
    "book a table for two",
    "find all keys of Anna",
    "head of marketing",
    "kill the process",
    "npm packages with known holes",
    "I love mystery novels: any ideas?",
    "I love you",
    "select the first row",
]


@pytest.mark.parametrize("text", READ)
def test_an_expression_is_read(text: str) -> None:
    assert READ[text] in read_expressions(text)


@pytest.mark.parametrize("text", UNREAD)
def test_other_texts_have_no_reading(text: str) -> None:
    assert read_expressions(text) == ()


def test_a_long_question_speaks_for_itself() -> None:
    assert read_expressions("remind me " + "please " * 12)
    assert not read_expressions("remind me " + "please " * 13)


def test_no_pattern_reads_a_long_text() -> None:
    assert read_expressions("remind me " + "x" * 290)
    assert not read_expressions("remind me " + "x" * 291)
    assert not read_expressions("split 1 " + "1," * 4_900)


def search(text: str, servers: dict[str, dict[str, str]], threshold: float = 0.35) -> SearchResult:
    model = LazyModel(lambda: load_model("bundled", "bundled", 1))
    engine = SearchEngine(
        search_profile(0.7, 3, threshold), semantic=SemanticSignal(model, lambda: None)
    )
    engine.update(
        Document(id=tool_id(server, name), server=server, name=name, description=description)
        for server, tools in servers.items()
        for name, description in tools.items()
    )
    return engine.search(SearchRequest(text=text, explain=True))


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("keep in mind that I am left-handed", "memory__add_observations"),
        ("remind me to phone the plumber", "todo__create_task"),
        ("14 * 3", "calculator__calculate"),
        ("what happened since tuesday", "git__git_log"),
        ("look up the height of the tower", "web__search"),
        ("cat README.md", "files__read_text_file"),
        ("pwd", "shell__execute"),
    ],
)
def test_the_tool_for_the_wish_comes_first(text: str, tool: str) -> None:
    hit = search(text, SERVERS | MACHINE | {"chat": POSTS}).hits[0]
    assert hit.document.id == tool
    assert hit.explanation is not None
    assert "expression" in [step.name for step in hit.explanation.steps]


def test_without_a_tool_for_the_wish_nothing_is_raised() -> None:
    hits = search("remind me to phone the plumber", {"blog": BLOG}, threshold=0.0).hits
    assert hits
    for hit in hits:
        assert hit.explanation is not None
        assert "expression" not in [step.name for step in hit.explanation.steps]


def test_no_reading_comes_before_a_tool_that_the_question_itself_means() -> None:
    papers = {"read_paper": "Reads the paper behind a link and explains it."}
    fetch = {"fetch": "Fetches the content of a web page from a URL."}
    hits = search("explain the paper https://example.org/1", {"papers": papers, "web": fetch}).hits
    assert [hit.document.id for hit in hits] == ["papers__read_paper", "web__fetch"]
    assert hits[0].score - hits[1].score < 0.001


def test_subqueries_and_readings_live_together() -> None:
    ids = [
        h.document.id
        for h in search("post a message and remind me to phone Ann", SERVERS | {"chat": POSTS}).hits
    ]
    assert {"chat__post_message", "todo__create_task"} <= set(ids)

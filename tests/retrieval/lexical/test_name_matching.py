import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolscript.retrieval.base import Corpus
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.lexical.name_matching import MIN_SIMILARITY, NameIndex
from toolscript.text.words import words
from toolscript.types import Document, tool_id


def names(*pairs: tuple[str, str]) -> tuple[Corpus, NameIndex]:
    corpus = Corpus(Document(id=tool_id(s, t), server=s, name=t) for s, t in pairs)
    return corpus, NameIndex(corpus, LexicalSignal().index(corpus))


def matched(text: str, *pairs: tuple[str, str]) -> dict[str, float]:
    corpus, index = names(*pairs)
    return {corpus.documents[row].id: name.score for row, name in index.match([text])[text].items()}


FILES = (("fs", "read_file"), ("fs", "write_file"), ("git", "status"))


@pytest.mark.requirement("search:exact")
@pytest.mark.parametrize(
    "text",
    [
        *("read_file", "fs__read_file", "fs:read_file", "read file", "readFile"),
        *("fs read file", "READ-FILE", "  read_file  ", "readfile"),
    ],
)
def test_every_spelling_of_a_name_is_that_name(text: str) -> None:
    assert matched(text, *FILES) == {"fs__read_file": 1.0}


@pytest.mark.requirement("search:exact")
def test_a_name_that_two_servers_have_is_both() -> None:
    pairs = (("a", "search"), ("b", "search"), ("c", "other"))
    assert matched("search", *pairs) == {"a__search": 1.0, "b__search": 1.0}
    assert matched("b__search", *pairs) == {"b__search": 1.0}
    assert matched("b:search", *pairs) == {"b__search": 1.0}


@pytest.mark.requirement("search:exact")
def test_among_near_twins_the_one_that_was_typed_is_meant() -> None:
    pairs = (("s", "getFile"), ("s", "get_file"), ("s", "get-file"))
    for name in ("getFile", "get_file", "get-file"):
        assert matched(name, *pairs) == {f"s__{name}": 1.0}
    assert len(matched("get file", *pairs)) == 3


NAME = st.text(min_size=1, max_size=12).filter(lambda text: text.strip())
SERVER = NAME.filter(lambda name: "__" not in name and not name.endswith("_"))


@given(pairs=st.lists(st.tuples(SERVER, NAME), min_size=1, max_size=5, unique=True))
def test_any_tool_is_found_by_its_name_its_id_and_its_words(pairs: list[tuple[str, str]]) -> None:
    corpus, index = names(*pairs)
    for server, name in pairs:
        row = corpus.rows[tool_id(server, name)]
        for text in (name, tool_id(server, name), f"{server}:{name}"):
            assert index.match([text.strip()])[text.strip()][row].score == 1.0
        spelled = " ".join(words(name))
        if spelled and "\u0345" not in name:
            # Another tool may be called exactly like these words; then that one is meant.
            exact = {n.strip() for _, n in pairs} | {f"{s}:{n}".strip() for s, n in pairs}
            assume(spelled not in exact | {tool_id(*pair) for pair in pairs})
            assert index.match([spelled])[spelled][row].score == 1.0


@pytest.mark.requirement("search:typo")
@pytest.mark.parametrize(
    ("text", "alike"), [("read_fil", 0.875), ("raed_file", 0.875), ("raed_fil", 0.75)]
)
def test_a_misspelled_name_is_as_alike_as_its_edits_leave_it(text: str, alike: float) -> None:
    assert matched(text, *FILES)["fs__read_file"] == pytest.approx(alike)


@pytest.mark.requirement("search:typo")
def test_what_is_too_far_from_every_name_is_none() -> None:
    assert matched("rxxd_fxle", *FILES) == {}
    assert matched("weather", *FILES) == {}
    assert MIN_SIMILARITY == 0.75


def test_a_question_in_known_words_is_no_misspelling() -> None:
    pairs = (("a", "list_tiles"), ("b", "files"), ("c", "list"))
    assert "a__list_tiles" not in matched("list files", *pairs)
    assert "a__list_tiles" in matched("list tiless", *pairs)


@pytest.mark.parametrize("text", ["abc", "", "?!", "x" * 200])
def test_short_long_and_wordless_questions_are_near_no_name(text: str) -> None:
    assert matched(text, ("s", "abcd"), ("s", "x" * 190)) == {}


def test_a_name_in_symbols_only_is_found_literally() -> None:
    assert matched("+", ("math", "+"), ("math", "-")) == {"math__+": 1.0}


ISSUES = (("jira", "createIssue"), ("jira", "addComment"), ("crm", "addPerson"), ("math", "add"))
BOTH = {"jira__createIssue", "jira__addComment"}


@pytest.mark.parametrize(
    "text",
    [
        *("select:createIssue,addComment", "Select: createIssue , addComment"),
        "select:mcp__jira__createIssue,mcp__gateway__jira__addComment",
    ],
)
def test_what_is_selected_by_name_is_found_as_if_asked_for_alone(text: str) -> None:
    assert matched(text, *ISSUES) == dict.fromkeys(BOTH, 1.0)


def test_a_short_name_counts_where_names_are_selected_and_a_sentence_stays_one() -> None:
    assert matched("select:add", *ISSUES) == {"math__add": 1.0}
    assert matched("select: what to add", *ISSUES) == {}


@pytest.mark.parametrize(
    "text",
    [
        *("createIssue,addComment", "createIssue;addComment", "createIssue|addComment"),
        *('["createIssue","addComment"]', '{"names":["createIssue","addComment"]}'),
        *("(createIssue)(addComment)", "`createIssue`、“addComment”", "createIssue(),addComment()"),
        "jira.createIssue,jira/addComment",
    ],
)
def test_names_are_taken_apart_whatever_stands_between_them(text: str) -> None:
    assert matched(text, *ISSUES) == dict.fromkeys(BOTH, 0.9)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        *(("mcp__jira__createIssue", 1.0), ("mcp_jira_createIssue", 1.0)),
        *(("mcp__toolscript__jira__createIssue", 1.0), ("functions.createIssue", 1.0)),
        *(("mcp__claude_ai_Jira__createIssue", 0.9), ("`mcp__jira__createIssue`", 1.0)),
        ("file it with mcp__jira__createIssue, please", 0.9),
    ],
)
def test_a_name_with_what_a_client_puts_before_it_is_that_tool(text: str, score: float) -> None:
    assert matched(text, *ISSUES) == {"jira__createIssue": score}


def test_a_tool_whose_own_name_has_a_prefix_of_clients_is_found_by_it() -> None:
    pairs = (("a", "mcp_search"), ("b", "search"))
    assert matched("mcp_search", *pairs) == {"a__mcp_search": 1.0}


def test_without_documents_nothing_is_matched() -> None:
    assert matched("read_file") == {}

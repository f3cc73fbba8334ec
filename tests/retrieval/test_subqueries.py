import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.retrieval.base import Corpus
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.subqueries import MAX_SUBQUERIES, MIN_TOOLS, actions, split
from toolscript.types import Document

ACTIONS = {"find", "read", "push", "post"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("find the invoice and mail it to Ana", ["find the invoice", "mail it to Ana"]),
        (
            "commit my changes, then push them to github",
            ["commit my changes", "push them to github"],
        ),
        (
            "Read the report. Post a summary on slack!",
            ["Read the report.", "Post a summary on slack!"],
        ),
        (
            "download the logs, find errors in them, and post the result on slack",
            ["download the logs", "find errors in them", "post the result on slack"],
        ),
        ("first line here\nsecond line there", ["first line here", "second line there"]),
        ("读取文件。发送邮件给安娜。", ["读取文件。", "发送邮件给安娜。"]),
    ],
)
def test_a_question_is_cut_where_another_wish_begins(text: str, parts: list[str]) -> None:
    assert split(text, ACTIONS.__contains__) == parts


@pytest.mark.parametrize(
    "text",
    [
        "read a file",
        "salt and pepper recipes",
        "search and replace text in a file",
        "the differences between branches and commits",
        "stop and go",
        "flights to Rome and the hotels there",
        "",
        "... and the ...",
    ],
)
def test_a_question_of_one_piece_is_left_alone(text: str) -> None:
    assert split(text, ACTIONS.__contains__) == []


@pytest.mark.parametrize("before", ["", ","])
def test_white_space_of_any_length_is_read_once(before: str) -> None:
    """search:intent: nothing else runs while a gateway takes a question apart."""
    gap = " " * 1_000_000
    text = f"find{gap}the invoice{before}{gap}and{gap}mail it to Ana"
    parts = [f"find{gap}the invoice", "mail it to Ana"]
    assert split(text, ACTIONS.__contains__) == parts


@given(st.text(alphabet="ab .,;!?\n。and then the", max_size=200))
def test_parts_are_few_and_in_the_question(text: str) -> None:
    parts = split(text, lambda _: True)
    assert len(parts) <= MAX_SUBQUERIES
    assert all(part in text for part in parts)


def test_an_action_is_a_word_with_which_several_tools_begin() -> None:
    texts = [("send_mail", "Sends it."), ("mail", "Post it."), ("post", "Mails a letter")]
    corpus = Corpus(
        Document(id=name, server="s", name=name, description=text) for name, text in texts
    )
    is_action = actions(corpus, Stemmer())
    assert MIN_TOOLS == 2
    assert [w for w in ("sending", "mail", "posts", "letter", "it") if is_action(w)] == [
        "sending",
        "mail",
        "posts",
    ]

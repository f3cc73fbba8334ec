"""What every `Encoder` has to do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscript.embedding.base import Encoder, Vectors
from toolscript.embedding.loader import load_model

ENCODERS = ["bundled"]
TEXTS = ["read a file", "", " ", "\0", "今日の天気", "🚀 " * 50, "x" * 20_000, "read a file"]


@pytest.fixture(scope="module", params=ENCODERS)
def under_test(request: pytest.FixtureRequest) -> Encoder:
    loaded = load_model(request.param, "fuzzy", 1).encoder
    assert loaded is not None
    return loaded


def assert_unit(rows: Vectors, shape: tuple[int, ...]) -> None:
    assert rows.dtype == np.float32
    assert rows.shape == shape
    np.testing.assert_allclose(np.linalg.norm(rows, axis=-1), np.ones(shape[:-1]), atol=1e-5)


def test_every_text_gets_a_unit_vector_in_its_place(under_test: Encoder) -> None:
    rows = under_test.documents(TEXTS)
    assert_unit(rows, (len(TEXTS), under_test.dim))
    np.testing.assert_allclose(rows[0], rows[-1], atol=1e-5)
    assert not np.allclose(rows[0], rows[4], atol=1e-2)


def test_no_texts_are_no_vectors(under_test: Encoder) -> None:
    assert under_test.documents([]).shape == (0, under_test.dim)


def test_a_question_is_nearer_to_its_answer_than_to_anything_else(under_test: Encoder) -> None:
    answers = ["Read the contents of a file.", "The weather forecast.", "Send an e-mail."]
    questions = ["open a document", "will it rain tomorrow", "write to my boss"]
    rows = under_test.documents(answers)
    found = [int((rows @ under_test.query(question)).argmax()) for question in questions]
    assert found == [0, 1, 2]


def test_each_part_of_a_question_is_nearest_to_its_own_answer(under_test: Encoder) -> None:
    """search:intent: and the question itself has the vector it has alone."""
    answers = ["Read the contents of a file.", "The weather forecast.", "Send an e-mail."]
    parts = ["Open the document", "see whether it will rain", "write to my boss"]
    text = ", ".join(parts)
    found = under_test.query_with_parts(text, parts)
    assert_unit(found, (4, under_test.dim))
    np.testing.assert_allclose(found[0], under_test.query(text), atol=1e-5)
    assert (found[1:] @ under_test.documents(answers).T).argmax(axis=1).tolist() == [0, 1, 2]
    assert_unit(under_test.query_with_parts(text, []), (1, under_test.dim))


def test_a_part_behind_the_token_limit_has_a_vector_too(under_test: Encoder) -> None:
    text = "read a file. " * 400 + "send an e-mail"
    found = under_test.query_with_parts(text, ["read a file.", "send an e-mail"])
    np.testing.assert_allclose(found[2], under_test.query("send an e-mail"), atol=1e-5)


def test_equal_encoders_have_equal_names(under_test: Encoder) -> None:
    again = load_model(ENCODERS[0], "fuzzy", 1).encoder
    assert again is not None
    assert under_test.name == again.name
    assert under_test.name.startswith(under_test.model)


@settings(max_examples=40)
@given(text=st.text(max_size=200))
def test_any_unicode_text_has_a_unit_vector(encoder: Encoder, text: str) -> None:
    assert_unit(encoder.query(text), (encoder.dim,))

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolscript.embedding.base import unit_rows
from toolscript.retrieval.semantic.server_context import COMMON, SHARE, ServerContext


@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
def test_the_cosines_are_those_of_the_moved_vectors(seed: int, servers: list[str]) -> None:
    random = np.random.default_rng(seed)
    vectors = unit_rows(random.normal(size=(len(servers), 5)).astype(np.float32))
    question = unit_rows(random.normal(size=(1, 5)).astype(np.float32))[0]
    names = np.array(servers)
    apart = unit_rows((vectors - COMMON * vectors.mean(axis=0)).astype(np.float32))
    means = np.stack([apart[names == name].mean(axis=0) for name in servers])
    cosines = unit_rows((apart + SHARE * means).astype(np.float32)) @ question
    shared = COMMON * vectors.mean(axis=0)
    scale = np.linalg.norm(vectors - shared, axis=1).mean()
    expected = shared @ question + scale * cosines
    found = ServerContext.of(servers, vectors).apply_to(vectors @ question, question)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_only_tool_stays_where_it_is() -> None:
    vectors = np.eye(1, 4, dtype=np.float32)
    question = unit_rows(np.ones((1, 4), dtype=np.float32))[0]
    found = ServerContext.of(["a"], vectors).apply_to(vectors @ question, question)
    np.testing.assert_allclose(found, vectors @ question, atol=1e-6)


def test_what_all_tools_have_in_common_counts_less_than_what_tells_them_apart() -> None:
    about_it, about_more, other = [1.0, 0.3, 0.0], [1.0, 0.9, 0.9], [1.0, -1.2, -0.9]
    vectors = unit_rows(np.array([about_it, about_more, other], dtype=np.float32))
    question = unit_rows(np.array([[0.6, 0.8, 0.0]], dtype=np.float32))[0]
    before = vectors @ question
    assert before[1] > before[0]
    found = ServerContext.of(["a", "b", "c"], vectors).apply_to(before, question)
    assert found[0] > found[1]


def test_of_two_tools_alike_the_one_whose_server_is_about_it_comes_first() -> None:
    calendar, note = [1.0, 0.0, 0.0], [0.6, 0.8, 0.0]
    vectors = np.array([note, calendar, note, [0.0, 0.0, 1.0]], dtype=np.float32)
    question = np.array([1.0, 0.0, 0.0], dtype=np.float32)
    servers = ["calendars", "calendars", "files", "files"]
    found = ServerContext.of(servers, vectors).apply_to(vectors @ question, question)
    assert found[0] > found[2]

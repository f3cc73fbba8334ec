"""A server that imitates many others is told from ordinary ones by its tools' neighbours."""

import numpy as np
import pytest

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.retrieval.semantic.imitating_servers import MAX_IMITATORS, find_imitations

DIM, TOOLS = 64, 10


def subjects(count: int, seed: int = 1) -> Vectors:
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


def tools(subject: Vectors, seed: int, count: int = TOOLS, spread: float = 1.0) -> Vectors:
    """The vectors of a server's tools, which have its subject in common."""
    own = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return unit_rows(2 * subject + spread * own)


def near(vectors: Vectors, seed: int = 99) -> Vectors:
    noise = np.random.default_rng(seed).normal(size=vectors.shape).astype(np.float32)
    return unit_rows(vectors + 0.02 * noise)


ORDINARY = {f"s{n}": tools(subject, n) for n, subject in enumerate(subjects(12))}
SAMPLE = np.concatenate([vectors[:2] for vectors in ORDINARY.values()])
"""Two tools of each server."""


def imitators(servers: dict[str, Vectors]) -> set[str]:
    names = [name for name, vectors in servers.items() for _ in vectors]
    mask = find_imitations(names, np.concatenate([*servers.values()]))
    return set() if mask is None else {name for name, row in zip(names, mask, strict=True) if row}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, set[str]()),
        ({"copies": near(SAMPLE)}, {"copies"}),
        ({"all": near(np.concatenate([*ORDINARY.values()]))}, {"all"}),
        ({"twin": near(ORDINARY["s3"])}, set[str]()),
        ({"two": near(np.concatenate([ORDINARY["s3"], ORDINARY["s4"]]))}, set[str]()),
        ({"few": near(SAMPLE[:7])}, set[str]()),
        ({"mixed": np.concatenate([near(SAMPLE[:10]), tools(subjects(1, 7)[0], 50)])}, set[str]()),
        ({"various": unit_rows(subjects(20, 8))}, set[str]()),
    ],
    ids=["none", "copies", "all", "twin", "two subjects", "few", "half of its own", "various"],
)
def test_only_a_server_most_of_whose_tools_are_those_of_many_others_imitates(
    others: dict[str, Vectors], expected: set[str]
) -> None:
    assert imitators(ORDINARY | others) == expected


def test_every_tool_of_an_imitator_counts() -> None:
    servers = ORDINARY | {"copies": np.concatenate([near(SAMPLE), unit_rows(subjects(3, 9))])}
    names = [name for name, vectors in servers.items() for _ in vectors]
    mask = find_imitations(names, np.concatenate([*servers.values()]))
    assert mask is not None
    assert mask.sum() == len(SAMPLE) + 3


def test_if_many_servers_look_like_imitators_there_is_none() -> None:
    """Then servers are categories, or the catalogue is full of aggregators."""
    for count, expected in ((2, 2), (MAX_IMITATORS + 1, 0)):
        vectors = [tools(s, n + 60, 8) for n, s in enumerate(subjects(8 * count, 11))]
        originals = {f"o{n}": rows for n, rows in enumerate(vectors)}
        copies = {
            f"c{n}": near(np.concatenate([rows[:2] for rows in vectors[8 * n : 8 * n + 8]]))
            for n in range(count)
        }
        assert len(imitators(originals | copies)) == expected

"""Many tools with vectors, and questions to them, for tests of what very many tools need."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from tests.corpus import ROWS, SHELL, tools_of
from toolscript.embedding.base import Encoder, Vectors, unit_rows
from toolscript.retrieval.semantic.document_text import document_vectors
from toolscript.types import Document, Grant, Hit, SearchRequest

SIZE = 1_500
QUESTIONS = (
    "read a file",
    "list the files of a folder",
    "commit my changes",
    "what time is it in Tokyo",
    "convert a time to another timezone",
    "show the differences between two branches",
    "fetch a web page as markdown",
    "create entities in the knowledge graph",
    "search nodes",
    "make a new branch and check it out",
    "read the log and write it to a file",
    "find a file, move it and commit the change",
    "run a command in a terminal",
    "clone a git repository",
    "unpack a zip archive",
    "raed a flie",
    "serach the knowlege grahp",
    "git_comit",
    "read_file",
    "get_curent_time",
    "qzxv wqkj pmlkz",
    "delete entities and their relations",
    "when was this file modified",
    "staging area",
    "the size and permissions of a file; then the working tree status",
)


@dataclass
class Made:
    """Tools with their vectors."""

    documents: dict[str, Document]
    vectors: dict[str, Vectors]

    def of(self, server: str) -> tuple[list[Document], dict[str, Vectors]]:
        found = [each for each in self.documents.values() if each.server == server]
        return found, {each.id: self.vectors[each.id] for each in found}

    def batches(self) -> Iterator[tuple[Sequence[Document], Vectors]]:
        documents = sorted(self.documents.values(), key=lambda each: each.server)
        middle = next(
            n for n in range(SIZE // 2, SIZE) if documents[n].server != documents[n - 1].server
        )
        for part in (documents[:middle], documents[middle:]):
            yield part, np.stack([self.vectors[each.id] for each in part])


def made_tools(encoder: Encoder) -> Made:
    """Perturbed copies of a small catalogue, as like each other as those of many companies are."""
    chance, noise = random.Random(7), np.random.default_rng(7)  # noqa: S311 - no secret
    bases = [Document.of(tool) for tool in tools_of(ROWS | SHELL)]
    near = document_vectors(encoder, bases)
    drift: Vectors = noise.standard_normal((SIZE, encoder.dim)).astype(np.float32)
    words = sorted({word for base in bases for word in base.description.split()})
    documents: list[Document] = []
    sums: list[Vectors] = []
    for number in range(SIZE):
        at = number % len(bases)
        base, copy = bases[at], number // len(bases)
        text = [
            chance.choice(words) if chance.random() < 0.2 else word
            for word in base.description.split()
        ]
        if chance.random() < 0.3:
            text.append("".join(chance.choices("abdeiklmnorstu", k=8)))
        name = base.name if chance.random() < 0.5 else f"{base.name}_{chance.choice(words)[:4]}"
        server = f"{base.server}-{copy}"
        documents.append(
            replace(
                base,
                id=f"{server}__{name}",
                server=server,
                name=name,
                description=" ".join(text),
                digest=f"digest-{number}",
            )
        )
        other = near[chance.randrange(len(bases))]
        sums.append(near[at] + 0.5 * other + 0.02 * drift[number])
    vectors = unit_rows(np.stack(sums))
    known = {each.id: each for each in documents}
    return Made(known, dict(zip((d.id for d in documents), vectors, strict=True)))


def asked(**more: object) -> list[SearchRequest]:
    return [SearchRequest(text=text, **more) for text in QUESTIONS]  # type: ignore[arg-type]


def grants() -> list[SearchRequest]:
    one = Grant(servers=("git-3",))
    some = Grant(servers=("git-*", "time-1?"), tools=("filesystem-2__read_file", "memory-4*__*s"))
    hidden = frozenset({"git-3__git_commit"})
    return [
        *asked(grant=one),
        *asked(grant=some, hidden=hidden),
        *asked(servers=("memory-7", "fetch-7")),
        *asked(grant=some, servers=("git-11",)),
    ]


def alike(found: tuple[Hit, ...], expected: tuple[Hit, ...], tolerance: float) -> bool:
    """Whether hits are the same; those whose scores are nearly equal may change places."""
    if len(found) != len(expected):
        return False
    scores = [each.score for each in found]
    if not np.allclose(scores, [each.score for each in expected], atol=tolerance, rtol=0):
        return False
    least = expected[-1].score + tolerance if expected else 0.0
    ids = {each.document.id: each.score for each in found}
    return all(
        each.score <= least or abs(ids.get(each.document.id, -1.0) - each.score) <= tolerance
        for each in expected
    )

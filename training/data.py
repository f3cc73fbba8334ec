"""The training data: questions, the tools that answer them, and which servers validate.

Two sources. ``questions.jsonl`` beside this file has questions of our own, for the
tools of ``wild_mcp``; datasets with a permissive licence add the train half of
theirs. Tools and datasets are read from the folder that ``--data`` names.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from benchmarks.quality import datasets
from benchmarks.quality.datasets import DataError
from benchmarks.quality.own import document

from toolscript.types import Document

QUESTIONS = Path(__file__).with_name("questions.jsonl")
WILD = "wild_mcp"
PERMISSIVE = ("bfcl_live", "metatool", "seal_tools", "toolbench")
"""The datasets whose train half is trained on; each has a permissive licence and asks only its
test half."""
EVERYDAY = "everyday"
"""The kind of our short sentences, as people type them."""
_VALIDATION = "01"
"""The first hexadecimal digits of a server's SHA-256 that make it validate: an eighth."""
_FUSION = "0123"
"""The first hexadecimal digits of a question's SHA-256 that keep it from the model: a fourth of
each train half. What is learned from the model's answers, as the weights of the fusion are, has to
be learned from questions that it was not trained on."""


class OwnQuestion(msgspec.Struct, frozen=True):
    """A line of ``questions.jsonl``."""

    query: str
    kind: str
    relevant: tuple[str, ...]
    server: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the numbers of all tools that answer it."""

    text: str
    relevant: tuple[int, ...]
    group: str
    """Dataset and server: questions of one group are about tools that are easily confused."""
    is_everyday: bool = False
    """Whether it is one of our short sentences, as people type them."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What is trained on, and the questions of the servers that validate."""

    tools: Sequence[Document]
    questions: Sequence[Question]
    validation_tools: Sequence[datasets.Tool]
    """The tools of the validation servers."""
    validation_queries: Sequence[datasets.Query]


def validates(server: str) -> bool:
    """Whether a server's questions are kept for validation."""
    return hashlib.sha256(server.encode()).hexdigest()[0] in _VALIDATION


def is_for_fusion(question: str) -> bool:
    """Whether a question of a train half is kept for the weights of the fusion."""
    return hashlib.sha256(question.encode()).hexdigest()[0] in _FUSION


def load(data: Path) -> TrainingData:
    """Read everything; raises `DataError` naming the file and the mistake."""
    tools: list[Document] = []
    questions: list[Question] = []
    wild = datasets.tools(data / WILD)
    own = _own_questions()
    numbers = _add(tools, wild)
    for question in own:
        if not validates(question.server):
            relevant = _numbers(numbers, question.relevant, QUESTIONS)
            group, is_everyday = f"{WILD}/{question.server}", question.kind == EVERYDAY
            questions.append(Question(question.query, relevant, group, is_everyday))
    for name in PERMISSIVE:
        catalogue = datasets.tools(data / name)
        numbers = _add(tools, catalogue)
        servers = {tool.id: tool.server for tool in catalogue}
        for query in datasets.queries(data / name):
            if query.split == "train" and not is_for_fusion(query.query):
                relevant = _numbers(numbers, query.relevant, data / name)
                group = f"{name}/{servers[query.relevant[0]]}"
                questions.append(Question(query.query, relevant, group))
    kept = {question.server for question in own if validates(question.server)}
    asked = {identifier for each in own if each.server in kept for identifier in each.relevant}
    servers_kept = {tool.server for tool in wild if tool.id in asked}
    return TrainingData(
        tools,
        questions,
        [tool for tool in wild if tool.server in servers_kept],
        [datasets.Query(each.query, each.relevant) for each in own if each.server in kept],
    )


def digest(data: Path) -> str:
    """The SHA-256 of all files that are trained on."""
    found = hashlib.sha256(QUESTIONS.read_bytes())
    for name in (WILD, *PERMISSIVE):
        for file in (datasets.TOOLS, datasets.QUERIES):
            path = data / name / file
            found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def _own_questions() -> list[OwnQuestion]:
    decoder = msgspec.json.Decoder(OwnQuestion)
    return [decoder.decode(line) for line in QUESTIONS.read_bytes().splitlines() if line.strip()]


def _add(tools: list[Document], more: Sequence[datasets.Tool]) -> dict[str, int]:
    """Append a catalogue; the numbers of its tools by id."""
    first = len(tools)
    tools.extend(document(tool) for tool in more)
    return {tool.id: first + row for row, tool in enumerate(more)}


def _numbers(numbers: dict[str, int], ids: Sequence[str], where: Path) -> tuple[int, ...]:
    missing = [identifier for identifier in ids if identifier not in numbers]
    if missing:
        raise DataError(f"{where}: the relevant tool {missing[0]!r} is not in {datasets.TOOLS}")
    return tuple(numbers[identifier] for identifier in ids)

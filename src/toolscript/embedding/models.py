"""The models known by name: what their publishers state about them."""

import re
from dataclasses import dataclass
from typing import Literal

Pooling = Literal["mean", "cls"]

BGE_PREFIX = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """How a model's token vectors become one text vector."""

    name: str
    dimensions: int
    pooling: Pooling
    query_prefix: str
    max_tokens: int
    licence: str
    source: str
    """Where pooling and prefix are stated."""
    repository: str = ""
    """Where the hub has it in the layout that is read here."""
    revision: str = "main"
    """A commit, so that nobody can put other files in its place; else a branch."""


MODELS: tuple[ModelSpec, ...] = (
    ModelSpec(
        name="bge-small-en-v1.5",
        dimensions=384,
        pooling="cls",
        query_prefix=BGE_PREFIX,
        max_tokens=512,
        licence="MIT",
        source="BAAI/bge-small-en-v1.5: model card, 1_Pooling/config.json",
        repository="Xenova/bge-small-en-v1.5",
        revision="ea104dacec62c0de699686887e3f920caeb4f3e3",
    ),
    ModelSpec(
        name="all-MiniLM-L6-v2",
        dimensions=384,
        pooling="mean",
        query_prefix="",
        max_tokens=256,
        licence="Apache-2.0",
        source="sentence-transformers/all-MiniLM-L6-v2: model card, 1_Pooling/config.json",
        repository="Xenova/all-MiniLM-L6-v2",
        revision="751bff37182d3f1213fa05d7196b954e230abad9",
    ),
    ModelSpec(
        name="all-mpnet-base-v2",
        dimensions=768,
        pooling="mean",
        query_prefix="",
        max_tokens=384,
        licence="Apache-2.0",
        source="sentence-transformers/all-mpnet-base-v2: model card, 1_Pooling/config.json",
        repository="Xenova/all-mpnet-base-v2",
    ),
)
BUNDLED = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True)
class Family:
    """Models that are alike in what their files do not say."""

    pattern: re.Pattern[str]
    pooling: Pooling
    query_prefix: str


FAMILIES: tuple[Family, ...] = (
    # BAAI's model cards: the first token's vector; English questions get an instruction.
    Family(re.compile(r"bge-(small|base|large)-en\b"), "cls", BGE_PREFIX),
    Family(re.compile(r"bge-"), "cls", ""),
)


def short_name(name: str) -> str:
    """A model's own name, whatever repository or folder it lies in."""
    return name.rstrip("/").rsplit("/", 1)[-1]


def known(name: str) -> ModelSpec | None:
    """The table's row for a model, whatever repository it is published under."""
    short = short_name(name).casefold()
    return next((spec for spec in MODELS if spec.name.casefold() == short), None)


def family(name: str) -> Family | None:
    """The family of a model that the table does not know."""
    short = short_name(name).casefold()
    return next((each for each in FAMILIES if each.pattern.match(short)), None)

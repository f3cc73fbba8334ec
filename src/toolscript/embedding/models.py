"""The models known by name: what their publishers state about them."""

from dataclasses import dataclass
from typing import Literal

from toolscript.errors import ModelError

Pooling = Literal["mean", "cls"]


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


MODELS: tuple[ModelSpec, ...] = (
    ModelSpec(
        name="all-MiniLM-L6-v2",
        dimensions=384,
        pooling="mean",
        query_prefix="",
        max_tokens=256,
        licence="Apache-2.0",
        source="sentence-transformers/all-MiniLM-L6-v2: model card, 1_Pooling/config.json",
    ),
)
BUNDLED = "all-MiniLM-L6-v2"


def model_spec(name: str) -> ModelSpec:
    """The table's row for a model, whatever repository it is published under."""
    short = name.rstrip("/").rsplit("/", 1)[-1]
    for spec in MODELS:
        if spec.name.casefold() == short.casefold():
            return spec
    known = ", ".join(spec.name for spec in MODELS)
    raise ModelError(f"model {name!r} is not known (known: {known}), so its pooling is not either")

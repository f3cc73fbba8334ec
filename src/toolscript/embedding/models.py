"""The table of known models, as their publishers describe them, and repositories of the hub."""

import re
from collections.abc import Mapping
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
    """The source of pooling and prefix."""
    repository: str = ""
    """Its repository on the hub in the layout that is read here; empty for the bundled one."""
    revision: str = "main"
    """A commit, which cannot be given other files; else a branch."""
    megabytes: float = 0.0
    """Size of its weights on disk."""
    parameters: str = ""
    """Number of its parameters, such as ``33.4M``."""
    mteb: float | None = None
    """Published mean nDCG@10 of MTEB's retrieval tasks; None if there is none."""
    use: str = ""


BUNDLED = "toolscript-minilm-l6"
"""The model that the package carries."""
MODELS: tuple[ModelSpec, ...] = (
    ModelSpec(
        name=BUNDLED,
        dimensions=384,
        pooling="mean",
        query_prefix="",
        max_tokens=256,
        licence="Apache-2.0",
        source="PROVENANCE.json beside the model",
        megabytes=22.9,
        parameters="22.7M",
        use="default: trained for tools, no download",
    ),
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
        megabytes=34.0,
        parameters="33.4M",
        mteb=51.68,
        use="general, best for retrieval",
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
        megabytes=25.0,
        parameters="22.7M",
        use="general, smaller and faster",
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
        megabytes=438.0,
        parameters="109M",
        mteb=43.81,
        use="not recommended: larger, worse for retrieval",
    ),
)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,99}")

DIGESTS: Mapping[str, Mapping[str, str]] = {
    "ea104dacec62c0de699686887e3f920caeb4f3e3": {
        "config.json": "fa73f90bf92c8cace1fbcb709626306f2bdbc9ea3e5b5f94b440df9b6aa56350",
        "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        "onnx/model.onnx": "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35",
        "onnx/model_quantized.onnx": (
            "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4"
        ),
    },
    "751bff37182d3f1213fa05d7196b954e230abad9": {
        "config.json": "7135149f7cffa1a573466c6e4d8423ed73b62fd2332c575bf738a0d033f70df7",
        "tokenizer.json": "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
        "onnx/model.onnx": "759c3cd2b7fe7e93933ad23c4c9181b7396442a2ed746ec7c1d46192c469c46e",
        "onnx/model_fp16.onnx": "2cdb5e58291813b6d6e248ed69010100246821a367fa17b1b81ae9483744533d",
        "onnx/model_quantized.onnx": (
            "afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1"
        ),
    },
}
"""The SHA-256 of files by commit and name: whichever hub or mirror they come from."""


@dataclass(frozen=True, slots=True)
class Family:
    """Models with the same pooling and prefix, which their files do not state."""

    pattern: re.Pattern[str]
    pooling: Pooling
    query_prefix: str


FAMILIES: tuple[Family, ...] = (
    # BAAI's model cards: the first token's vector; English questions get an instruction.
    Family(re.compile(r"bge-(small|base|large)-en\b"), "cls", BGE_PREFIX),
    Family(re.compile(r"bge-"), "cls", ""),
)


def short_name(name: str) -> str:
    """Returns a model's name without its repository or folder."""
    return name.rstrip("/").rsplit("/", 1)[-1]


def known(name: str) -> ModelSpec | None:
    """Returns the table's row for a model, in whichever repository it is published."""
    short = short_name(name).casefold()
    return next((spec for spec in MODELS if spec.name.casefold() == short), None)


def family(name: str) -> Family | None:
    """Returns the family of a model that is not in the table."""
    short = short_name(name).casefold()
    return next((row for row in FAMILIES if row.pattern.match(short)), None)


@dataclass(frozen=True, slots=True)
class Repository:
    """A model on the hub: ``owner/name``, and a commit, branch or tag of it."""

    name: str
    revision: str = "main"

    @classmethod
    def parse(cls, text: str) -> "Repository | None":
        """Parses ``owner/name``, ``owner/name@revision`` or a name of the table; else None."""
        name, separator, revision = text.partition("@")
        row = known(name)
        if row is not None and row.repository:
            names = {row.name.casefold(), row.repository.casefold()}
            if name.casefold() in names:
                return cls(row.repository, revision or row.revision)
        if not _NAME.fullmatch(name) or ".." in text:
            return None
        if separator and not _REVISION.fullmatch(revision):
            return None
        return cls(name, revision or "main")


def is_trusted(repository: Repository, names: str | None) -> bool:
    """Returns whether a repository is one of the table, or of ``names`` with commas between."""
    trusted = {name.strip().casefold() for name in (names or "").split(",")}
    trusted.update(spec.repository.casefold() for spec in MODELS if spec.repository)
    return repository.name.casefold() in trusted

"""Reads a model's files in the hub's layout without loading the model.

The layout is ``config.json``, ``tokenizer.json`` and one of several weights
under ``onnx/``. Only these, and ``1_Pooling/config.json`` if there is one,
are ever read or downloaded; nothing is executed.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from toolscript.embedding.models import ModelSpec, Pooling, family, known, short_name
from toolscript.errors import UnsuitableModelError
from toolscript.storage.atomic_files import is_file

REQUIRED = ("config.json", "tokenizer.json")
POOLING = "1_Pooling/config.json"
_QUANTIZED, _HALF, _WHOLE = "onnx/model_quantized.onnx", "onnx/model_fp16.onnx", "onnx/model.onnx"
ON_CPU = (_QUANTIZED, _WHOLE)
ON_GPU = (_HALF, _WHOLE, _QUANTIZED)
"""Accelerators are slow at int8: the operators of dynamic quantisation run on the processor."""
_FLOAT_GRAPH = "model_dequantized.onnx"
"""A graph that computes in floats with the int8 weights beside it, scaled back at its start."""
_MAX_TOKENS = 512
"""Longer texts are cut, even if a model could read more."""
_MAX_JSON_BYTES = 1024 * 1024


def weights_for(*, gpu: bool) -> tuple[str, ...]:
    """Returns the names of the weights to look for, best first."""
    return ON_GPU if gpu else ON_CPU


def find_weights(folder: Path, *, gpu: bool = False) -> Path:
    """Returns the weights of a model folder.

    Raises `UnsuitableModelError`, which names the missing file.
    """
    for required in REQUIRED:
        if not is_file(folder / required):
            raise UnsuitableModelError(
                f"model folder {folder} has no {required}; expected the hub's layout"
            )
    names = weights_for(gpu=gpu)
    for name in names:
        if is_file(folder / name):
            return folder / name
    raise UnsuitableModelError(f"model folder {folder} has neither {' nor '.join(names)}")


def find_float_graph(weights: Path) -> Path:
    """Returns the graph that computes in floats with int8 weights; without one, the weights."""
    graph = weights.with_name(_FLOAT_GRAPH)
    return graph if weights.match(_QUANTIZED) and is_file(graph) else weights


def has_choice(folder: Path) -> bool:
    """Whether which weights are used depends on the device."""
    return sum(is_file(folder / name) for name in ON_GPU) > 1


def vectors_name(spec: ModelSpec, weights: Path) -> str:
    """Returns the name of a model's vectors; equal names mean interchangeable vectors."""
    return f"{spec.name}@{fingerprint(weights)}"


def fingerprint(weights: Path) -> str:
    """Returns eight hex digits that change when the weights do, without reading all of them."""
    size = weights.stat().st_size
    with weights.open("rb") as file:
        head = file.read(65536)
        file.seek(max(0, size - 65536))
        tail = file.read()
    return hashlib.sha256(str(size).encode() + head + tail).hexdigest()[:8]


def spec_of(folder: Path, name: str) -> ModelSpec:
    """Returns the table's row for a model, or one made from its files and its family.

    If neither states the pooling, the mean is taken: sentence-transformers'
    default, and that of most models in this layout.
    """
    row = known(name)
    if row is not None:
        return row
    config = _json(folder / "config.json")
    pooling, source = _pooling(folder, name)
    known_family = family(name)
    return ModelSpec(
        name=short_name(name),
        dimensions=_count(config, "hidden_size", folder),
        pooling=pooling,
        query_prefix=known_family.query_prefix if known_family else "",
        max_tokens=min(_MAX_TOKENS, _count(config, "max_position_embeddings", folder)),
        licence="",
        source=source,
    )


def _pooling(folder: Path, name: str) -> tuple[Pooling, str]:
    """Returns how a model pools, and the source of that."""
    if is_file(folder / POOLING):
        stated = _json(folder / POOLING)
        if stated.get("pooling_mode_cls_token") is True:
            return "cls", POOLING
        if stated.get("pooling_mode_mean_tokens") is True:
            return "mean", POOLING
        raise UnsuitableModelError(
            f"{folder / POOLING} asks for neither the mean nor the first token, which is all "
            "that is known here; choose another model"
        )
    known_family = family(name)
    return (known_family.pooling, "its family") if known_family else ("mean", "the usual default")


def _count(config: dict[str, Any], key: str, folder: Path) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UnsuitableModelError(f"{folder / 'config.json'} has no {key}, a whole number above 0")
    return value


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise UnsuitableModelError(f"{path} has more than {_MAX_JSON_BYTES} bytes")
        content: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UnsuitableModelError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise UnsuitableModelError(f"{path} is no JSON object")
    return content  # pyright: ignore[reportUnknownVariableType] - third-party JSON

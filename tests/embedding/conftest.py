"""Models small enough to compute by hand: a table of vectors looked up per word."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

WORDS = ("[UNK]", "query", "read", "write", "file")
TABLE: NDArray[np.float32] = (
    np.random.default_rng(7).standard_normal((len(WORDS), 4)).astype(np.float32)
)

TinyModel = Callable[..., Path]


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    """One field of a protocol buffer, as ONNX files are written."""
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    data = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(data)) + data


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    dims = b"".join(_field(1, _field(1 if isinstance(d, int) else 2, d)) for d in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, dims)))


def _onnx(table: NDArray[np.float32], inputs: Sequence[str]) -> bytes:
    """Gather(table, first input): what each token looks up is its hidden state."""
    node = _field(1, "table") + _field(1, inputs[0]) + _field(2, "hidden") + _field(4, "Gather")
    tensor = b"".join(_field(1, size) for size in table.shape)
    tensor += _field(2, 1) + _field(8, "table")
    tensor += _field(9, struct.pack(f"<{table.size}f", *table.ravel().tolist()))
    graph = _field(1, node) + _field(2, "tiny") + _field(5, tensor)
    for name in inputs:
        graph += _field(11, _value(name, 7, ["batch", "tokens"]))
    graph += _field(12, _value("hidden", 1, ["batch", "tokens", table.shape[1]]))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 17))


def write_tiny_model(folder: Path, inputs: Sequence[str], config: str = "{}") -> None:
    """Writes a model into a folder in the hub's layout."""
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").write_bytes(_onnx(TABLE, inputs))
    (folder / "config.json").write_text(config)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = Whitespace()
    # As published files do: what the settings of the training say is not to be followed.
    tokenizer.enable_padding(length=128)  # pyright: ignore[reportUnknownMemberType]
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture
def tiny_model(tmp_path: Path) -> TinyModel:
    """Makes a model folder in the hub's layout."""

    def make(name: str = "tiny", inputs: Sequence[str] = ("input_ids", "attention_mask")) -> Path:
        folder = tmp_path / name
        write_tiny_model(folder, inputs)
        return folder

    return make

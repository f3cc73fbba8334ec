"""Computes embeddings with ONNX Runtime, by a model whose folder is laid out as on the hub."""

import logging
import mmap
import os
import re
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from toolscript.embedding import device as devices
from toolscript.embedding.base import Vectors, unit_rows
from toolscript.embedding.model_layout import find_float_graph, find_weights, vectors_name
from toolscript.embedding.models import ModelSpec
from toolscript.errors import ModelError, UnsuitableModelError

ort: Any = onnxruntime  # its types are incomplete
if os.environ["ORT_DISABLE_TELEMETRY"] == "1":
    ort.disable_telemetry_events()  # Windows does not read the variable
log = logging.getLogger(__name__)
BATCH_TEXTS = 1
"""Texts per run of the session on a processor: more take no less time, and more memory."""
BATCH_ON_GPU = 64
"""The same on an accelerator, for which many texts cost little more than one."""
MANY_TEXTS = 32
"""From this number on, texts are shared among threads: fewer take too short a time."""
MAX_WORKERS = 8
"""Maximum number of these threads, which bounds memory: each has a batch of its own."""
_NICE = 10
"""Priority of these threads, so that a search meanwhile takes little longer."""
_OUTPUT = "last_hidden_state"
_WORD_TABLE = "word_embeddings.int8"
"""The bundled model's table of word vectors, which is the first half of its file."""
_HEAD_BYTES = 65536
"""How far into the file the table begins at most."""
_UNKNOWN = frozenset({"[UNK]", "<unk>"})
_LETTERS_A_PIECE = 3
_PROBE = "tool \N{LINEAR B SYLLABLE B008 A}"
"""A word, and a letter that hardly any vocabulary has."""


class OnnxEncoder:
    """One loaded model. Lives as long as the application.

    Args:
        folder: The model's files.
        spec: The model.
        threads: Maximum number of threads; 0 is one for few texts and all cores for many.
        device: ``cpu``, ``gpu``, or ``auto`` for a GPU if one works.
        offered: The providers of ONNX Runtime; None for those of the installed build.

    Raises:
        UnsuitableModelError: A file of the layout is missing or cannot be used.
        DeviceError: There is no GPU, and there must be one.
    """

    def __init__(
        self,
        folder: Path,
        spec: ModelSpec,
        threads: int = 1,
        device: str = "cpu",
        offered: Sequence[str] | None = None,
    ) -> None:
        providers = devices.choose(device, devices.offered() if offered is None else offered)
        weights = find_weights(folder, gpu=providers[0] != devices.CPU)
        self._spec = spec
        self._tokenizer_file = folder / "tokenizer.json"
        self._tokenizer = _tokenizer(self._tokenizer_file, spec.max_tokens)
        self._encode(_PROBE)
        weights = self._start(weights, providers, threads, device)
        log.debug("%s runs on %s (asked for: %s)", weights, self.device, device)
        self._batch = BATCH_TEXTS if self.device == "cpu" else BATCH_ON_GPU
        shares = threads == 0 and self.device == "cpu"
        self._workers = min(MAX_WORKERS, _count_cores()) if shares else 1
        self._inputs = {node.name for node in self._session.get_inputs()}
        outputs = {node.name: node.shape for node in self._session.get_outputs()}
        self._output = _OUTPUT if _OUTPUT in outputs else next(iter(outputs))
        _check_signature(self._inputs, outputs[self._output], spec)
        self.name = vectors_name(spec, weights)
        self.model = spec.name
        self.dim = spec.dimensions

    def _start(self, weights: Path, providers: Sequence[str], threads: int, device: str) -> Path:
        """Makes the session, on the processor if no other works; returns the weights."""
        is_gpu = providers[0] != devices.CPU
        is_float = providers[0] in devices.PROVIDERS_WITHOUT_INT8
        graph = find_float_graph(weights) if is_float else weights
        self._words = None if is_gpu else _WordTable.find(weights, self._spec, self._tokenizer)
        try:
            self._session = _session(graph, threads or 1, providers, self._words)
        except UnsuitableModelError as error:
            if device != "auto" or not is_gpu:
                raise
            reason = str(error)
        else:
            self.device = devices.running_on(device, self._session.get_providers())
            if not is_gpu or self.device != "cpu":
                return weights
            reason = "it did not start"
        log.warning("GPU acceleration failed, falling back to CPU: %s: %s", providers[0], reason)
        on_cpu = find_weights(self._tokenizer_file.parent)
        return self._start(on_cpu, (devices.CPU,), threads, device)

    def documents(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder.documents`."""
        out = np.zeros((len(texts), self.dim), dtype=np.float32)

        def embed(rows: list[int]) -> None:
            out[rows] = self._run([self._encode(texts[row]).ids for row in rows])

        batches = _batches([len(text) for text in texts], self._batch)
        if self._workers == 1 or len(texts) < MANY_TEXTS:
            for rows in batches:
                embed(rows)
            return out
        with ThreadPoolExecutor(self._workers, "embed", _lower_priority) as pool:
            list(pool.map(embed, batches))
        return out

    def knows(self, word: str) -> bool:
        """See `Encoder.knows`: one piece, or pieces of three letters and more on average."""
        pieces = self._encode(word, special=False).tokens
        return not _UNKNOWN & set(pieces) and (
            len(pieces) == 1 or len(pieces) * _LETTERS_A_PIECE <= len(word)
        )

    def query(self, text: str) -> Vectors:
        """See `Encoder.query`."""
        return self.documents([self._spec.query_prefix + text])[0]

    def query_with_parts(self, text: str, parts: Sequence[str]) -> Vectors:
        """See `Encoder.query_with_parts`.

        A model that takes the mean of its tokens reads the question once: a
        part's vector is the mean of its tokens there ("late chunking",
        Günther et al. 2024, arXiv:2409.04701).
        """
        prefix = self._spec.query_prefix
        texts = [prefix + each for each in (text, *parts)]
        if not parts or self._spec.pooling != "mean":
            return self.documents(texts)
        encoded = self._encode(texts[0])
        hidden, mask = self._embed_tokens([encoded.ids])
        of_parts = [_tokens_within(encoded.offsets, span) for span in _spans(texts[0], parts)]
        masks = np.array([mask[0], *of_parts], dtype=np.int64)
        pooled = unit_rows(_pool(np.broadcast_to(hidden, (len(masks), *hidden.shape[1:])), masks))
        cut_off = np.flatnonzero(~masks.any(axis=1))
        pooled[cut_off] = self.documents([texts[row] for row in cut_off])
        return pooled

    def _encode(self, text: str, *, special: bool = True) -> Encoding:
        # Half a surrogate pair is no text to the library: the caller's mistake, not the model's.
        whole = text.encode("utf-8", "replace").decode()
        with _refusing(self._tokenizer_file):
            return self._tokenizer.encode(whole, add_special_tokens=special)

    def _run(self, ids: list[list[int]]) -> Vectors:
        hidden, mask = self._embed_tokens(ids)
        return unit_rows(hidden[:, 0] if self._spec.pooling == "cls" else _pool(hidden, mask))

    def _embed_tokens(self, ids: list[list[int]]) -> tuple[Vectors, NDArray[np.int64]]:
        """Returns the vectors of the tokens, and which of them are no padding."""
        shape = (len(ids), max(len(row) for row in ids))
        tokens = np.zeros(shape, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for row, values in enumerate(ids):
            tokens[row, : len(values)] = values
            mask[row, : len(values)] = 1
        feed = {"input_ids": tokens, "attention_mask": mask}
        if "token_type_ids" in self._inputs:
            feed["token_type_ids"] = np.zeros(shape, dtype=np.int64)
        hidden: Vectors = np.asarray(self._answer(feed)[0], dtype=np.float32)
        if self._words:
            self._words.release()
        if hidden.ndim != 3 or hidden.shape[2] != self.dim:  # noqa: PLR2004 - batch, token, dimension
            raise ModelError(
                f"model {self.model} answered with shape {hidden.shape}; "
                f"expected [batch, tokens, {self.dim}]"
            )
        return hidden, mask

    def _answer(self, feed: dict[str, NDArray[np.int64]]) -> Any:
        try:
            return self._session.run([self._output], feed)
        except Exception as error:  # noqa: BLE001 - the runtime's own exceptions derive from Exception alone
            raise ModelError(f"model {self.model} failed: {_first_line(error)}") from None


class _WordTable:
    """The bundled model's word vectors, mapped from its file: a process uses few of them."""

    def __init__(self, file: mmap.mmap, start: int, shape: tuple[int, int]) -> None:
        self._file = file
        table = np.frombuffer(file, np.int8, shape[0] * shape[1], start).reshape(shape)
        self.value = ort.OrtValue.ortvalue_from_numpy(table)

    @classmethod
    def find(cls, weights: Path, spec: ModelSpec, tokenizer: Tokenizer) -> "_WordTable | None":
        """Returns the table of a model's file; None for other models than the bundled one.

        Raises `ModelError`.
        """
        header = re.compile(rb"%b\x4a.{4}" % _WORD_TABLE.encode(), re.DOTALL)
        shape = tokenizer.get_vocab_size(), spec.dimensions
        try:
            with weights.open("rb") as file:
                found = header.search(file.read(_HEAD_BYTES))
                if not found:
                    return None
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return cls(mapped, found.end(), shape)
        except (OSError, ValueError, OverflowError) as error:
            raise ModelError(f"{weights} is no usable model: {error}") from None

    def release(self) -> None:
        """Takes the pages that were read out of this process's memory; the system keeps them."""
        if hasattr(self._file, "madvise"):
            self._file.madvise(mmap.MADV_DONTNEED)


def _count_cores() -> int:
    """Returns the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _lower_priority() -> None:
    """Lowers the priority of this thread, where the system has one for each thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _tokenizer(path: Path, max_tokens: int) -> Tokenizer:
    with _refusing(path):
        tokenizer = Tokenizer.from_file(str(path))
        # Published files carry the settings of their training: padding every text
        # to 128 tokens would cost every query 128 tokens.
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)  # pyright: ignore[reportUnknownMemberType]
        return tokenizer


@contextmanager
def _refusing(path: Path) -> Generator[None]:
    """Raises the tokenizers library's errors, bare `Exception` and panics, as one of ours."""
    try:
        yield
    except BaseException as error:
        # A panic of Rust derives from BaseException alone, and its class cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UnsuitableModelError(f"{path} is no usable tokenizer: {_first_line(error)}") from None


def _session(
    weights: Path, threads: int, providers: Sequence[str], words: _WordTable | None
) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # The arena keeps the largest batch's memory for good, and saves no time here.
    options.enable_cpu_mem_arena = False
    # Threads that spin while they wait burn the cores of everything beside us.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if words:
        options.add_initializer(_WORD_TABLE, words.value)
    try:
        return ort.InferenceSession(
            str(weights), options, providers=list(providers), enable_fallback=0
        )
    except Exception as error:  # noqa: BLE001 - the runtime's own exceptions derive from Exception alone
        raise UnsuitableModelError(f"{weights} is no usable model: {_first_line(error)}") from None


def _check_signature(inputs: set[str], shape: list[Any], spec: ModelSpec) -> None:
    """Refuses at once a model that would fail at the first search, as far as its shapes show it."""
    unknown = sorted(inputs - {"input_ids", "attention_mask", "token_type_ids"})
    missing = sorted({"input_ids", "attention_mask"} - inputs)
    if unknown or missing:
        raise UnsuitableModelError(
            f"model {spec.name} wants the inputs {', '.join(sorted(inputs))}; "
            f"expected input_ids, attention_mask and perhaps token_type_ids"
        )
    if len(shape) != 3 or (isinstance(shape[2], int) and shape[2] != spec.dimensions):  # noqa: PLR2004 - batch, token, dimension
        raise UnsuitableModelError(
            f"model {spec.name} answers with shape {shape}; "
            f"expected [batch, tokens, {spec.dimensions}]"
        )


def _batches(lengths: list[int], size: int) -> Iterator[list[int]]:
    """Yields rows grouped by length, so that little of a batch is padding; the longest first.

    So threads that share the batches end at nearly the same time.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _spans(text: str, parts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Returns the place of each part in the text, looked for after the one before."""
    start = 0
    for part in parts:
        begin = max(start, text.find(part, start))
        start = begin + len(part)
        yield begin, start


def _tokens_within(offsets: Sequence[tuple[int, int]], span: tuple[int, int]) -> list[bool]:
    return [span[0] <= start < end <= span[1] for start, end in offsets]


def _pool(hidden: Vectors, mask: NDArray[np.int64]) -> Vectors:
    """The mean of the tokens."""
    weights = mask[:, :, None].astype(np.float32)
    return (hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)

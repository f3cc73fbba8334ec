import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
import pytest
from tokenizers import Tokenizer

from tests.embedding.conftest import TinyModel
from toolscript.embedding.base import unit_rows
from toolscript.embedding.device import CPU, PROVIDERS_WITHOUT_INT8, choose, offered, running_on
from toolscript.embedding.loader import BUNDLED_FOLDER, Choice, LazyModel, lazy
from toolscript.embedding.model_layout import find_float_graph, find_weights, has_choice
from toolscript.embedding.models import ModelSpec
from toolscript.embedding.onnx import OnnxEncoder
from toolscript.errors import DeviceError, ModelError

ort: Any = onnxruntime  # its types are incomplete

CUDA, MIGRAPHX, ROCM = (f"{n}ExecutionProvider" for n in ("CUDA", "MIGraphX", "ROCM"))
COREML, DML, AZURE = (f"{n}ExecutionProvider" for n in ("CoreML", "Dml", "Azure"))

# What is asked for, what ONNX Runtime offers, and what a session is made with; None: refused.
TRUTH: list[tuple[str, list[str], tuple[str, ...] | None]] = [
    ("cpu", [CPU], (CPU,)),
    ("cpu", [CUDA, CPU], (CPU,)),
    ("cpu", [COREML, AZURE, CPU], (CPU,)),
    ("auto", [CPU], (CPU,)),
    ("auto", [AZURE, CPU], (CPU,)),
    ("auto", [CUDA, CPU], (CUDA, CPU)),
    ("auto", ["TensorrtExecutionProvider", CUDA, CPU], (CUDA, CPU)),
    ("auto", [MIGRAPHX, ROCM, CPU], (MIGRAPHX, CPU)),
    ("auto", [ROCM, CPU], (ROCM, CPU)),
    ("auto", [COREML, AZURE, CPU], (COREML, CPU)),
    ("auto", [DML, CPU], (DML, CPU)),
    ("gpu", [CPU], None),
    ("gpu", [AZURE, CPU], None),
    ("gpu", [CUDA, CPU], (CUDA, CPU)),
    ("gpu", [MIGRAPHX, CPU], (MIGRAPHX, CPU)),
    ("gpu", [ROCM, CPU], (ROCM, CPU)),
    ("gpu", [COREML, CPU], (COREML, CPU)),
    ("gpu", [DML, CPU], (DML, CPU)),
]


@pytest.mark.requirement("model:device")
@pytest.mark.parametrize(("asked", "there", "expected"), TRUTH)
def test_what_is_asked_and_what_is_offered_decide(
    asked: str, there: list[str], expected: tuple[str, ...] | None
) -> None:
    if expected is None:
        with pytest.raises(DeviceError, match=f"offers only .*{CPU}"):
            choose(asked, there)
    else:
        assert choose(asked, there) == expected


# What is asked for, what the session says that it runs on, and what that is called.
RUNNING: list[tuple[str, list[str], str | None]] = [
    ("auto", [CUDA, CPU], "cuda"),
    ("auto", [CPU], "cpu"),
    ("auto", [], "cpu"),
    ("cpu", [CPU], "cpu"),
    ("gpu", [MIGRAPHX, CPU], "migraphx"),
    ("gpu", [ROCM, CPU], "rocm"),
    ("gpu", [COREML, CPU], "coreml"),
    ("gpu", [DML, CPU], "directml"),
    ("gpu", [CPU], None),
    ("gpu", [], None),
]


@pytest.mark.requirement("model:device")
@pytest.mark.parametrize(("asked", "providers", "expected"), RUNNING)
def test_what_a_session_runs_on_is_what_it_says_itself(
    asked: str, providers: list[str], expected: str | None
) -> None:
    """model:device: ONNX Runtime goes on with the processor where a GPU cannot be started."""
    if expected is None:
        with pytest.raises(DeviceError, match="could not start one"):
            running_on(asked, providers)
    else:
        assert running_on(asked, providers) == expected


@pytest.mark.requirement("model:device")
def test_a_session_is_looked_at_after_it_is_made(
    tiny_model: TinyModel, caplog: pytest.LogCaptureFixture
) -> None:
    """model:device: logged at debug level."""
    folder = tiny_model()
    with caplog.at_level(logging.DEBUG, "toolscript"):
        encoder = OnnxEncoder(folder, spec(), device="cpu")
    assert encoder.device == "cpu"
    assert f"runs on {encoder.device} (asked for: cpu)" in caplog.text


@pytest.mark.requirement("model:device")
def test_auto_falls_back_if_the_session_of_the_accelerator_raises(
    tiny_model: TinyModel, caplog: pytest.LogCaptureFixture
) -> None:
    """model:device: with a warning; a device that has to be a GPU has none then."""
    folder = tiny_model()
    weights = folder / "onnx" / "model.onnx"
    weights.rename(weights.with_name("model_quantized.onnx"))
    weights.with_name("model_dequantized.onnx").write_bytes(b"what CUDA would run, damaged")
    encoder = OnnxEncoder(folder, spec(), device="auto", offered=(CUDA, CPU))
    assert encoder.device == "cpu"
    assert encoder.query("read").shape == (4,)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("GPU acceleration failed, falling back to CPU: CUDA")
    with pytest.raises(ModelError, match="is no usable model"):
        OnnxEncoder(folder, spec(), device="gpu", offered=(CUDA, CPU))


def spec() -> ModelSpec:
    return ModelSpec("tiny", 4, "mean", "", 256, "none", "made up")


def without_gpu() -> bool:
    return choose("auto", offered()) == (CPU,)


@pytest.mark.requirement("model:device")
@pytest.mark.skipif(not without_gpu(), reason="this ONNX Runtime offers an accelerator")
def test_a_gpu_that_must_be_and_is_not_is_an_error_at_every_search() -> None:
    """model:device: nothing stands in for it."""
    model = lazy(Choice("bundled", device="gpu"))
    for _ in range(2):
        with pytest.raises(DeviceError, match="the device is gpu, but this ONNX Runtime offers"):
            model.get()
        with pytest.raises(DeviceError):
            _ = model.loaded


def test_auto_takes_what_there_is() -> None:
    encoder = LazyModel(lazy(Choice("bundled")).get).get().encoder
    assert encoder is not None
    assert (encoder.device == "cpu") is without_gpu()


@pytest.mark.requirement("model:device")
def test_the_weights_depend_on_the_device(tmp_path: Path) -> None:
    """model:device: int8 on the processor, floats on a GPU; what there is, where that is all."""
    (tmp_path / "onnx").mkdir()
    for name in ("config.json", "tokenizer.json", "onnx/model_quantized.onnx"):
        (tmp_path / name).write_bytes(b"{}")
    weights = {False: "model_quantized.onnx", True: "model_quantized.onnx"}
    assert {gpu: find_weights(tmp_path, gpu=gpu).name for gpu in weights} == weights
    assert not has_choice(tmp_path)
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"")
    weights[True] = "model.onnx"
    assert {gpu: find_weights(tmp_path, gpu=gpu).name for gpu in weights} == weights
    (tmp_path / "onnx" / "model_fp16.onnx").write_bytes(b"")
    weights[True] = "model_fp16.onnx"
    assert {gpu: find_weights(tmp_path, gpu=gpu).name for gpu in weights} == weights
    assert has_choice(tmp_path)
    (tmp_path / "onnx" / "model_quantized.onnx").unlink()
    assert find_weights(tmp_path).name == "model.onnx"
    (tmp_path / "onnx" / "model.onnx").unlink()
    with pytest.raises(ModelError, match="neither"):
        find_weights(tmp_path)


def test_cuda_and_rocm_compute_the_bundled_model_in_floats() -> None:
    """model:device: with the same vectors, so that the cache of one device serves the others."""
    assert {CUDA, ROCM} == PROVIDERS_WITHOUT_INT8
    weights = find_weights(BUNDLED_FOLDER, gpu=True)
    floats = find_float_graph(weights)
    assert (weights.name, floats.name) == ("model_quantized.onnx", "model_dequantized.onnx")
    tokenizer: Any = Tokenizer.from_file(str(BUNDLED_FOLDER / "tokenizer.json"))
    tokenizer.no_padding()
    for text in ("commit my changes", "what happened here since friday", "Reads a file. " * 20):
        ids = np.array([tokenizer.encode(text).ids])
        mask = np.ones_like(ids)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
        exact, rounded = (
            unit_rows(ort.InferenceSession(str(file)).run(None, feed)[0].mean(axis=1))
            for file in (floats, weights)
        )
        assert exact[0] @ rounded[0] > 0.995


def test_only_int8_weights_have_a_graph_in_floats(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    weights = tmp_path / "onnx" / "model_quantized.onnx"
    assert find_float_graph(weights) == weights
    (tmp_path / "onnx" / "model_dequantized.onnx").write_bytes(b"")
    assert find_float_graph(weights).name == "model_dequantized.onnx"
    assert find_float_graph(weights.with_name("model.onnx")).name == "model.onnx"


def test_the_bundled_model_has_one_file_for_all_devices() -> None:
    """model:device: so what it would be is known before any device is looked for."""
    assert not has_choice(BUNDLED_FOLDER)

"""Chooses the device of a model, from the setting and the providers of ONNX Runtime."""

from collections.abc import Sequence
from typing import cast

from toolscript.errors import DeviceError

CPU = "CPUExecutionProvider"
ACCELERATORS = {
    "CUDAExecutionProvider": "cuda",
    "MIGraphXExecutionProvider": "migraphx",
    "ROCMExecutionProvider": "rocm",
    "CoreMLExecutionProvider": "coreml",
    "DmlExecutionProvider": "directml",
}
"""Our names of ONNX Runtime's providers, best first."""
PROVIDERS_WITHOUT_INT8 = frozenset({"CUDAExecutionProvider", "ROCMExecutionProvider"})
"""Accelerators that compute a graph in floats, and leave one in int8 to the processor."""


def choose(asked: str, offered: Sequence[str]) -> tuple[str, ...]:
    """Returns the providers for a session, best first; the processor is always the last.

    ``offered`` is the result of ``onnxruntime.get_available_providers()``: the providers
    of the installed build, which the machine need not have. Raises `DeviceError`
    for ``gpu`` if no accelerator is offered.
    """
    accelerators = tuple(name for name in ACCELERATORS if name in offered)
    if asked == "cpu":
        return (CPU,)
    if asked == "gpu" and not accelerators:
        raise DeviceError(
            f"the device is gpu, but this ONNX Runtime offers only {', '.join(offered)}; "
            "install a build for your GPU, or set TOOLSCRIPT_SEARCH_DEVICE=auto"
        )
    return (*accelerators[:1], CPU)


def running_on(asked: str, providers: Sequence[str]) -> str:
    """Returns the device that a session runs on, by our name, from its list of providers.

    ONNX Runtime goes on with the processor if an accelerator cannot be
    started. Raises `DeviceError` for ``gpu`` then.
    """
    first = providers[0] if providers else CPU
    if first in ACCELERATORS:
        return ACCELERATORS[first]
    if asked == "gpu":
        raise DeviceError(
            "the device is gpu, but ONNX Runtime could not start one and runs on the processor; "
            "check the driver and its libraries, or set TOOLSCRIPT_SEARCH_DEVICE=auto"
        )
    return "cpu"


def offered() -> tuple[str, ...]:
    """Returns the providers that the installed ONNX Runtime offers."""
    import onnxruntime  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - takes a while

    return tuple(cast("list[str]", onnxruntime.get_available_providers()))  # pyright: ignore[reportUnknownMemberType]

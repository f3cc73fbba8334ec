"""The helper process: one peer's engine, asked over standard input and output.

    python -m benchmarks.quality.host ENGINE

First it says ``{"version": …}``. Then every line asks for one thing and is answered
by one line: ``{"index": [tool, …]}`` by ``{"seconds": …}``, ``{"search": text}`` by
``{"ids": […], "ms": …}``. What goes wrong is ``{"error": …}``.
"""

import os
import sys
from importlib.metadata import version
from typing import Any, TextIO

import msgspec

from benchmarks.quality.adapters import PEERS
from benchmarks.quality.datasets import Tool
from benchmarks.quality.timed import Timed


def main() -> None:
    """Answer until the input ends."""
    answers = _answers()
    package, build = PEERS[sys.argv[1]]
    engine = Timed(build)
    _say(answers, {"version": f"{package} {version(package)}"})
    for line in sys.stdin.buffer:
        try:
            answer = _answer(engine, msgspec.json.decode(line))
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is reported
            answer = {"error": f"{type(error).__name__}: {error}"}
        _say(answers, answer)


def _answer(engine: Timed, request: dict[str, Any]) -> dict[str, Any]:
    if "index" in request:
        tools = msgspec.convert(request["index"], tuple[Tool, ...])
        return {"seconds": engine.index(tools)}
    ids, elapsed = engine.search(request["search"])
    return {"ids": ids, "ms": elapsed}


def _answers() -> TextIO:
    """The real standard output; whatever a package prints goes to standard error."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def _say(answers: TextIO, value: dict[str, Any]) -> None:
    print(msgspec.json.encode(value).decode(), file=answers, flush=True)


if __name__ == "__main__":
    main()

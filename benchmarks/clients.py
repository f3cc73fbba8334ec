"""What making typed clients takes of the processor, and whether real compilers accept them.

    python -m benchmarks.clients --data DIR [--sets NAME …] [--compilers tsc deno pyright]
                                 [--json FILE]

DIR holds a folder for each set, with a ``tools.jsonl`` (see docs/guides/measuring.md). The
compilers are those that ``bash scripts/test`` installs.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import report
from benchmarks.compilers import deno_check, pyright, tsc
from toolscript.codegen.typed_clients import Language, make_module
from toolscript.types import ToolSpec

_FEW = 500
_PER_MODULE = 1000
"""Tools in a module that is given to pyright, which takes the square of a module's length."""


class _Row(msgspec.Struct):
    """A line of a set."""

    server: str
    name: str
    description: str | None = None
    input_schema: Any = None
    output_schema: Any = None


def main() -> int:
    """Measure, print, write; the exit status is 1 if a compiler complained."""
    arguments = _arguments()
    sets = {name: _load(arguments.data / name) for name in _chosen(arguments)}
    rows: dict[str, dict[str, Any]] = {}
    for name, tools in sets.items():
        print(f"{name} …", file=sys.stderr, flush=True)
        rows[name] = _measured(tools, arguments)
    _print(rows, arguments.compilers)
    report.write(arguments.json, {"meta": report.meta(), "results": rows})
    return int(any(row["errors"][each] for row in rows.values() for each in row["errors"]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure and check typed clients.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--compilers", nargs="*", choices=list(_CHECKS), default=list(_CHECKS))
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _chosen(arguments: argparse.Namespace) -> list[str]:
    there = sorted(path.parent.name for path in arguments.data.glob("*/tools.jsonl"))
    return arguments.sets or there


def _load(folder: Path) -> dict[str, ToolSpec]:
    decoder = msgspec.json.Decoder(_Row)
    rows = (decoder.decode(line) for line in (folder / "tools.jsonl").open("rb"))
    tools = (
        ToolSpec(
            server=row.server.replace("__", "_"),
            name=row.name,
            description=row.description or "",
            input_schema=row.input_schema,
            output_schema=row.output_schema,
        )
        for row in rows
    )
    return dict(sorted({tool.id: tool for tool in tools}.items()))


def _measured(tools: dict[str, ToolSpec], arguments: argparse.Namespace) -> dict[str, Any]:
    few = dict(list(tools.items())[:_FEW])
    times = {
        f"{count} {language}": _cpu_ms(
            lambda of=of, language=language: _made(of, language), arguments.repetitions
        )
        for count, of in (("few", few), ("all", tools))
        for language in ("ts", "py")
    }
    return {
        "tools": len(tools),
        "ms": times,
        "characters": {
            f"{language}{' compact' if compact else ''}": len(_made(tools, language, compact))
            for language in ("ts", "py")
            for compact in (False, True)
        },
        "errors": {name: _CHECKS[name](tools) for name in arguments.compilers},
    }


def _cpu_ms(work: Callable[[], object], repetitions: int) -> float:
    """The least processor time of several runs: what else the machine does is not counted."""
    times: list[float] = []
    for _ in range(repetitions):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return round(min(times), 2)


def _made(tools: dict[str, ToolSpec], language: Language, compact: bool = False) -> bytes:  # noqa: FBT001, FBT002 - as in the table's columns
    return make_module(tools, language, tuple(tools), compact=compact).text


# What the compilers say


def _typescript(
    tools: dict[str, ToolSpec], check: Callable[[Sequence[Path]], Sequence[object]]
) -> int:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("full.ts", "compact.ts")]
        for file, compact in zip(files, (False, True), strict=True):
            file.write_bytes(_made(tools, "ts", compact))
        return len(check(files))


def _pyright(tools: dict[str, ToolSpec]) -> int:
    ids = list(tools)
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(ids), _PER_MODULE):
            made = make_module(tools, "py", ids[start : start + _PER_MODULE])
            (Path(folder) / f"tools{start}.py").write_bytes(made.text)
        return len(pyright(Path(folder)))


_CHECKS: dict[str, Callable[[dict[str, ToolSpec]], int]] = {
    "tsc": lambda tools: _typescript(tools, tsc),
    "deno": lambda tools: _typescript(tools, lambda files: deno_check(files).splitlines()),
    "pyright": _pyright,
}


def _print(rows: dict[str, dict[str, Any]], compilers: Sequence[str]) -> None:
    header = ["set", "tools", f"{_FEW} ts ms", f"{_FEW} py ms", "all ts ms", "all py ms"]
    header += [
        "ts kB",
        "compact kB",
        "py kB",
        *(f"{name} errors" for name in compilers),
    ]
    report.table(header, [_cells(name, row) for name, row in rows.items()])


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    ms, size = row["ms"], row["characters"]
    cells = [ms["few ts"], ms["few py"], ms["all ts"], ms["all py"]]
    cells += [size[kind] // 1000 for kind in ("ts", "ts compact", "py")]
    return [name, *map(str, [row["tools"], *cells, *row["errors"].values()])]


if __name__ == "__main__":
    raise SystemExit(main())

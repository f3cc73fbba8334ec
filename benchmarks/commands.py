"""How long whole commands take, as processes, beside a bare interpreter.

    python -m benchmarks.commands --config .servers/servers.json [--repetitions 21] [--json FILE]

Starts a gateway for the configuration in a data directory of its own, measures
the commands with it, stops it and measures them again from the snapshot. The
first run of each command is not counted. Byte-compile first
(``python -m compileall -q src``), as an installation does.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.arguments import Parser

TOOLSCRIPT = [sys.executable, "-m", "toolscript"]
SEARCH = [*TOOLSCRIPT, "search", "read a file"]


def main() -> None:
    """Measure, print, write."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="toolscript-benchmark-") as data_dir:
        environ = _environment(arguments.config, data_dir)
        _run([*TOOLSCRIPT, "gateway", "start", "--open", "--port", "0"], environ)
        try:
            rows = _measured(
                {
                    "python -c pass": [sys.executable, "-c", "pass"],
                    "toolscript --help": [*TOOLSCRIPT, "--help"],
                    "toolscript search, gateway running": SEARCH,
                },
                environ,
                arguments.repetitions,
            )
            memory = _resident_mib(data_dir)
        finally:
            _run([*TOOLSCRIPT, "gateway", "stop"], environ)
        commands = {"toolscript search, from the snapshot": SEARCH}
        commands["python -c 'import mcp'"] = [sys.executable, "-c", "import mcp"]
        rows |= _measured(commands, environ, arguments.repetitions)
    _print(rows)
    print(f"\ngateway, resident: {memory} MiB")
    meta = report.meta(repetitions=arguments.repetitions)
    report.write(arguments.json, {"meta": meta, "results": rows, "gatewayMiB": memory})


def _arguments() -> argparse.Namespace:
    parser = Parser(description="Time whole toolscript commands.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=21)
    parser.add_json()
    return parser.parse_args()


def _environment(config: Path, data_dir: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLSCRIPT_")}
    own = {"TOOLSCRIPT_CONFIG": str(config), "TOOLSCRIPT_DATA_DIR": data_dir}
    return kept | own | {"TOOLSCRIPT_SEARCH_MODEL": "bundled"}  # the same on every machine


def _run(command: list[str], environ: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _measured(
    commands: dict[str, list[str]], environ: dict[str, str], repetitions: int
) -> dict[str, dict[str, Any]]:
    """Each command's median and 95th percentile in ms; the commands take turns."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repetitions + 1):
        for name, command in commands.items():
            times[name].append(_run(command, environ) * 1000)
    return {
        name: {
            "median_ms": round(statistics.median(values[1:]), 1),
            "p95_ms": round(statistics.quantiles(values[1:], n=20)[-1], 1),
        }
        for name, values in times.items()
    }


def _resident_mib(data_dir: str) -> int | None:
    record = next(Path(data_dir, "run").glob("gateway-*.json")).read_text(encoding="utf-8")
    pid = record.partition('"pid": ')[2].partition(",")[0]
    status = Path("/proc", pid, "status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


def _print(rows: dict[str, dict[str, Any]]) -> None:
    base = rows["python -c pass"]["median_ms"]
    report.table(
        ["command", "median ms", "95 % ms", "× bare Python"],
        [
            [name, f"{r['median_ms']:.0f}", f"{r['p95_ms']:.0f}", f"{r['median_ms'] / base:.1f}"]
            for name, r in rows.items()
        ],
    )


if __name__ == "__main__":
    main()

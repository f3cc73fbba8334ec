"""The command line: what to measure, and what to do with it."""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import report
from benchmarks.arguments import WRONG, Parser
from benchmarks.quality import compare, datasets, peers
from benchmarks.quality.adapters import PEERS
from benchmarks.quality.datasets import DataError, Dataset
from benchmarks.quality.measure import Engine, Measured, below, measure
from benchmarks.quality.own import OWN
from benchmarks.quality.peers import Peer, PeerError
from benchmarks.quality.timed import Timed
from toolscript.errors import ToolscriptError
from toolscript.retrieval.quality_metrics import LABELS, Scores

GATED = "toolscript"
"""The engine that ``--fail-under`` looks at."""
COMPARED = "ndcg10"
ENGINES = (*OWN, *PEERS)
BELOW = 1
"""Exit code: something measured is not as it should be."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.install_peers:
            peers.install()
            return 0
        if options.data is None:
            parser.error("--data is missing: the folder that holds the dataset folders")
        folders = datasets.find(options.data, options.datasets)
        loaded = [datasets.load(folder, options.sample) for folder in folders]
        with contextlib.ExitStack() as stack:
            measured = measure(loaded, _engines(options, stack))
    except (DataError, PeerError, ToolscriptError) as error:
        parser.error(str(error))
    return _report(options, loaded, measured)


def _parser() -> Parser:
    parser = Parser(
        prog="python -m benchmarks.quality",
        description="Measure how well search engines find the tools of labelled datasets.",
        epilog=f"Engines of our own: {', '.join(OWN)}. Other projects': {', '.join(PEERS)}.",
    )
    add = parser.add_argument
    parser.add_data(required=False)
    add("--datasets", type=_names, metavar="A,B", help="only these; without it, all with queries")
    add(
        "--engines",
        type=_engine_names,
        default=list(OWN),
        metavar="E1,E2",
        help="only these, or 'all'; without it, those of our own",
    )
    add("--sample", type=_count, metavar="N", help="at most N queries of each dataset")
    add(
        "--compare",
        nargs=2,
        type=_engine_name,
        action="append",
        default=[],
        metavar=("A", "B"),
        help="is A better than B? may be repeated",
    )
    add(
        "--fail-under",
        type=_floor,
        action="append",
        default=[],
        metavar="METRIC=VALUE",
        help=f"exit 1 where {GATED} gets less on a dataset; {', '.join(LABELS)}; may be repeated",
    )
    parser.add_json()
    add("--install-peers", action="store_true", help="make .peers, where other engines run")
    return parser


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("nothing is named")
    return list(dict.fromkeys(names))


def _engine_name(text: str) -> str:
    if text not in ENGINES:
        raise argparse.ArgumentTypeError(f"no engine {text!r}; there are {', '.join(ENGINES)}")
    return text


def _engine_names(text: str) -> list[str]:
    return list(ENGINES) if text == "all" else [_engine_name(name) for name in _names(text)]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1")
    return int(text)


def _floor(text: str) -> tuple[str, float]:
    metric, _, value = text.partition("=")
    try:
        floor = float(value)
    except ValueError:
        floor = -1.0
    if metric not in LABELS or not 0 <= floor <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not METRIC=VALUE, where METRIC is one of {', '.join(LABELS)} "
            "and VALUE from 0 to 1"
        )
    return metric, floor


def _engines(options: argparse.Namespace, stack: contextlib.ExitStack) -> dict[str, Engine]:
    """The engines asked for, and those that have to be there for what else was asked."""
    compared = [name for pair in options.compare for name in pair]
    names = [*options.engines, *compared, *([GATED] if options.fail_under else [])]
    engines: dict[str, Engine] = {}
    for name in dict.fromkeys(names):
        engines[name] = Timed(OWN[name]) if name in OWN else Peer(name)
        stack.callback(engines[name].close)
    return engines


def _report(options: argparse.Namespace, loaded: Sequence[Dataset], measured: Measured) -> int:
    _print(measured)
    meta = report.meta(
        seed=datasets.SEED,
        sample=options.sample,
        datasets={dataset.name: len(dataset.tools) for dataset in loaded},
        peers=measured.versions,
        failed=measured.failed,
    )
    written: dict[str, Any] = {"meta": meta, "results": [r.row() for r in measured.results]}
    if options.compare:
        written["comparisons"] = [_compare(measured, *pair) for pair in options.compare]
    problems = [
        *(f"left out: {where}: {error}" for where, error in measured.failed.items()),
        *below(measured, GATED, dict(options.fail_under)),
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    try:
        report.write(options.json, written)
    except OSError as error:
        print(f"--json {options.json}: {error.strerror or error}", file=sys.stderr)
        return WRONG
    return BELOW if problems else 0


def _print(measured: Measured) -> None:
    rows: list[list[str]] = []
    for result in measured.results:
        row = result.row()
        times = [f"{row['p50_ms']:.1f}", f"{row['p95_ms']:.1f}", f"{row['index_s']:.1f}"]
        shown = [row["dataset"], row["engine"], str(row["queries"])]
        rows.append([*shown, *_figures(result.means), *times])
    for engine in dict.fromkeys(result.engine for result in measured.results):
        macro = measured.macro(engine)
        if macro:
            queries = str(sum(len(result.scores) for result in measured.of(engine)))
            rows.append([compare.MACRO, engine, queries, *_figures(macro), "", "", ""])
    times = ["p50 ms", "p95 ms", "index s"]
    report.table(["dataset", "engine", "queries", *LABELS.values(), *times], rows)


def _figures(scores: Scores) -> list[str]:
    return [f"{scores[name]:.3f}" for name in LABELS]


def _compare(measured: Measured, first: str, second: str) -> dict[str, Any]:
    found = compare.compare(measured.differences(first, second, COMPARED))
    print(f"\n{LABELS[COMPARED]} of {first} less that of {second}, paired bootstrap:\n")
    report.table(
        ["dataset", "difference", "95 % interval", "p"],
        [
            [c.dataset, f"{c.difference:+.4f}", f"{c.low:+.4f} to {c.high:+.4f}", f"{c.p:.4f}"]
            for c in found
        ],
    )
    rows = [
        {"dataset": c.dataset, "difference": c.difference, "low": c.low, "high": c.high, "p": c.p}
        for c in found
    ]
    return {"engines": [first, second], "metric": COMPARED, "datasets": rows}


if __name__ == "__main__":
    sys.exit(main())

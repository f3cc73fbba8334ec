"""Prints how a confidence came about: the signals, their mean, and each step after it."""

from typing import Any

import click

from toolscript.text import printable

_LABEL = 12


def print_explanation(hit: dict[str, Any]) -> None:
    """Prints a hit's signals with weight and evidence, their mean, and what changed it."""
    click.echo()
    name = hit.get("toolId") or hit["skillId"]
    click.secho(f"{printable(name)}  {hit['confidence']:.2f}", bold=True)
    explanation = hit["explanation"]
    for share in explanation["shares"]:
        evidence = "; ".join(share["evidence"]) or "nothing in common"
        _line(share["signal"], f"{share['score']:.2f} × {share['weight']:.2f}", evidence)
    _line("mean", f"{explanation['fused']:.2f}", "")
    for step in explanation["steps"]:
        _line(step["name"], f"{step['score']:.2f}", step["evidence"])


def print_miss(why: dict[str, Any]) -> None:
    """Prints where the tool of ``--why`` ended up, and its explanation if it was searched."""
    click.echo()
    click.echo(f"{printable(why['toolId'])}: {printable(why['verdict'])}")
    if why["hit"]:
        print_explanation(why["hit"])


def _line(label: str, number: str, evidence: str) -> None:
    click.echo(f"  {label:<{_LABEL}}{number:<13}{printable(evidence)}".rstrip())

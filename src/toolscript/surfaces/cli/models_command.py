"""``toolscript models``."""

from dataclasses import asdict

import click

from toolscript.embedding.models import MODELS
from toolscript.surfaces.cli.options import output_choice
from toolscript.surfaces.cli.output import print_json, print_table


@click.command()
@output_choice("A table for people, or JSON.", "table", "json")
def models(output: str) -> None:
    """List the embedding models that are known.

    MTEB is the published mean nDCG@10 of its retrieval tasks. Choose a model with
    --model or TOOLSCRIPT_SEARCH_MODEL.
    """
    if output == "json":
        print_json({"models": [asdict(spec) for spec in MODELS]})
        return
    rows = [
        [
            spec.repository or "bundled",
            f"{spec.megabytes:g} MB",
            spec.parameters,
            str(spec.dimensions),
            "-" if spec.mteb is None else f"{spec.mteb:.2f}",
            spec.pooling,
            spec.use,
        ]
        for spec in MODELS
    ]
    print_table(["Model", "Size", "Parameters", "Dimensions", "MTEB", "Pooling", "Use"], rows)

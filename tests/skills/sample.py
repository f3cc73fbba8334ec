"""A few skills, for tests of everything around them."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support import Cli, fetch, until

OWN_PASSAGES = 4
"""Passages of the skill of the product, which is served with others."""
SKILLS = {
    "pdf/SKILL.md": """\
---
name: pdf-forms
description: Fill in the fields of a PDF form and flatten it.
---
# PDF forms

## Finding the fields

List the names of all fields before anything is written. See references/fields.md.

## Flattening

A flattened form cannot be edited any more. Do it last.
""",
    "pdf/references/fields.md": "Text, check box, radio button, signature.",
    "kitchen/bread.md": """\
# Sourdough bread

Feed the starter in the evening, and mix the dough in the morning.

## Baking

Bake it for fifty minutes in a closed pot.
""",
    "notes.txt": "The office closes at six. The alarm is set by whoever leaves last.",
}


def put(folder: Path) -> Path:
    """Write them below a folder, and return that."""
    for path, text in SKILLS.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder


@contextmanager
def serving(cli: Cli) -> Generator[str]:
    """A gateway that has indexed its skills; its URL."""
    url = cli.start_gateway()
    until(lambda: fetch(url, "/skills")[1]["ready"], "the skills are indexed")
    with cli:
        yield url

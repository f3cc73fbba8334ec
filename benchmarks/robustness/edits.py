"""Misspelling: one random edit of a name."""

import random
import string

SENTENCES = (
    "use {} for this",
    "I need {} now",
    "call the {} tool please",
    "can you run {} on it",
)
_SEPARATORS = "_-. "


def misspelled(name: str, rng: random.Random) -> str:
    """The name with one letter deleted, inserted, substituted or swapped, or a separator lost."""
    separators = [i for i, letter in enumerate(name) if letter in _SEPARATORS]
    kinds = ["delete", "insert", "substitute", "swap"]
    kind = rng.choice([*kinds, "join"] if separators else kinds)
    if kind == "join":
        at = rng.choice(separators)
        return name[:at] + name[at + 1 :]
    at = rng.randrange(len(name) - 1)
    letter = rng.choice(string.ascii_lowercase)
    forms: dict[str, str] = {
        "delete": name[:at] + name[at + 1 :],
        "insert": name[:at] + letter + name[at:],
        "substitute": name[:at] + letter + name[at + 1 :],
        "swap": name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    }
    return forms[kind]

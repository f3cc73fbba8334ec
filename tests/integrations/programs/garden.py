"""Tools of a garden, for every framework, and a question that one of them answers."""

from collections.abc import Callable
from typing import Any

DESCRIPTIONS = {
    "mow_lawn": "Cut the grass to a height in millimetres.",
    "water_plants": "Water the plants in the garden for some minutes.",
    "prune_roses": "Cut back the roses after they have flowered.",
    "sow_seeds": "Put seeds of vegetables into the soil.",
    "pick_apples": "Harvest ripe apples from the trees.",
    "rake_leaves": "Gather fallen leaves into heaps.",
    "paint_fence": "Coat the wooden fence with paint.",
    "feed_birds": "Fill the feeder with grain for birds.",
    "clean_pond": "Remove algae from the pond.",
    "compost_waste": "Turn kitchen scraps into compost.",
    "measure_rain": "Read how much rain has fallen today.",
    "lock_shed": "Lock the door of the tool shed.",
}
QUESTION = "the grass is too high"
calls: list[tuple[str, int]] = []
"""The calls that were made: the name, and the amount."""


def function(name: str) -> Callable[..., str]:
    """Returns the function of a tool, which records its calls."""

    def work(amount: int) -> str:
        calls.append((name, amount))
        return f"{name}: done"

    work.__name__, work.__doc__ = name, DESCRIPTIONS[name]
    return work


def functions() -> list[Callable[..., str]]:
    return [function(name) for name in DESCRIPTIONS]


def source(address: list[str]) -> Any:
    """The tools of a gateway if its address is given, else these."""
    if address:
        from toolscript.integrations.remote_tools import RemoteTools

        return RemoteTools(*address)
    from toolscript import Ranker

    return Ranker(functions())

"""Kills processes while they accept definitions, and looks at what is left.

    python -m benchmarks.pins [--kills 1000] [--damages 200] [--seed 18] [--json]

A child process accepts one tool after the other of a server whose first tool has changed, and says
after each listing that it has returned. It is killed at a random moment. Then every tool whose
listing had returned has to be accepted as it was (else a pin was lost), and the changed tool has to
be held (else it was approved). The damages flip a byte of the file, cut it or delete it: every tool
has to be held.
"""

import argparse
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.types import ServerSpec, ToolSpec

SERVER = ServerSpec(name="server", transport="stdio", command="server")
_ABOUT = "Kill processes while they accept definitions, and look at what is left."
_MAX_S = 0.08
"""The longest time that a child lives once it has begun."""


def tool(number: int, text: str = "") -> ToolSpec:
    """A tool whose text is like no other's."""
    words = " ".join(f"w{number * 17 + each}" for each in range(8))
    return ToolSpec(server="server", name=f"t{number}", description=f"{words} {text}")


def main() -> int:
    """Print what was lost, and return 0 where nothing was."""
    parser = argparse.ArgumentParser(description=_ABOUT)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--damages", type=int, default=200)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # each damage is one
    chance = random.Random(given.seed)  # noqa: S311 - no secret
    kills = _killed(given.kills, chance)
    damages = _damaged(given.damages, chance)
    result = {"kills": kills, "damages": damages}
    if given.json:
        print(json.dumps(result, indent=2))
    else:
        for what, counts in result.items():
            print(f"{what}: " + ", ".join(f"{key} {value}" for key, value in counts.items()))
    wrong = kills["lost"] + kills["approved"] + damages["accepted"]
    return 1 if wrong else 0


def _killed(kills: int, chance: random.Random) -> dict[str, int]:
    counts = {"kills": kills, "listings": 0, "during a write": 0, "lost": 0, "approved": 0}
    for turn in range(kills):
        with tempfile.TemporaryDirectory() as folder:
            returned = _run_and_kill(Path(folder), chance.uniform(0, _MAX_S))
            counts["listings"] += returned
            counts["during a write"] += bool(list(Path(folder).rglob("pins/*/.*")))
            pins = DefinitionPins(Path(folder), "key")
            tools = [tool(number) for number in range(returned + 1)]
            accepted = {each.name for each in pins.review(SERVER, tools).accepted}
            counts["lost"] += len({each.name for each in tools} - accepted)
            held = pins.review(SERVER, [tool(0, "changed"), *tools[1:]]).held
            counts["approved"] += [each.tool.name for each in held] != ["t0"]
        if sys.stderr.isatty():
            print(f"\r{turn + 1}/{kills}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return counts


def _run_and_kill(folder: Path, after_s: float) -> int:
    """How many listings had returned when the child was killed, the first one not counted."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _accept(folder, write)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        first = said.read(1)  # the first definition is accepted
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return len(first + said.read()) - 1


def _accept(folder: Path, write: int) -> None:
    """Accept one tool more with each listing, until killed."""
    pins, tools = DefinitionPins(folder, "key"), [tool(0)]
    pins.review(SERVER, tools)
    os.write(write, b".")
    for number in range(1, 100_000):
        tools.append(tool(number))
        pins.review(SERVER, [tool(0, "changed"), *tools[1:]])
        os.write(write, b".")
    os._exit(0)


def _damaged(damages: int, chance: random.Random) -> dict[str, Any]:
    counts = {"damages": damages, "accepted": 0}
    tools = [tool(number) for number in range(5)]
    for turn in range(damages):
        with tempfile.TemporaryDirectory() as folder:
            DefinitionPins(Path(folder), "key").review(SERVER, tools)
            [path] = Path(folder).rglob("pins/key/*.json")
            data = bytearray(path.read_bytes())
            if turn % 10 == 0:
                path.unlink()
            elif turn % 2:
                place = chance.randrange(len(data))
                data[place] ^= 1 << chance.randrange(8)
                path.write_bytes(data)
            else:
                path.write_bytes(data[: chance.randrange(len(data))])
            reviewed = DefinitionPins(Path(folder), "key").review(SERVER, tools)
            counts["accepted"] += bool(reviewed.accepted)
    return counts


if __name__ == "__main__":
    sys.exit(main())

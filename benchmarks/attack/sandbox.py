"""Attacks on ``toolscript exec``: keys, the disk, the end of its parent."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.attack.base import Effort, Outcome
from benchmarks.gateways import configure, gateway, scripted

_PROGRAM = ["-P", "-m", "toolscript", "exec"]
_PATIENCE_S = 10.0
_KEYS = """
import v8 from "node:v8";
const chunks = [];
for await (const chunk of v8.getHeapSnapshot()) chunks.push(chunk);
const heap = new TextDecoder().decode(await new Blob(chunks).arrayBuffer());
const main = (await import("./main.js", { with: { type: "text" } })).default;
console.log([...new Set((heap + main).match(/[\\w-]{43}/g))].join("\\n"));
"""
_FILLS = (
    "const c = await caches.open('x'); await c.put('http://x/', new Response(new Uint8Array(1e7)))",
    "localStorage.setItem('x', 'x'.repeat(4e6))",
    """for (let i = 0; i < 20; i++) await import('data:application/typescript,'
    + encodeURIComponent(`export const a: string = '${i}${'x'.repeat(1e6)}'`))""",
)
_LIVES = ("for (;;) {}", "await new Promise(() => setInterval(() => {}, 1000))")


def attacks(effort: Effort) -> Iterator[Outcome]:
    """Run hostile scripts against a gateway of one server."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        configure(
            folder, {"s": scripted(tools=[{"name": "echo", "inputSchema": {"type": "object"}}])}
        )
        with gateway(folder, TOOLSCRIPT_SEARCH_FALLBACK="fuzzy"):
            yield _keys(folder)
            yield _disk(folder, effort)
            yield _kills(folder, effort)


def _keys(folder: Path) -> Outcome:
    key = json.loads(next(folder.glob("run/gateway-*.json")).read_text("utf-8"))["key"]
    with _script(folder, _KEYS) as process:
        said, _ = process.communicate(timeout=60)
    held = process.returncode == 0 and key not in said
    return Outcome("M1", "read the heap and the first module", 1, int(held))


def _disk(folder: Path, effort: Effort) -> Outcome:
    tried, held, most = effort.times(3), 0, 0
    for number in range(tried):
        script = f"try {{ {_FILLS[number % len(_FILLS)]} }} catch {{}} console.log('done');"
        hold = "await new Response(Deno.stdin.readable).text();"
        with _script(folder, f"{script}\n{hold}") as process:
            assert process.stdout  # noqa: S101 - it is a pipe
            if process.stdout.readline() != "done\n":
                raise SystemExit("the script did not run")
            size = sum(p.stat().st_size for p in (folder / "tmp").rglob("*") if p.is_file())
            most, held = max(most, size), held + (size < 1_000_000)
            process.communicate("", timeout=60)
    return Outcome("M3", "fill the disk by caches and modules", tried, held, f"most {most} bytes")


def _kills(folder: Path, effort: Effort) -> Outcome:
    tried, held, latest = effort.times(20), 0, 0.0
    for number in range(tried):
        with _script(folder, f"console.log('up'); {_LIVES[number % 2]}") as process:
            assert process.stdout  # noqa: S101 - it is a pipe
            if process.stdout.readline() != "up\n":
                raise SystemExit("the script did not run")
            process.kill()
        begin = time.monotonic()
        while (left := _running(folder / "tmp")) and time.monotonic() - begin < _PATIENCE_S:
            time.sleep(0.01)
        latest, held = max(latest, time.monotonic() - begin), held + (not left)
        for pid in left:
            os.kill(pid, 9)
    return Outcome("M2", "kill -9 of the command", tried, held, f"Deno gone after {latest:.2f} s")


@contextmanager
def _script(folder: Path, text: str) -> Generator["subprocess.Popen[str]"]:

    file = folder / "script.ts"
    file.write_text(text, "utf-8")
    own = {"TOOLSCRIPT_DATA_DIR": str(folder), "TOOLSCRIPT_CONFIG": str(folder / "config.json")}
    with subprocess.Popen(
        [sys.executable, *_PROGRAM, str(file)],
        env={**os.environ, **own, "TMPDIR": str(folder / "tmp")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def _running(folder: Path) -> list[int]:
    """The processes with a path below the folder among their arguments."""
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in each.read_bytes():
                found.append(int(each.parent.name))
        except OSError:
            continue
    return found

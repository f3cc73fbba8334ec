"""Scripts of models that want more than to call the tools they were given.

Each probe is run by the sandbox of a gateway, in a process of this test, over a door that answers
every call; its last line, or the error that ends it, is the expected one.
"""

import os
import re
import time
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from tests.app.test_scripts import ALL, GRANTED, Door, sandbox
from tests.support import child_processes
from toolscript.app.script_sandbox import ScriptLimits, Scripts
from toolscript.errors import ToolscriptError

SECRET = "a-secret-of-the-environment"  # noqa: S105 - not one that opens anything
LIMITS = ScriptLimits(calls=10, seconds=0.5, memory_mib=32)
HIDE = "from typing import Any\ndef hide(value: Any) -> Any:\n    return value\n"
"""Hides a value's type from the checker, so that a probe gets to run."""
NO_NAME, NO_MODULE = "used when not defined", "Cannot resolve imported module|No module named"
NO_ATTRIBUTE = "has no attribute|has no member|is not supported|AttributeError"
MEMORY, TIME = "memory limit|MemoryError|of more than 4,000,000 bytes", "time limit|Timeout|stopped"

FILES = {
    "open": ("open('{file}').read()", NO_NAME),
    "open to write": ("open('{file}', 'w').write('x')", NO_NAME),
    "pathlib reads": ("from pathlib import Path\nPath('{file}').read_text()", "PermissionError"),
    "pathlib writes": (
        "from pathlib import Path\nPath('{file}').write_text('x')",
        "PermissionError",
    ),
    "pathlib deletes": ("from pathlib import Path\nPath('{file}').unlink()", "PermissionError"),
    "pathlib lists": ("from pathlib import Path\nlist(Path('/').iterdir())", "PermissionError"),
    "pathlib looks": ("from pathlib import Path\nPath('{file}').exists()", "PermissionError|false"),
    "pathlib goes up": (
        "from pathlib import Path\nPath('../../etc/passwd').read_text()",
        "PermissionError",
    ),
    "os lists": ("import os\nos.listdir('/')", "PermissionError|" + NO_ATTRIBUTE),
    "os removes": ("import os\nos.remove('{file}')", "PermissionError|" + NO_ATTRIBUTE),
    "os opens": ("import os\nos.open('{file}', 0)", NO_ATTRIBUTE),
    "io opens": ("import io\nio.open('{file}')", NO_MODULE + "|" + NO_ATTRIBUTE),
    "shutil": ("import shutil\nshutil.copy('{file}', '/tmp/x')", NO_MODULE),
    "tempfile": ("import tempfile\ntempfile.mkdtemp()", NO_MODULE),
    "glob": ("import glob\nglob.glob('/etc/*')", NO_MODULE),
    "sqlite": ("import sqlite3\nsqlite3.connect('{file}')", NO_MODULE),
    "print to a file": ("print('x', file=hide(3))", "TypeError|NotImplemented|" + NO_ATTRIBUTE),
}
OUTSIDE = {
    "socket": ("import socket\nsocket.socket()", NO_MODULE),
    "urllib": ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1')", NO_MODULE),
    "http": ("import http.client", NO_MODULE),
    "asyncio connects": (
        "import asyncio\nawait asyncio.open_connection('127.0.0.1', 80)",
        NO_ATTRIBUTE + "|no member",
    ),
    "subprocess": ("import subprocess\nsubprocess.run(['id'])", NO_MODULE),
    "asyncio starts a process": (
        "import asyncio\nawait asyncio.create_subprocess_shell('id')",
        NO_ATTRIBUTE + "|no member",
    ),
    "os.system": ("import os\nos.system('id')", NO_ATTRIBUTE),
    "os.fork": ("import os\nos.fork()", NO_ATTRIBUTE),
    "os.kill": ("import os\nos.kill(1, 9)", NO_ATTRIBUTE),
    "ctypes": ("import ctypes", NO_MODULE),
    "threading": ("import threading", NO_MODULE),
    "multiprocessing": ("import multiprocessing", NO_MODULE),
    "signal": ("import signal", NO_MODULE),
    "environ": ("import os\nos.environ['PROBE']", NO_ATTRIBUTE),
    "getenv": ("import os\nos.getenv('PROBE')", NO_ATTRIBUTE),
    "all of environ": ("import os\ndict(os.environ)", NO_ATTRIBUTE),
    "input": ("input()", NO_NAME),
    "our own modules": ("import toolscript.app", NO_MODULE),
    "the sandbox's modules": ("import pydantic_monty", NO_MODULE),
    "importlib": ("import importlib\nimportlib.import_module('os')", NO_MODULE),
    "__import__": ("__import__('os').system('id')", NO_NAME + "|NameError"),
    "builtins": ("import builtins\nbuiltins.open('{file}')", NO_MODULE + "|" + NO_ATTRIBUTE),
}
INTROSPECTION = {
    "class": ("hide(()).__class__.__base__", NO_ATTRIBUTE),
    "subclasses": ("hide(()).__class__.__base__.__subclasses__()", NO_ATTRIBUTE),
    "type": ("hide(type(hide(1))).__subclasses__()", NO_ATTRIBUTE),
    "mro": ("hide(type(hide(1))).__mro__", NO_ATTRIBUTE),
    "object": ("hide(object)().__reduce_ex__(2)", "cannot create 'object'|" + NO_ATTRIBUTE),
    "globals of a function": ("hide(hide).__globals__", NO_ATTRIBUTE),
    "code of a function": ("hide(hide).__code__", NO_ATTRIBUTE),
    "closure": ("hide(tools).my_files.ping.__closure__", NO_ATTRIBUTE),
    "self of a builtin": ("hide(print).__self__", NO_ATTRIBUTE),
    "dict of a module": ("import json\nhide(json).__dict__", NO_ATTRIBUTE + "|json"),
    "loader of a module": ("import json\nhide(json).__loader__", NO_ATTRIBUTE),
    "modules": ("import sys\nhide(sys).modules", NO_ATTRIBUTE),
    "frames": ("import sys\nhide(sys)._getframe()", NO_ATTRIBUTE),
    "frame of an error": (
        "try:\n    1 / 0\nexcept Exception as e:\n    hide(e).__traceback__.tb_frame",
        NO_ATTRIBUTE,
    ),
    "cause of an error": (
        (
            "try:\n    await tools.db.free(broken=1)\nexcept Exception as e:\n"
            "    hide(e).__context__.__traceback__"
        ),
        NO_ATTRIBUTE,
    ),
    "frame of a coroutine": ("hide(tools).my_files.ping().cr_frame", NO_ATTRIBUTE),
    "format of a class": ("hide('{0.__class__}').format(1)", NO_ATTRIBUTE),
    "format of globals": ("hide('{0.__globals__}').format(hide)", NO_ATTRIBUTE),
    "format_map": ("hide('{a.__class__}').format_map({'a': 1})", NO_ATTRIBUTE),
    "f-string of a class": ("f'{hide(1).__class__}'", NO_ATTRIBUTE),
    "globals": ("globals()", NO_NAME),
    "vars": ("vars()", NO_NAME),
    "getattr": ("getattr(tools, '__class__')", NO_NAME + "|" + NO_ATTRIBUTE),
    "compile": ("compile('1', '', 'eval')", NO_NAME),
    "eval of an import": ("hide(eval)('__import__(\"os\")')", NO_NAME + "|NameError"),
    "exec of a file": ("hide(exec)('open(\"{file}\").read()')", NO_NAME + "|PermissionError"),
    "a metaclass": ("class M(type): pass", "not yet support|invalid"),
    "pickle": ("import pickle", NO_MODULE),
    "gc": ("import gc", NO_MODULE),
    "inspect": ("import inspect", NO_MODULE),
    "breakpoint": ("breakpoint()", NO_NAME + "|NameError"),
}
TOO_MUCH = {
    "an endless loop": ("while True: pass", TIME),
    "a loop that catches": (
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        TIME,
    ),
    "an endless sleep": ("import time\ntime.sleep(10000)", "sleep limit"),
    "many sleeps": (
        "import asyncio\nawait asyncio.gather(*[asyncio.sleep(100) for i in range(99)])",
        "sleep limit",
    ),
    "a power": ("10**10**10", MEMORY),
    "a growing number": ("x = 3\nwhile True: x = x * x", MEMORY + "|" + TIME),
    "digits": ("len(str(7 ** 3_000_000))", TIME + "|limit"),
    "a factorial": ("import math\nmath.factorial(10**8)", TIME + "|" + MEMORY),
    "a long text": ("'a' * 10**10", MEMORY),
    "a growing list": ("x = []\nwhile True: x.append('a' * 1000)", MEMORY),
    "a range": ("list(range(10**10))", MEMORY),
    "a width": ("'{:>1000000000}'.format(1)", MEMORY),
    "a replacement": ("('a' * 10**5).replace('a', 'b' * 10**6)", MEMORY),
    "a join": ("','.join(['b' * 10**6] * 10**4)", MEMORY),
    "a regex": ("import re\nre.match('(a|a)+$', 'a' * 60 + 'b')", TIME + "|null|^$"),
    "recursion": ("def f(): return f()\nf()", "RecursionError"),
    "JSON inside JSON": ("import json\njson.loads('[' * 10**5)", "recursion limit"),
    "prints": ("while True: print('x' * 1000)", MEMORY),
    "a shared value": ("a = [0] * 1000\nfor i in range(5): a = [a] * 1000\na", MEMORY),
    "a shared argument": (
        ("a = [0] * 1000\nfor i in range(5): a = [a] * 1000\nawait tools.db.free(a=a)"),
        MEMORY,
    ),
    "a circular value": (
        "a = []\na.append(a)\na",
        MEMORY + "|cannot be written|JSON|\\[\\.\\.\\.\\]",
    ),
    "a deep value": (
        "a = []\nfor i in range(10**5): a = [a]\na",
        "cannot be written as JSON|deeply nested",
    ),
    "many calls": ("while True:\n    await tools.my_files.ping()", "has made 10 calls"),
    "many calls at once": (
        ("import asyncio\nawait asyncio.gather(*[tools.my_files.ping() for i in range(1000)])"),
        "has made 10 calls",
    ),
    "many searches": ("while True:\n    await search('x')", "limit"),
    "deep brackets": ("(" * 20_000 + ")" * 20_000, "mistake|stopped|nest"),
    "a long expression": ("+".join(["1"] * 20_000), "mistake|stopped|recursion|nest|20000"),
}
RIGHTS = {
    "another server": ("await tools.other.secret()", "has no attribute `other`"),
    "another server, hidden": ("await hide(tools).other.secret()", NO_ATTRIBUTE),
    "the function behind": ("await _call('other__secret', (), {{}})", NO_NAME),
    "the function behind, evaluated": (
        "await hide(eval)('_call')('other__secret', (), {{}})",
        NO_NAME + "|NameError|no tool is called",
    ),
    "another id for a tool": ("hide(tools).my_files.ping = hide(tools).other", NO_ATTRIBUTE),
}
PROBES = {
    **{f"file: {name}": row for name, row in FILES.items()},
    **{f"outside: {name}": row for name, row in OUTSIDE.items()},
    **{f"introspection: {name}": row for name, row in INTROSPECTION.items()},
    **{
        f"too much: {name}": (script, f"{ends}|{TIME}") for name, (script, ends) in TOO_MUCH.items()
    },
    **{f"rights: {name}": row for name, row in RIGHTS.items()},
}


@pytest.fixture(scope="module")
def scripts() -> Generator[Scripts]:
    os.environ["PROBE"] = SECRET
    with sandbox(LIMITS) as made:
        yield made
    del os.environ["PROBE"]
    assert not any("monty" in each for each in child_processes(os.getpid()).values())


def ends(scripts: Scripts, script: str, door: Door) -> str:
    """Returns the end of a script's outcome, or the error that has ended it."""
    try:
        outcome = anyio.run(scripts.run, script, ALL, GRANTED, door.functions)
    except ToolscriptError as error:
        return str(error)
    return outcome.texts[0 if outcome.failed else -1] if outcome.texts else ""


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_gets_nothing(scripts: Scripts, tmp_path: Path, name: str) -> None:
    file = tmp_path / "secret.txt"
    file.write_text(SECRET, "utf-8")
    probe, expected = PROBES[name]
    script = probe.replace("{file}", str(file)).replace("{{}}", "{}")
    door, began = Door(), time.monotonic()
    said = ends(scripts, f"{HIDE}{script}" if "hide" in script else script, door)
    assert time.monotonic() - began < 20, "it has held its thread"
    assert re.search(expected, said), said
    assert SECRET not in said
    assert file.read_text("utf-8") == SECRET
    assert all(tool in GRANTED for tool, _ in door.calls)
    assert len(door.calls) <= LIMITS.calls
    assert ends(scripts, "1 + 1", Door()) == "2", "the next script is not affected"

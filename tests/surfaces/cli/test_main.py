"""What every command starts with."""

import os
import subprocess
import sys

import pytest
from tests.support import Cli

PROGRAM = """
import sys
from contextlib import suppress
from pathlib import Path
from toolscript.surfaces.cli.main import main

sys.argv = ["toolscript", "--version"]
with suppress(SystemExit):
    main()
import numpy
print(len(list(Path("/proc/self/task").iterdir())))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_numpy_has_no_threads_of_its_own() -> None:
    """But where somebody asks for some."""
    for asked, threads in ({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, min(2, os.cpu_count() or 1)):
        environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"} | asked
        command = [sys.executable, "-c", PROGRAM]
        output = subprocess.check_output(command, text=True, env=environment)
        assert output.split()[-1] == str(threads)


def test_help_has_groups_of_commands_and_the_options_of_many_once(cli: Cli) -> None:
    whole, own, nothing = cli("--help").stdout, cli("search", "--help").stdout, cli()
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (2, "", whole)
    assert "\n  search    Find the tools for a task.\n" in whole
    titles = [line[:-1] for line in whole.splitlines() if line and line[0] != " "]
    assert titles[-6:] == ["Start", "Servers", "Safety", "Look", "Build", "Operate"]
    for option in ("--config", "--data-dir", "--profile", "--model"):
        assert (f"\n  {option} " in whole, f"\n  {option} " in own) == (True, False)
    assert own.endswith("See toolscript --help for --profile, --model, --config, --data-dir\n")

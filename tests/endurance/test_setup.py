"""`toolscript setup` is killed at random moments: each file is as it was, or as it should be."""

import time
from random import Random

import pytest

from tests import launcher
from tests.endurance.effort import Effort
from tests.support import Cli
from tests.users.homes import backups, contents, furnish


@pytest.mark.requirement("setup:safe")
def test_a_kill_loses_no_file_and_leaves_none_half_written(cli: Cli, effort: Effort) -> None:
    before = after = furnish(cli.home)
    duration_s = 0.0
    for _ in range(2):  # the second one shows how long it takes
        begun = time.monotonic()
        assert cli("setup", "--yes").returncode == 0
        duration_s = time.monotonic() - begun
        after = contents(cli.home)
        assert cli("setup", "--undo", "--yes").returncode == 0
    complete = {path for path in after if after[path] != before.get(path)}
    own, chance, halfway = cli.home / ".toolscript.json", effort.chance, 0
    kills = effort.times(100, 4)
    for number in range(kills):
        kill(cli, "--yes", duration_s, chance)
        now = {path: data for path, data in contents(cli.home).items() if path in after}
        assert before.keys() <= now.keys()
        assert not [path for path in now if now[path] not in {before.get(path), after[path]}]
        changed = {path for path, data in now.items() if data != before.get(path)}
        assert not changed or own in changed
        halfway += 0 < len(changed) < len(complete)
        if number % 2:
            assert cli("setup", "--yes").returncode == 0
            now = contents(cli.home)
            assert {path: now[path] for path in after} == after
        else:
            kill(cli, "--undo --yes", duration_s, chance)
        assert cli("setup", "--undo", "--yes").returncode == 0
        assert {path: data for path, data in contents(cli.home).items() if path in after} == before
        assert not backups(cli.home)
    assert halfway >= kills // 20


def kill(cli: Cli, what: str, duration_s: float, chance: Random) -> None:
    """Kills the command at any moment, or while it writes: one after the other file."""
    writes = chance.random() < 0.7
    record = cli.home / ".toolscript" / "setup.json"
    with launcher.begin(["setup", *what.split()], cli.home, cli.environment()) as process:
        while writes and process.poll() is None and not record.exists():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.2 if writes else 1) * duration_s)
        process.kill()

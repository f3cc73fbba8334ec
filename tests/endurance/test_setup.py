"""`toolscript setup` is killed at random moments: each file is as it was, or as it should be."""

import time

import pytest

from tests import launcher
from tests.endurance.effort import Effort
from tests.support import Cli
from tests.users.homes import contents, furnish


@pytest.mark.requirement("setup:safe")
def test_a_kill_loses_no_file_and_leaves_none_half_written(cli: Cli, effort: Effort) -> None:
    before = furnish(cli.home)
    begun = time.monotonic()
    assert cli("setup", "--yes").returncode == 0
    duration = time.monotonic() - begun
    after = contents(cli.home)
    own = cli.home / ".toolscript.json"
    assert cli("setup", "--undo").returncode == 0
    chance = effort.chance
    for number in range(effort.times(100, 10)):
        with launcher.begin(["setup", "--yes"], cli.home, cli.environment()) as process:
            time.sleep(chance.uniform(0.3, 1) * duration)
            process.kill()
        now = {path: data for path, data in contents(cli.home).items() if path in after}
        assert before.keys() <= now.keys()
        assert [
            path for path, data in now.items() if data not in (before.get(path), after[path])
        ] == []
        changed = {path for path, data in now.items() if data != before.get(path)}
        assert not changed or own in changed
        if number % 2:
            assert cli("setup", "--yes").returncode == 0
            assert {path: contents(cli.home)[path] for path in after} == after
        else:
            with launcher.begin(["setup", "--undo"], cli.home, cli.environment()) as process:
                time.sleep(chance.uniform(0.3, 1) * duration)
                process.kill()
        assert cli("setup", "--undo").returncode == 0
        assert {path: data for path, data in contents(cli.home).items() if path in after} == before

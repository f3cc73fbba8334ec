"""An edited configuration is noticed: upstream:live."""

import json
import resource
from pathlib import Path

import pytest

from tests.support import trust
from toolscript.config import locations
from toolscript.config import servers as configuration
from toolscript.config.follower import RETRY_S, Follower
from toolscript.config.servers import Config
from toolscript.config.trust import TrustStore

GOOD = {"command": "uvx"}


def write(path: Path, **servers: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    trust(path.parent.parent / "data", path)


def follower(cwd: Path, home: Path, retry_s: float = RETRY_S) -> Follower:
    environ, store = {"HOME": str(home)}, TrustStore(cwd.parent / "data")

    def watched() -> tuple[Path, ...]:
        return locations.watched(locations.locate(None, cwd, environ), store.data_dir)

    def load() -> Config:
        return configuration.load_config(None, cwd, environ, store)

    return Follower(load(), watched, load, retry_s)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".toolscript.json"


@pytest.fixture
def followed(tmp_path: Path, project: Path) -> Follower:
    """A follower of the project's file; there may come to be one of the user's."""
    write(project, a=GOOD)
    return follower(project.parent, tmp_path / "home")


def names(config: Config | None) -> list[str]:
    assert config is not None
    return [spec.name for spec in config.servers]


@pytest.mark.requirement("upstream:live")
def test_an_edit_is_handed_over_once(project: Path, followed: Follower) -> None:
    assert followed.poll() is None
    write(project, a=GOOD, b=GOOD)
    assert names(followed.poll()) == ["a", "b"]
    assert followed.poll() is None


def test_a_file_that_appears_or_goes_counts(
    tmp_path: Path, project: Path, followed: Follower
) -> None:
    """upstream:live: the user's beside the project's."""
    user = tmp_path / "home" / ".toolscript.json"
    write(user, c=GOOD)
    assert names(followed.poll()) == ["a", "c"]
    user.unlink()
    assert names(followed.poll()) == ["a"]


@pytest.mark.parametrize("broken", ["", '{"mcpServers": {"a"', "[]"])
def test_what_cannot_be_read_changes_nothing_and_is_told_once(
    project: Path, followed: Follower, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """upstream:live: a file that is being written, or has a mistake."""
    project.write_text(broken, "utf-8")
    assert followed.poll() is None
    assert followed.poll() is None
    assert str(project) in followed.problem
    assert len(caplog.records) == 1
    write(project, b=GOOD)
    assert names(followed.poll()) == ["b"]
    assert followed.problem == ""


def test_a_file_that_is_deleted_changes_nothing(project: Path, followed: Follower) -> None:
    project.unlink()
    assert followed.poll() is None
    assert "no .toolscript.json" in followed.problem
    write(project, b=GOOD)
    assert names(followed.poll()) == ["b"]
    assert followed.problem == ""


def test_another_gateways_configuration_is_not_taken_over(tmp_path: Path, project: Path) -> None:
    """upstream:live: a project's file that appears makes another configuration of it."""
    write(tmp_path / "home" / ".toolscript.json", a=GOOD)
    (tmp_path / "project").mkdir()
    followed = follower(project.parent, tmp_path / "home")
    write(project, b=GOOD)
    assert followed.poll() is None
    assert followed.problem.startswith(f"the configuration would now be {project}, which is")


def test_a_file_that_is_back_as_it_was_is_no_problem(project: Path, tmp_path: Path) -> None:
    """upstream:live: as after a remount, with nothing that has changed."""
    write(project, a=GOOD)
    followed = follower(project.parent, tmp_path / "home", retry_s=0)
    followed.poll()
    away = project.with_suffix(".away")
    project.rename(away)
    assert followed.poll() is None
    assert followed.problem
    away.rename(project)
    assert followed.poll() is None
    assert followed.problem == ""


def test_a_change_that_cannot_be_read_at_first_is_read_later(project: Path, tmp_path: Path) -> None:
    """upstream:live: a failure of the moment leaves the file as it is."""
    write(project, a=GOOD)
    followed = follower(project.parent, tmp_path / "home", retry_s=0)
    followed.poll()
    write(project, b=GOOD)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        assert followed.poll() is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "Too many open files" in followed.problem
    assert names(followed.poll()) == ["b"]

"""The image's definition: what a linter says, and that what it names exists."""

import re
from pathlib import Path

import pytest

from tests.deploy.shipped import (
    DEPLOY,
    DOCKERFILE,
    PORT,
    USER,
    Instruction,
    check_arguments,
    program,
    stages,
    unknown_variables,
)
from tests.support import ROOT

TARGETS = ("gateway", "stdio")


def lineage(target: str) -> list[Instruction]:
    """The instructions of a target and of the stages that it is made from, in order."""
    found = stages()
    own = found[target]
    parent = own[0].rest.partition(" ")[0]
    return (lineage(parent) if parent in found else []) + own


def last(target: str, word: str) -> Instruction:
    """The instruction that counts, of those with this word."""
    return [each for each in lineage(target) if each.word == word][-1]


def assignments(instruction: Instruction) -> dict[str, str]:
    """The names and values of an ENV, an ARG or a LABEL."""
    pairs = re.findall(r'([\w.]+)=("[^"]*"|\S+)', instruction.rest)
    return {name: value.strip('"') for name, value in pairs}


def pins(name: str) -> dict[str, str]:
    """The packages of a file of requirements, with their versions and markers."""
    text = (ROOT / "requirements" / name).read_text("utf-8")
    return dict(re.findall(r"^([\w-]+)==(.*?) \\$", text, re.MULTILINE))


@pytest.mark.requirement("deploy:image")
def test_the_linter_finds_nothing() -> None:
    done = program("hadolint", DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.requirement("deploy:image")
@pytest.mark.parametrize("target", TARGETS)
def test_it_runs_as_a_user_without_rights(target: str) -> None:
    assert last(target, "USER").rest == f"{USER}:{USER}"


@pytest.mark.parametrize("target", TARGETS)
def test_it_starts_a_gateway_in_the_foreground(target: str) -> None:
    assert last(target, "ENTRYPOINT").listed == ["toolscript"]
    arguments = last(target, "CMD").listed
    assert "--foreground" in arguments
    check_arguments(arguments)
    assert last(target, "EXPOSE").rest == str(PORT)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_written_is_written_to_the_volume(target: str) -> None:
    environment = assignments(last(target, "ENV"))
    assert unknown_variables(environment) == set()
    volume = last(target, "VOLUME").rest
    assert Path(environment["TOOLSCRIPT_DATA_DIR"]).is_relative_to(volume)
    assert environment["HOME"] == volume


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    rules = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").split()
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    copied = {
        source
        for stage in stages().values()
        for each in stage
        if each.word == "COPY" and "--from" not in each.rest
        for source in each.rest.split()[:-1]
    }
    assert {"src", "pyproject.toml"} <= copied
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert copied == set(kept)


@pytest.mark.requirement("deploy:image")
def test_it_has_the_packages_that_are_tested() -> None:
    image, tested = pins("image.txt"), pins("dev.txt")
    assert {"asyncpg", "prometheus-client", "opentelemetry-sdk"} <= set(image)
    assert set(pins("runtime.txt")) <= set(image)
    assert {name: tested.get(name) for name in image} == image
    assert sum("--require-hashes" in each.rest for each in stages()["build"]) == 1

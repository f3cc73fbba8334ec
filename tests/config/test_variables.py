"""Variables in the spellings of several clients."""

from dataclasses import replace
from pathlib import Path

import pytest

from toolscript.config.variables import MAX_CHARS, MAX_DEPTH, VariableError, Variables
from toolscript.types import PROJECT

VARIABLES = Variables(
    {"SET": "value", "EMPTY": "", "HOME": "/home/ana"}, {"OWN": "own", "SET": "mine"}
)

KEEPING = replace(VARIABLES, may_keep=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a-${env:SET}", "a-mine"),
        ("${OWN}", "own"),
        ("{env:SET}", "mine"),
        ("${UNSET:-${ALSO:-x}}y", "xy"),
        ("${UNSET:-${OWN}}", "own"),
        ('${UNSET:-{"a": {}}}', '{"a": {}}'),
        ("${UNSET:-{}", "{"),
        ("${EMPTY:-x}", "x"),
        ("${SET:?why}", "mine"),
        ("$${SET}", "${SET}"),
        ("$SET %SET% {SET} $", "$SET %SET% {SET} $"),
        ("${workspaceFolder}/x", f"{PROJECT}/x"),
        ("${PROJECT}", PROJECT),
        ("${UNSET:-${PROJECT}}", PROJECT),
        ("${userHome}${/}x", "/home/ana/x"),
    ],
)
def test_a_variable_is_replaced(text: str, value: str) -> None:
    assert VARIABLES.expand(text) == value
    assert KEEPING.expand(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${UNSET}", "needs ${UNSET}, which is not set in the environment"),
        ("{env:UNSET}", "needs ${UNSET}, which is not set"),
        ("${UNSET:?s3cret why}", "needs ${UNSET}, which is not set"),
        ("${UNSET:-${ALSO}}", "needs ${ALSO}, which is not set"),
        ("Bearer ${input:api-key}", "has ${input:api}, which is no variable here; write ${NAME}"),
        ("${config:a.b}", "has ${config:a.b}, which is no variable here"),
        ("${command:x}", "has ${command:x}, which is no variable here"),
        ("${file:/x}", "has ${file:/x}, which is no variable here"),
        ("{file:/none}", "has {file:…}, but /none cannot be read: "),
    ],
)
def test_what_another_client_would_replace_is_refused(text: str, message: str) -> None:
    for variables in (VARIABLES, KEEPING):
        with pytest.raises(VariableError) as caught:
            variables.expand(text)
        assert str(caught.value).startswith(message.replace("api}", "api-key}", 1))
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["${MY-KEY}", "${ SET }", "${X%%.*}", "`${process.pid}`", "${}", "${1}", "${SET", "${a b}"],
)
def test_a_programs_own_text_stays_among_the_arguments_only(text: str) -> None:
    """A key with a hole in it would be sent to a server."""
    assert KEEPING.expand(text) == text
    with pytest.raises(VariableError):
        VARIABLES.expand(text)


def test_defaults_are_not_followed_without_end() -> None:
    nested = "x"
    for _ in range(MAX_DEPTH):
        nested = "${U:-" + nested + "}"
    assert VARIABLES.expand(nested) == "x"
    with pytest.raises(VariableError, match="too many defaults"):
        VARIABLES.expand("${U:-" + nested + "}")
    with pytest.raises(VariableError):
        VARIABLES.expand("${U:-" + "x" * MAX_CHARS + "}")


@pytest.mark.parametrize("piece", ["${", "$${", "${{", "${}{", "{env:", "${A:-", "${{}", "${{{{}}"])
def test_no_text_takes_long(piece: str) -> None:
    """A megabyte: with the square of its length as steps the test would not end in time."""
    KEEPING.expand(piece * (1_000_000 // len(piece)))


def test_only_what_the_environment_has_may_be_secret() -> None:
    variables = Variables({"KEY": "k3y", "HOME": "/h"}, {"OWN": "own"})
    variables.expand("${KEY}${OWN}${HOME}${UNSET:-x}")
    assert variables.hidden == {"k3y"}


def test_the_text_in_a_file_may_be_secret(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n k3y \n", "utf-8")
    variables = Variables({}, folder=tmp_path)
    assert variables.expand(f"{{file:key}}, {{file:{tmp_path}/key}}") == "k3y, k3y"
    assert variables.hidden == {"k3y"}

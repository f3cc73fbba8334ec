"""M8: what is secret in a configuration comes out at no door, in no spelling."""

import pytest

from tests.hostile.redaction_corpus import (
    CASES,
    HARMLESS_ENTRY,
    READABLE,
    UNKNOWN,
    VARIABLES,
    Case,
    leaked,
    spellings,
)
from toolscript.config.entry import EntryError, Source, server
from toolscript.text.redaction import redact

NAMED = {case.name: case for case in CASES}


def shown(case: Case) -> dict[str, str]:
    """What is made of every line that holds the secret; of no valid entry, what is said of it."""
    start = {} if "url" in case.more else {"command": "some-server", "args": list(case.args)}
    try:
        spec = server("s", {**start, "env": case.env, **case.more}, Source(VARIABLES))
    except EntryError as mistake:
        return {"mistake": str(mistake)}
    return {how: redact(line, spec.secrets) for how, line in spellings(case.secret).items()}


def test_m8_the_corpus_is_large_and_has_no_case_twice() -> None:
    assert len(NAMED) == len(CASES) >= 60
    assert len(READABLE) >= 20


@pytest.mark.parametrize("name", NAMED)
def test_m8_no_spelling_of_a_stated_secret_is_shown(name: str) -> None:
    case = NAMED[name]
    for how, line in shown(case).items():
        assert not leaked(case.secret, line), (how, line)


@pytest.mark.parametrize("name", UNKNOWN)
def test_m8_what_has_the_shape_of_a_secret_is_blanked(name: str) -> None:
    line, secret = UNKNOWN[name]
    assert secret not in redact(line, ())
    assert "***" in redact(line, ())


@pytest.mark.parametrize("line", READABLE)
def test_m8_messages_without_a_secret_stay_readable(line: str) -> None:
    assert redact(line, ()) == line
    assert redact(line, server("s", HARMLESS_ENTRY, Source({})).secrets) == line

from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.config.settings import OPTION, OPTIONS, Option, load_settings
from toolscript.errors import RangeError

RANGED = [option for option in OPTIONS if option.bounds]


def test_no_two_options_share_a_name_a_variable_or_a_flag() -> None:
    for column in ("name", "env", "flag"):
        used = [getattr(option, column) for option in OPTIONS if getattr(option, column)]
        assert len(set(used)) == len(used), column


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_an_option_is_well_formed(option: Option) -> None:
    assert option.help.strip()
    assert option.env is not None
    assert option.env.startswith("TOOLSCRIPT_")
    assert option.flag is None or option.flag.startswith("--")
    assert option.kind in {str, int, float, bool, Path}
    assert option.default is None or isinstance(option.default, option.kind)
    assert option.parse(option.default, "default") == option.default


@pytest.mark.requirement("search:threshold", "search:limit", "cache:place")
def test_the_defaults_are_those_of_the_specification() -> None:
    found = load_settings({}, {"HOME": "/home/ana"})
    assert (found.search.limit, found.search.threshold, found.search.alpha) == (3, 0.35, 0.7)
    assert (found.embedding.model, found.embedding.fallback) == ("bundled", "bundled")
    assert (found.embedding.device, found.paths.no_cache) == ("auto", False)
    assert found.paths.data_dir == Path("/home/ana/.toolscript")
    assert found.paths.config is None


VALUES: dict[str, tuple[object, str, object]] = {
    # flag, environment, and what the environment means
    "config": (Path("a.json"), "b.json", Path("b.json")),
    "data_dir": (Path("/a"), "/b", Path("/b")),
    "gateway_url": ("http://a", "http://b", "http://b"),
    "gateway_token": ("ts_a", "ts_b", "ts_b"),
    "limit": (7, "8", 8),
    "threshold": (0.1, "0.2", 0.2),
    "alpha": (0.1, "1", 1.0),
    "steps": ("none", "none", "none"),
    "model": ("a", "b", "b"),
    "trusted_models": ("a/b", "c/d,e/f", "c/d,e/f"),
    "fallback": ("fuzzy", "fuzzy", "fuzzy"),
    "device": ("cpu", "gpu", "gpu"),
    "embeddings_key": ("a", "b", "b"),
    "no_cache": (True, "true", True),
    "no_learning": (True, "true", True),
    "connect_timeout_s": (1.0, "2.5", 2.5),
    "call_timeout_s": (1.0, "2.5", 2.5),
    "idle_timeout_s": (1.0, "2.5", 2.5),
    "max_processes": (1, "2", 2),
    "sandbox": (Path("/a"), "/b", Path("/b")),
    "exposure": ("all", "two-phase", "two-phase"),
    "llm_url": ("http://a/v1", "https://b/v1", "https://b/v1"),
    "llm_model": ("a", "b", "b"),
    "llm_key": ("a", "b", "b"),
    "changed_tools": ("review", "trust", "trust"),
    "approval_timeout_s": (1.0, "2.5", 2.5),
    "profile": ("a", "b", "b"),
    "log_level": ("info", "debug", "debug"),
    "log_format": ("json", "json", "json"),
    "scripts": (True, "true", True),
    "secret_key": ("a" * 32, "b" * 32, "b" * 32),
    "secret_key_previous": ("a" * 32, "b" * 32, "b" * 32),
    "database": ("postgresql://a/b", "postgres://c/d", "postgres://c/d"),
    "host": ("::1", "0.0.0.0", "0.0.0.0"),  # noqa: S104 - only read
    "port": (1, "0", 0),
    "oauth": (True, "true", True),
    "public_url": ("https://a", "https://b", "https://b"),
    "tls_cert": (Path("/a"), "/b", Path("/b")),
    "tls_key": (Path("/a"), "/b", Path("/b")),
}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_flag_wins_over_the_environment_and_that_over_the_default(option: Option) -> None:
    flag, raw, meant = VALUES[option.name]
    environ = {"HOME": "/home/ana", option.env or "": raw}
    value_of = attrgetter(".".join(option.place))
    assert value_of(load_settings({option.name: flag}, environ)) == flag
    assert value_of(load_settings({option.name: None}, environ)) == meant
    default = value_of(load_settings({}, {"HOME": "/home/ana"}))
    if option.name != "data_dir":
        assert default == option.default
    assert value_of(load_settings({}, environ | {option.env or "": "  "})) == default


@pytest.mark.parametrize("option", RANGED, ids=lambda option: option.name)
def test_a_number_outside_its_range_is_refused_naming_value_range_and_source(
    option: Option,
) -> None:
    assert option.bounds
    low, high = option.bounds
    for bound in option.bounds:
        assert option.parse(option.kind(bound), "x") == bound
    for wrong in (low - 1, high + 1):
        value = option.kind(wrong)
        with pytest.raises(RangeError) as caught:
            load_settings({}, {"HOME": "/", option.env or "": str(value)})
        message = str(caught.value)
        expected = (str(value), f"from {low:g} to {high:g}", str(option.env))
        assert all(part in message for part in expected), message


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("threshold", "nan", "threshold is nan; it must be from 0 to 1"),
        ("threshold", "inf", "threshold is inf; it must be from 0 to 1"),
        ("threshold", "half", "threshold is 'half'; expected a number"),
        ("limit", "2.5", "limit is '2.5'; expected a whole number"),
        ("no_cache", "maybe", "no_cache is 'maybe'; expected true or false"),
        ("fallback", "none", "fallback is 'none'; choose one of bundled, fuzzy"),
        (
            "gateway_url",
            "localhost:7337",
            "gateway_url is 'localhost:7337'; expected http://… or https://…",
        ),
        (
            "secret_key",
            "hunter2",
            "secret_key has 7 characters; it needs at least 32, as from: openssl rand -base64 32",
        ),
        (
            "gateway_url",
            "ftp://ana:secret@host",
            "gateway_url is 'ftp://***@host'; expected http://… or https://…",
        ),
        ("gateway_url", "ana:secret@host", "gateway_url is 'host'; expected http://… or https://…"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_was_expected(
    name: str, raw: str, message: str
) -> None:
    with pytest.raises(RangeError) as caught:
        OPTION[name].parse(raw, name)
    assert str(caught.value) == message


@pytest.mark.requirement("cache:off")
@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        *((text, True) for text in ("1", "TRUE", "yes", "On")),
        *((text, False) for text in ("0", "False", "no", "off", "")),
    ],
)
def test_truth_is_written_in_several_ways(raw: str, *, meant: bool) -> None:
    assert OPTION["no_cache"].parse(raw, "x") is meant


def test_a_flag_is_named_as_it_is_typed() -> None:
    with pytest.raises(RangeError, match=r"^--limit is 0; it must be from 1 to 100$"):
        load_settings({"limit": 0}, {"HOME": "/"})


@given(st.sampled_from(OPTIONS), st.text(alphabet=st.characters(exclude_characters="\0")))
def test_any_text_is_either_a_value_in_range_or_refused(option: Option, raw: str) -> None:
    try:
        value = option.parse(raw, option.name)
    except RangeError:
        return
    assert isinstance(value, option.kind)
    assert option.bounds is None or option.bounds[0] <= value <= option.bounds[1]
    assert not option.choices or value in option.choices


def test_what_is_secret_is_not_printed() -> None:
    secrets = dict.fromkeys(map(str, ("gateway_token", "embeddings_key", "llm_key")), "hunter2")
    assert "hunter2" not in repr(load_settings(secrets, {"HOME": "/"}))

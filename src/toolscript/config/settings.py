"""Reads the settings: the value of every option of `setting_groups`.

The command line, the settings reference in the documentation and the checks are made from
the groups of `Settings`. A flag wins over the environment, the environment over the default.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain, starmap
from pathlib import Path
from typing import Any, get_args

from toolscript.config.setting_groups import (
    CallSettings,
    ClientSettings,
    DatabaseSettings,
    EmbeddingSettings,
    GatewaySettings,
    LlmSettings,
    PathSettings,
    SearchSettings,
    ServerSettings,
)
from toolscript.errors import RangeError
from toolscript.storage.atomic_files import expanded

MAX_QUERY_CHARS = 8192
"""Longer queries are refused: no model reads further."""
_MAX_QUOTED_CHARS = 60
"""Characters of a wrong value that a message quotes."""
_MAX_SHOWN = 10**15
"""Greater upper bounds are those of the machine, and are not shown."""
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("", "0", "false", "no", "off"), False),
}


@dataclass(frozen=True, slots=True)
class Option:
    """An option: where its value comes from, and which values it may have."""

    name: str
    kind: type
    default: Any
    help: str
    env: str | None = None
    flag: str | None = None
    bounds: tuple[float, float] | None = None
    """The least and the greatest value of a number."""
    choices: tuple[str, ...] = ()
    min_chars: int = 0
    """The least length of a secret text."""
    schemes: tuple[str, ...] = ()
    """An address has to begin with one of these."""
    place: tuple[str, str] = ("", "")
    """The group of `Settings` and the field of that group that have the value."""

    def parse(self, raw: object, source: str) -> Any:
        """Returns ``raw`` in this option's type; raises `RangeError` if it does not fit.

        ``source`` is the flag or variable that the message names.
        """
        value = self._convert(raw, source)
        self._check_length(value, source)
        shown = str(value)[:_MAX_QUOTED_CHARS]
        if self.choices and value not in self.choices:
            raise RangeError(f"{source} is {shown!r}; choose one of {', '.join(self.choices)}")
        if self.bounds and not self.bounds[0] <= value <= self.bounds[1]:
            low, high = self.bounds
            allowed = f"at least {low:g}" if high > _MAX_SHOWN else f"from {low:g} to {high:g}"
            raise RangeError(f"{source} is {shown}; it must be {allowed}")
        if self.schemes and value is not None and not value.casefold().startswith(self.schemes):
            expected = " or ".join(f"{scheme}…" for scheme in self.schemes)
            raise RangeError(f"{source} is {_without_login(value)!r}; expected {expected}")
        return value

    def _check_length(self, value: Any, source: str) -> None:
        if isinstance(value, str) and len(value) < self.min_chars:  # not shown: it is a secret
            raise RangeError(
                f"{source} has {len(value)} characters; it needs at least {self.min_chars}, "
                "as from: openssl rand -base64 32"
            )

    def _convert(self, raw: object, source: str) -> Any:
        if raw is None or isinstance(raw, self.kind):
            return raw
        text = str(raw).strip()
        if self.kind is Path:
            return expanded(text)
        try:
            return _BOOLEANS[text.casefold()] if self.kind is bool else self.kind(text)
        except (KeyError, ValueError):
            names = {bool: "true or false", int: "a whole number", float: "a number"}
            shown = text[:_MAX_QUOTED_CHARS]
            raise RangeError(f"{source} is {shown!r}; expected {names[self.kind]}") from None


def _without_login(address: str) -> str:
    """Returns a wrong address for a message, without user and password."""
    from toolscript.text.redaction import redact  # noqa: PLC0415 - only a mistake needs it

    shown = redact(address, ()) if "://" in address else address.rpartition("@")[2]
    return shown[:_MAX_QUOTED_CHARS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The value of every option, in groups: made by `load_settings`, passed on to ``bootstrap``.

    A part of the application is given its group.
    """

    paths: PathSettings
    """The files that are read and written."""
    client: ClientSettings
    """The gateway that a command uses."""
    search: SearchSettings
    """The weights and limits of searches."""
    embedding: EmbeddingSettings
    """The model that computes embeddings."""
    gateway: GatewaySettings
    """The servers that a gateway connects to."""
    calls: CallSettings
    """The limits of calls, and who is asked about them."""
    llm: LlmSettings
    """The language model of ``toolscript ask``."""
    server: ServerSettings
    """The address, the log and the keys of a gateway."""
    database: DatabaseSettings
    """The database that several gateways share."""


def _options(group: str, kind: Any) -> Iterator[Option]:
    for setting in fields(kind):
        value_type: Any = next(iter(get_args(setting.type)), setting.type)  # of `Path | None`: Path
        named: dict[str, Any] = {"name": setting.name} | dict(setting.metadata)
        place = (group, setting.name)
        yield Option(kind=value_type, default=setting.default, place=place, **named)


_GROUPS: dict[str, Any] = {group.name: group.type for group in fields(Settings)}
OPTIONS = tuple(chain.from_iterable(starmap(_options, _GROUPS.items())))
OPTION = {option.name: option for option in OPTIONS}


def load_settings(flags: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Settings:
    """Returns the settings: each from its flag, else from the environment, else its default.

    Args:
        flags: Values by the names of their options; None if a flag was not given.
        environ: The environment's variables.

    Raises:
        RangeError: A value is of the wrong type or outside its range.
    """
    groups: dict[str, dict[str, Any]] = {group: {} for group in _GROUPS}
    for option in OPTIONS:
        group, attribute = option.place
        groups[group][attribute] = _value(option, flags.get(option.name), environ)
    if groups["paths"]["data_dir"] is None:
        groups["paths"]["data_dir"] = Path(environ.get("HOME") or Path.home()) / ".toolscript"
    return Settings(**{group: kind(**groups[group]) for group, kind in _GROUPS.items()})


def _value(option: Option, flag: object, environ: Mapping[str, str]) -> Any:
    if flag is not None:
        return option.parse(flag, option.flag or option.name)
    if option.env and environ.get(option.env, "").strip():
        return option.parse(environ[option.env], option.env)
    return option.default

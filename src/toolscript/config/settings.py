"""Every option once.

The table `OPTIONS` is the only place where an option's name, type, default,
range, environment variable, flag and meaning are written down. The command
line, the settings reference in the documentation and the checks come from it.
A flag wins over the environment, the environment over the default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from toolscript.errors import RangeError
from toolscript.storage.atomic_files import expanded
from toolscript.text import redact

MAX_QUERY_CHARS = 8192
"""Longer queries are refused: no model reads that far, and a door stays cheap to knock at."""

_SHOWN = 60
"""Characters of a wrong value that a message quotes."""


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table."""

    name: str
    kind: type
    default: Any
    help: str
    env: str | None = None
    flag: str | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    """How an address may begin."""

    def parse(self, raw: object, source: str) -> Any:
        """The value of ``raw`` in this option's type and range, or a `RangeError`."""
        value = self._convert(raw, source)
        if self.choices and value not in self.choices:
            raise RangeError(
                f"{source} is {str(value)[:_SHOWN]!r}; choose one of {', '.join(self.choices)}"
            )
        if self.schemes:
            self._check_scheme(value, source)
        if self.low is not None and self.high is not None and not self.low <= value <= self.high:
            raise RangeError(
                f"{source} is {str(value)[:_SHOWN]}; it must be from {self.low:g} to {self.high:g}"
            )
        return value

    def _convert(self, raw: object, source: str) -> Any:
        if raw is None or isinstance(raw, self.kind):
            return raw
        text = str(raw).strip()
        if self.kind is bool:
            return self._truth(text, source)
        if self.kind is Path:
            return expanded(text)
        try:
            return self.kind(text)
        except ValueError:
            expected = {"int": "a whole number", "float": "a number"}[self.kind.__name__]
            raise RangeError(f"{source} is {text[:_SHOWN]!r}; expected {expected}") from None

    def _check_scheme(self, address: str | None, source: str) -> None:
        if address is not None and not address.casefold().startswith(self.schemes):
            expected = " or ".join(f"{scheme}…" for scheme in self.schemes)
            raise RangeError(f"{source} is {_without_login(address)!r}; expected {expected}")

    @staticmethod
    def _truth(text: str, source: str) -> bool:
        known = {"1": True, "true": True, "yes": True, "on": True}
        known |= {"": False, "0": False, "false": False, "no": False, "off": False}
        if text.casefold() not in known:
            raise RangeError(f"{source} is {text[:_SHOWN]!r}; expected true or false")
        return known[text.casefold()]


def _without_login(address: str) -> str:
    """A wrong address, to be shown: who logs in, and with what, is left out."""
    shown = redact(address, ()) if "://" in address else address.rpartition("@")[2]
    return shown[:_SHOWN]


OPTIONS: tuple[Option, ...] = (
    Option(
        "config",
        Path,
        None,
        "Configuration file, as any MCP client writes it.",
        "TOOLSCRIPT_CONFIG",
        "--config",
    ),
    Option(
        "data_dir",
        Path,
        None,
        "Where caches, snapshots and logs live.  [default: ~/.toolscript]",
        "TOOLSCRIPT_DATA_DIR",
        "--data-dir",
    ),
    Option(
        "gateway_url",
        str,
        None,
        "Talk to the gateway at this address.",
        "TOOLSCRIPT_GATEWAY_URL",
        None,
        schemes=("http://", "https://"),
    ),
    Option(
        "gateway_token",
        str,
        None,
        "The token to show to that gateway.",
        "TOOLSCRIPT_GATEWAY_TOKEN",
        None,
    ),
    Option(
        "limit",
        int,
        3,
        "At most this many results.",
        "TOOLSCRIPT_SEARCH_LIMIT",
        "--limit",
        low=1,
        high=100,
    ),
    Option(
        "threshold",
        float,
        0.35,
        "Least confidence a result must have.",
        "TOOLSCRIPT_SEARCH_THRESHOLD",
        "--threshold",
        low=0,
        high=1,
    ),
    Option(
        "alpha",
        float,
        0.7,
        "Weight of meaning against spelling.",
        "TOOLSCRIPT_SEARCH_ALPHA",
        None,
        low=0,
        high=1,
    ),
    Option(
        "model",
        str,
        "Xenova/bge-small-en-v1.5",
        "Embedding model: a repository on the hub, a folder, an address, or bundled.",
        "TOOLSCRIPT_SEARCH_MODEL",
        "--model",
    ),
    Option(
        "fallback",
        str,
        "bundled",
        "What answers when the model asked for cannot.",
        "TOOLSCRIPT_SEARCH_FALLBACK",
        None,
        choices=("bundled", "fuzzy"),
    ),
    Option(
        "device",
        str,
        "auto",
        "Where the model runs: auto takes a GPU where one works, gpu insists on it.",
        "TOOLSCRIPT_SEARCH_DEVICE",
        None,
        choices=("auto", "cpu", "gpu"),
    ),
    Option(
        "embeddings_key",
        str,
        None,
        "Key for the embedding server, where the model is an address.",
        "TOOLSCRIPT_EMBEDDINGS_KEY",
        None,
    ),
    Option(
        "no_cache",
        bool,
        default=False,
        help="Neither read nor write the embedding cache.",
        env="TOOLSCRIPT_SEARCH_NO_CACHE",
    ),
    Option(
        "no_learning",
        bool,
        default=False,
        help="Neither learn from calls nor use what was learned.",
        env="TOOLSCRIPT_NO_LEARNING",
    ),
    Option(
        "threads",
        int,
        1,
        "Threads the embedding model may use.",
        "TOOLSCRIPT_SEARCH_THREADS",
        None,
        low=1,
        high=64,
    ),
    Option(
        "connect_timeout_s",
        float,
        30.0,
        "How long a server may take to start, in seconds.",
        "TOOLSCRIPT_CONNECT_TIMEOUT",
        None,
        low=0.1,
        high=600,
    ),
    Option(
        "call_timeout_s",
        float,
        300.0,
        "How long a tool may be silent while it works, in seconds.",
        "TOOLSCRIPT_CALL_TIMEOUT",
        None,
        low=0.1,
        high=86400,
    ),
    Option(
        "message_limit_mib",
        int,
        8,
        "How large one message of a server may be, in MiB.",
        "TOOLSCRIPT_MESSAGE_LIMIT",
        None,
        low=1,
        high=16,
    ),
    Option(
        "ping_interval_s",
        float,
        15.0,
        "How often a connected server is asked whether it lives.",
        "TOOLSCRIPT_PING_INTERVAL",
        None,
        low=0.1,
        high=3600,
    ),
    Option(
        "exposure",
        str,
        "search",
        "What models see: the search, tool_search and what it finds, or every tool.",
        "TOOLSCRIPT_EXPOSURE",
        "--exposure",
        choices=("search", "two-phase", "all"),
    ),
    Option(
        "sandbox",
        Path,
        None,
        "Folder below which Vector.VectorUpdate reads.  [default: the working directory]",
        "TOOLSCRIPT_SANDBOX",
    ),
    Option(
        "llm_url",
        str,
        None,
        "Language model to ask, at an address that speaks OpenAI's chat completions.",
        "TOOLSCRIPT_LLM_URL",
        "--llm-url",
        schemes=("http://", "https://"),
    ),
    Option(
        "llm_model",
        str,
        None,
        "Name of that model.",
        "TOOLSCRIPT_LLM_MODEL",
        "--llm-model",
    ),
    Option(
        "llm_key",
        str,
        None,
        "Key for that address.",
        "TOOLSCRIPT_LLM_KEY",
    ),
    Option(
        "poll_interval_s",
        float,
        60.0,
        "How often a server that does not tell of changes is listed again.",
        "TOOLSCRIPT_POLL_INTERVAL",
        None,
        low=0.1,
        high=86400,
    ),
    Option(
        "log_level",
        str,
        "warning",
        "What a gateway logs; info has a line for each request.",
        "TOOLSCRIPT_LOG_LEVEL",
        None,
        choices=("debug", "info", "warning", "error"),
    ),
    Option(
        "log_format",
        str,
        "text",
        "How a gateway logs: text for people, json for programs.",
        "TOOLSCRIPT_LOG_FORMAT",
        None,
        choices=("text", "json"),
    ),
    Option(
        "exec_timeout_s",
        float,
        60.0,
        "How long a script may run, in seconds.",
        "TOOLSCRIPT_EXEC_TIMEOUT",
        "--timeout",
        low=0.1,
        high=86400,
    ),
    Option(
        "exec_memory_mib",
        int,
        256,
        "How much memory a script's objects may take, in MiB.",
        "TOOLSCRIPT_EXEC_MEMORY",
        "--memory",
        low=32,
        high=65536,
    ),
    Option(
        "host",
        str,
        "127.0.0.1",
        "Address the gateway listens on.",
        "TOOLSCRIPT_HOST",
        "--host",
    ),
    Option(
        "port",
        int,
        7337,
        "Port the gateway listens on; 0 picks a free one.",
        "TOOLSCRIPT_PORT",
        "--port",
        low=0,
        high=65535,
    ),
)
OPTION = {option.name: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class Settings:
    """The options' values: made by `load_settings`, handed to ``bootstrap``, never global."""

    config: Path | None
    data_dir: Path
    gateway_url: str | None
    gateway_token: str | None
    limit: int
    threshold: float
    alpha: float
    model: str
    fallback: str
    device: str
    embeddings_key: str | None = field(repr=False)
    no_cache: bool
    no_learning: bool
    threads: int
    connect_timeout_s: float
    call_timeout_s: float
    message_limit_mib: int
    ping_interval_s: float
    exposure: str
    sandbox: Path | None
    llm_url: str | None
    llm_model: str | None
    llm_key: str | None
    poll_interval_s: float
    log_level: str
    log_format: str
    exec_timeout_s: float
    exec_memory_mib: int
    host: str
    port: int


def load_settings(flags: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """Settings from flags (None: not given), then the environment, then the defaults."""
    values: dict[str, Any] = {}
    for each in fields(Settings):
        option = OPTION[each.name]
        values[option.name] = _value(option, flags.get(option.name), environ)
    if values["data_dir"] is None:
        values["data_dir"] = Path(environ.get("HOME") or Path.home()) / ".toolscript"
    return Settings(**values)


def _value(option: Option, flag: object, environ: Mapping[str, str]) -> Any:
    if flag is not None:
        return option.parse(flag, option.flag or option.name)
    if option.env and environ.get(option.env, "").strip():
        return option.parse(environ[option.env], option.env)
    return option.default

"""The options by group: name, type, default, range, variable, flag and help of each.

`settings` reads their values.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIN_KEY_CHARS = 32
"""Shorter secret keys could be guessed."""
CLIENT_DOCUMENT = "/oauth/client.json"
"""The path at which a gateway describes itself to the servers that it logs in to."""
_HTTP = ("http://", "https://")


def _setting(default: Any, help: str, env: str, flag: str | None = None, **more: Any) -> Any:  # noqa: A002 - as in Option
    """Returns a field of a group; ``more`` are further fields of its `Option`, and ``secret``.

    An option whose name is not that of the field gives it as ``name``.
    """
    secret = more.pop("secret", False)
    metadata = {"help": help, "env": env, "flag": flag, **more}
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSettings:
    """The files that are read and written."""

    config: Path | None = _setting(
        None,
        "Configuration file with mcpServers, as MCP clients write it.",
        "TOOLSCRIPT_CONFIG",
        "--config",
    )
    data_dir: Path = _setting(
        None,
        "Folder for caches, snapshots and logs.  [default: ~/.toolscript]",
        "TOOLSCRIPT_DATA_DIR",
        "--data-dir",
    )
    no_cache: bool = _setting(
        default=False,
        help="Neither read nor write the embedding cache.",
        env="TOOLSCRIPT_SEARCH_NO_CACHE",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The gateway that a command uses, and as whom."""

    url: str | None = _setting(
        None,
        "Address of the gateway to use.",
        "TOOLSCRIPT_GATEWAY_URL",
        schemes=_HTTP,
        name="gateway_url",
    )
    token: str | None = _setting(
        None,
        "Token to send to that gateway.",
        "TOOLSCRIPT_GATEWAY_TOKEN",
        secret=True,
        name="gateway_token",
    )
    profile: str | None = _setting(
        None,
        "Profile of the configuration whose permissions hold as well.",
        "TOOLSCRIPT_PROFILE",
        "--profile",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How searches rank."""

    limit: int = _setting(
        3, "Maximum number of results.", "TOOLSCRIPT_SEARCH_LIMIT", "--limit", bounds=(1, 100)
    )
    threshold: float = _setting(
        0.35,
        "Minimum score of a result.",
        "TOOLSCRIPT_SEARCH_THRESHOLD",
        "--threshold",
        bounds=(0, 1),
    )
    alpha: float = _setting(
        0.7,
        "Weight of the semantic score; the rest is that of the lexical score.",
        "TOOLSCRIPT_SEARCH_ALPHA",
        bounds=(0, 1),
    )
    steps: str = _setting(
        "all",
        "Whether named steps refine the weighted mean; none makes the mean the confidence.",
        "TOOLSCRIPT_SEARCH_STEPS",
        "--steps",
        choices=("all", "none"),
    )
    no_learning: bool = _setting(
        default=False,
        help="Neither learn from calls nor use what was learned.",
        env="TOOLSCRIPT_NO_LEARNING",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """The model that computes embeddings."""

    model: str = _setting(
        "bundled",
        "Embedding model: bundled, a repository on the hub, a folder or an address.",
        "TOOLSCRIPT_SEARCH_MODEL",
        "--model",
    )
    trusted: str | None = _setting(
        None,
        "Repositories beside the known ones whose models may be loaded, as owner/name,owner/name.",
        "TOOLSCRIPT_SEARCH_TRUSTED_MODELS",
        name="trusted_models",
    )
    fallback: str = _setting(
        "bundled",
        "What to use when the model cannot be loaded.",
        "TOOLSCRIPT_SEARCH_FALLBACK",
        choices=("bundled", "fuzzy"),
    )
    device: str = _setting(
        "auto",
        "Where the model runs: auto uses a GPU where one works, gpu requires one.",
        "TOOLSCRIPT_SEARCH_DEVICE",
        choices=("auto", "cpu", "gpu"),
    )
    key: str | None = _setting(
        None,
        "Key for the embedding server, where the model is an address.",
        "TOOLSCRIPT_EMBEDDINGS_KEY",
        secret=True,
        name="embeddings_key",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """The connections to servers."""

    connect_timeout_s: float = _setting(
        30.0,
        "How long a server may take to start, in seconds.",
        "TOOLSCRIPT_CONNECT_TIMEOUT",
        bounds=(0.1, 600),
    )
    call_timeout_s: float = _setting(
        300.0,
        "How long a tool may run without reporting progress, in seconds.",
        "TOOLSCRIPT_CALL_TIMEOUT",
        bounds=(0.1, 86400),
    )
    idle_timeout_s: float = _setting(
        600.0,
        "Seconds without a request after which a server is stopped; 0 for never.",
        "TOOLSCRIPT_IDLE_TIMEOUT",
        bounds=(0, 86400),
    )
    max_processes: int = _setting(
        40,
        "How many servers may run at a time; the longest unused one makes room. 0 for any number.",
        "TOOLSCRIPT_MAX_PROCESSES",
        bounds=(0, 10000),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """What happens before and after a call."""

    changed_tools: str = _setting(
        "hold",
        "Hold tools that say something new; note or trust changes; or review new tools, too.",
        "TOOLSCRIPT_CHANGED_TOOLS",
        choices=("hold", "note", "trust", "review"),
    )
    approval_timeout_s: float = _setting(
        60.0,
        "How long a person has to allow a call, in seconds; no answer means no.",
        "TOOLSCRIPT_APPROVAL_TIMEOUT",
        bounds=(0.1, 3600),
    )
    scripts: bool = _setting(
        default=False,
        help="Offer run_script to models: scripts that call tools, in a sandbox.",
        env="TOOLSCRIPT_SCRIPTS",
        flag="--scripts",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """The language model of `toolscript ask`."""

    url: str | None = _setting(
        None,
        "Address of the language model, an API like OpenAI's chat completions.",
        "TOOLSCRIPT_LLM_URL",
        "--llm-url",
        schemes=_HTTP,
        name="llm_url",
    )
    model: str | None = _setting(
        None,
        "Name of the language model.",
        "TOOLSCRIPT_LLM_MODEL",
        "--llm-model",
        name="llm_model",
    )
    key: str | None = _setting(
        None,
        "Key for the language model.",
        "TOOLSCRIPT_LLM_KEY",
        secret=True,
        name="llm_key",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The process of a gateway."""

    exposure: str = _setting(
        "search",
        "Tools that models see: the search, tool_search with its results, or every tool.",
        "TOOLSCRIPT_EXPOSURE",
        "--exposure",
        choices=("search", "two-phase", "all"),
    )
    host: str = _setting(
        "127.0.0.1", "Address the gateway listens on.", "TOOLSCRIPT_HOST", "--host"
    )
    port: int = _setting(
        7337,
        "Port the gateway listens on; 0 picks a free one.",
        "TOOLSCRIPT_PORT",
        "--port",
        bounds=(0, 65535),
    )
    oauth: bool = _setting(
        default=False,
        help="Let MCP clients log in by OAuth, with the owner's consent on the page.",
        env="TOOLSCRIPT_OAUTH",
        flag="--oauth",
    )
    tls_cert: Path | None = _setting(
        None, "Certificate for HTTPS, a file in PEM.", "TOOLSCRIPT_TLS_CERT", "--tls-cert"
    )
    tls_key: Path | None = _setting(
        None, "Private key of that certificate, in PEM.", "TOOLSCRIPT_TLS_KEY", "--tls-key"
    )
    public_url: str | None = _setting(
        None,
        "Address at which others reach the gateway, such as https://tools.example.com.",
        "TOOLSCRIPT_PUBLIC_URL",
        schemes=_HTTP,
    )
    log_level: str = _setting(
        "warning",
        "What a gateway logs; info has a line for each request.",
        "TOOLSCRIPT_LOG_LEVEL",
        choices=("debug", "info", "warning", "error"),
    )
    log_format: str = _setting(
        "text",
        "Format of a gateway's log: text for people, json for programs.",
        "TOOLSCRIPT_LOG_FORMAT",
        choices=("text", "json"),
    )
    secret_key: str | None = _setting(
        None,
        "Secret that all gateways with one database share: it seals logins.",
        "TOOLSCRIPT_SECRET_KEY",
        secret=True,
        min_chars=MIN_KEY_CHARS,
    )
    secret_key_previous: str | None = _setting(
        None,
        "Another such secret that counts as well, while the key is changed.",
        "TOOLSCRIPT_SECRET_KEY_PREVIOUS",
        secret=True,
        min_chars=MIN_KEY_CHARS,
    )

    @property
    def client_document(self) -> str:
        """The address at which a gateway describes itself as a client; empty if it has none."""
        url = self.public_url or ""
        is_safe = url.casefold().startswith("https://")
        return url.rstrip("/") + CLIENT_DOCUMENT if is_safe else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """The database that several gateways share."""

    url: str | None = _setting(
        None,
        "Address of the PostgreSQL database that several gateways share.",
        "TOOLSCRIPT_DATABASE",
        secret=True,
        schemes=("postgresql://", "postgres://"),
        name="database",
    )

"""Runs the gateway: serves HTTP on a socket until the process is asked to end."""

import ipaddress
import logging
import os
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import FrameType
from typing import cast
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette

from toolscript import bootstrap
from toolscript.app.application import App
from toolscript.config.access_tokens import TokenStore
from toolscript.config.secret_key import oauth_key
from toolscript.config.servers import Config
from toolscript.config.settings import ServerSettings, Settings
from toolscript.errors import ConfigError, PortInUseError, UnprotectedError
from toolscript.install_command import install_command
from toolscript.surfaces.http.routes import Pages, gateway_app
from toolscript.surfaces.mcp.request_context import Exposure
from toolscript.surfaces.server import logs
from toolscript.surfaces.server.authentication import ANY_HOST, LOOPBACK_HOSTS, TokenAuthenticator
from toolscript.surfaces.server.authorization_server import OAuthServer
from toolscript.surfaces.server.config_sources import load
from toolscript.surfaces.server.gateway_file import GatewayFile, GatewayRecord
from toolscript.surfaces.server.oauth_client_metadata import ClientDocuments
from toolscript.surfaces.server.process_memory import collect_as_usual, freeze_gc, keep_heap_small
from toolscript.surfaces.server.request_log import RequestStats
from toolscript.surfaces.server.signals import end_signals
from toolscript.version import __version__

log = logging.getLogger(__name__)
GRACE_S = 30.0
"""How long calls under way may go on once the gateway is asked to end."""
IDLE_S = 1800.0
"""A gateway that was started on demand ends after so many seconds without a client."""
_TRACE_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PUBLIC = re.compile(r"(?:https://[a-z0-9.-]+|http://(?:localhost|127\.0\.0\.1))(?::\d{1,5})?")
_STREAMS_S = 2
"""The same for streams that clients only read."""
_MAX_CONNECTIONS = 1_000
"""With more of them, or of half of the file descriptors, uvicorn answers 503."""
_MAX_HEAD_BYTES = 64 * 1024
_MAX_DESCRIPTORS = 4096
"""More than 1,000 connections and 500 servers need."""


def serve(
    settings: Settings,
    pages: Pages,
    *,
    is_open: bool = False,
    idle_s: float = 0.0,
    documents: ClientDocuments | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; then close every connection.

    Args:
        settings: The values of all options.
        pages: Gives the routes of the page.
        is_open: Whether the gateway admits every program of this machine while there is no token.
        idle_s: Seconds without a client after which it ends, if it was started on demand: for a
            client that needs one. It then takes another port where its own is taken.
        documents: Fetches the documents of OAuth clients; None fetches those on the internet.

    Raises:
        PortInUseError: The address is taken.
        UnprotectedError: Other machines could ask without a token.
        GatewayRunningError: The configuration has a gateway already.
        ConfigError: The configuration cannot be used.
        TaskDiedError: A background task has died.
    """
    logs.set_up(settings.server.log_level, settings.server.log_format)
    collect_as_usual()
    keep_heap_small()
    config = load(settings.paths)
    certificate = ""
    if settings.server.tls_cert or settings.server.tls_key:
        from toolscript.surfaces.server.tls import read_certificate  # noqa: PLC0415 - few need it

        certificate = read_certificate(settings.server)
    file = GatewayFile(settings.paths.data_dir, config.key)
    with (
        file.lock(),
        _listening(settings.server, on_demand=idle_s > 0) as listening,
        _exporting(os.environ),
    ):
        key = secrets.token_urlsafe(32)
        documents = documents or ClientDocuments()
        server = _server(
            *(settings, config, listening, key, pages, documents),
            on_demand=idle_s > 0,
            is_open=is_open,
        )
        server.idle_s = idle_s
        url = _url(listening, settings.server)
        model, pid = settings.embedding.model, os.getpid()
        options = (model, key, certificate, settings.calls.scripts, is_open)
        try:
            file.write(GatewayRecord(url, pid, __version__, *options))
            log.warning("listening on %s", url)
            _run(server, listening)
        finally:
            file.remove()


def _exporting(environ: Mapping[str, str]) -> AbstractContextManager[object]:
    """Returns what exports spans while it lasts, where the environment says where to."""
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or not any(environ.get(name, "").strip() for name in _TRACE_VARIABLES):
        return nullcontext()
    try:
        from toolscript.surfaces.server.trace_export import exporting  # noqa: PLC0415 - an extra
    except ImportError:
        log.warning(
            "traces are not exported, which needs more packages; install them with: %s",
            install_command("otel"),
        )
        return nullcontext()
    return exporting()


def _server(  # noqa: PLR0913, PLR0917 - what a gateway consists of
    settings: Settings,
    config: Config,
    listening: socket.socket,
    key: str,
    pages: Pages,
    documents: ClientDocuments,
    *,
    on_demand: bool,
    is_open: bool,
) -> "_Server":
    bound = listening.getsockname()[0]
    local = ipaddress.ip_address(bound).is_loopback
    stores = bootstrap.open_stores(settings, config.key)
    stores.join(_reachable_url(listening, settings.server))
    tokens = TokenStore(settings.paths.data_dir, config.key, stores.records("tokens"))
    public = _public_url(settings.server)
    if not local and not tokens.protected and not settings.server.oauth:
        raise UnprotectedError(
            f"on {bound} other machines could use every tool; first make a token with: "
            "toolscript token create, or listen on 127.0.0.1"
        )
    has_oauth = settings.server.oauth
    is_open = is_open and local and not public and not has_oauth
    authenticator = TokenAuthenticator(tokens, key, open_to_all=is_open, has_oauth=has_oauth)
    own_hosts = (*LOOPBACK_HOSTS, f"[{bound}]" if ":" in bound else bound)
    if public:
        own_hosts += (urlsplit(public).hostname or "",)
    address = public or (_url(listening, settings.server) if local else "")
    oauth = _oauth_server(settings, config, address, tokens, documents)
    app = bootstrap.application(
        settings, config, bootstrap.Wiring(follow=True, at_home=on_demand), stores=stores
    )
    for problem in config.problems:
        log.warning("%s", problem)
    stats = RequestStats()
    asgi = gateway_app(
        app,
        hosts=own_hosts if local else ANY_HOST,
        admit=authenticator,
        is_admitted=authenticator.is_admitted,
        stats=stats,
        exposure=cast("Exposure", settings.server.exposure),
        pages=pages,
        tokens=tokens,
        settings=settings,
        replication=stores.replication,
        oauth=oauth,
    )
    return _Server(asgi, app, stats, settings.server)


def _oauth_server(
    settings: Settings, config: Config, address: str, tokens: TokenStore, documents: ClientDocuments
) -> OAuthServer | None:
    """Returns the server at which clients log in, with its provider; None if they cannot."""
    if not settings.server.oauth:
        return None
    if not address:
        raise ConfigError("--oauth needs TOOLSCRIPT_PUBLIC_URL, the address for browsers")
    key = oauth_key(settings.server, settings.paths.data_dir, config.key)
    server = OAuthServer(address, key, tokens, documents)
    if config.issuer is not None:
        from toolscript.surfaces.server.oidc_client import OidcClient  # noqa: PLC0415 - few need it

        server.provider = OidcClient(
            config.issuer, settings.paths.data_dir, server.issuer, config.profiles
        )
    return server


def _raise_descriptor_limit() -> int:
    """Raises the soft limit of open files as far as is useful, and returns it.

    Programs that the gateway starts inherit it, so it is not raised further.
    """
    try:
        import resource  # noqa: PLC0415 - Windows has none, and no such limit
    except ImportError:
        return _MAX_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with suppress(OSError, ValueError):  # a system that allows less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


class _Server(uvicorn.Server):
    """A server that, when asked to end, first waits for the requests under way; asked twice, not.

    It also ends once a background task has died and the others have closed their connections.
    Objects that exist at the start and when it is first ready are left alone: see `freeze_gc`.
    """

    def __init__(
        self, asgi: Starlette, app: App, stats: RequestStats, settings: ServerSettings
    ) -> None:
        config = uvicorn.Config(
            asgi,
            http="h11",  # httptools has no limit of heads
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            limit_concurrency=min(_MAX_CONNECTIONS, _raise_descriptor_limit() // 2),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_STREAMS_S,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        super().__init__(config)
        self.app = app
        self._stats = stats
        self._was_ready = False
        self._deadline = 0.0
        self._logged = self._failing = False
        self.idle_s = 0.0
        """Seconds without any client after which it ends; 0 for never."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        freeze_gc()
        await super().startup(sockets)
        self._stats.touch("")  # the clients that have waited are answered from now on

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See `uvicorn.Server`. Logs nothing: it may have interrupted what is being logged."""
        if self._stats.closed:
            super().handle_exit(sig, frame)
            return
        self._stats.closed = True
        self._deadline = time.monotonic() + GRACE_S

    async def on_tick(self, counter: int) -> bool:
        """See `uvicorn.Server`: whether to end. It asks ten times a second."""
        if self.app.tasks.failure:
            self._fail()
        if not self._was_ready and self.app.health().ready:
            self._was_ready = True
            freeze_gc()
        if self.idle_s and self._stats.is_idle(self.idle_s) and not self._stats.closed:
            log.warning("stopping: no client has been there for %g s", self.idle_s)
            self._stats.closed = True
        if self._stats.closed:
            self._end_when_answered()
        return await super().on_tick(counter)

    def _end_when_answered(self) -> None:
        """End once the requests under way have ended, at the latest at the deadline."""
        if not self._stats.running or time.monotonic() >= self._deadline:
            self.should_exit = True
        elif not self._logged:
            self._logged = True
            log.warning("stopping when %d requests have ended", self._stats.running)

    def _fail(self) -> None:
        """End once every other task has ended, at the latest after `GRACE_S`."""
        if not self._failing:
            self._failing = True
            deadline = threading.Timer(GRACE_S, os._exit, [1])
            deadline.daemon = True
            deadline.start()
        self.should_exit = not self.app.tasks.is_busy


def _run(server: "_Server", listening: socket.socket) -> None:
    for number in end_signals():  # uvicorn by itself does not know SIGHUP
        signal.signal(number, server.handle_exit)
    # Having closed down, uvicorn raises Ctrl-C's signal once more.
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    server.app.tasks.check()
    log.warning("stopped")


def _listening(server: ServerSettings, *, on_demand: bool) -> socket.socket:
    try:
        return _listen(server.host, server.port)
    except PortInUseError:
        if not on_demand:
            raise
        return _listen(server.host, 0)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # from now on clients wait, however long the start takes
    except (OSError, UnicodeError) as error:  # the second: not the name of a host
        listening.close()
        raise PortInUseError(
            f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}; "
            "choose another with --port (0 picks a free one)"
        ) from None
    listening.set_inheritable(True)
    return listening


def _public_url(server: ServerSettings) -> str:
    """Returns the public address as browsers write it; empty if there is none."""
    address = (server.public_url or "").casefold().rstrip("/").removesuffix(":443")
    is_wrong = server.tls_cert is not None and address.startswith("http:")
    if address and (is_wrong or _PUBLIC.fullmatch(address) is None):
        raise ConfigError(
            "TOOLSCRIPT_PUBLIC_URL is not an address that begins with https and ends with the "
            "host or its port; write it like https://tools.example.com"
        )
    return address


def _url(listening: socket.socket, server: ServerSettings, host: str = "") -> str:
    bound, port = listening.getsockname()[:2]
    host = host or bound
    scheme = "http" if server.tls_cert is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _reachable_url(listening: socket.socket, server: ServerSettings) -> str:
    """Returns the address at which the other gateways with the same database reach this one."""
    host = listening.getsockname()[0]
    if ipaddress.ip_address(host).is_unspecified:
        # The address from which this machine reaches others. Nothing is sent.
        with socket.socket(listening.family, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect(("2001:db8::1" if ":" in host else "192.0.2.1", 9))
            host = probe.getsockname()[0]
    return _url(listening, server, host)

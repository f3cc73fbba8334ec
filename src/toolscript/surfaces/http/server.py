"""The gateway as a process: the HTTP door on a socket of this machine."""

import ipaddress
import logging
import os
import signal
import socket
from pathlib import Path

import uvicorn

from toolscript import __version__, bootstrap
from toolscript import config as configuration
from toolscript.errors import PortInUseError
from toolscript.settings import Settings
from toolscript.surfaces.http.app import LOOPBACK_HOSTS, http_app
from toolscript.surfaces.record import Record, RecordFile, stamps

log = logging.getLogger(__name__)
_GRACE_S = 5


def serve(settings: Settings) -> None:
    """Run until told to stop (SIGTERM, SIGINT); then close every connection.

    Raises `PortInUseError` when the address is taken and `ConfigError` when
    the configuration is unusable.
    """
    config = configuration.load(settings.config, Path.cwd(), os.environ)
    app = bootstrap.application(settings, config)
    for problem in config.problems:
        log.warning("%s", problem)
    with _listen(settings.host, settings.port) as listening:
        hosts = LOOPBACK_HOSTS if _is_loopback(settings.host) else ("*",)
        url = _url(listening)
        server = uvicorn.Server(
            uvicorn.Config(
                http_app(app, hosts=hosts),
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
        record = RecordFile(settings.data_dir, config.key)
        record.write(Record(url, os.getpid(), __version__, settings.model, stamps(config.sources)))
        log.warning("listening on %s", url)
        if hosts == ("*",):
            log.warning("%s can be reached from other machines, and asks for no key", url)
        # Having closed down, uvicorn raises the signal that asked for it once
        # more; by default that would end the process before the note is gone.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            log.warning("stopped")
        finally:
            record.remove()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise PortInUseError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "choose another with --port (0 picks a free one)"
        ) from None
    listening.set_inheritable(True)
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

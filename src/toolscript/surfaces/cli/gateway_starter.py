"""Starts gateways in the background."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from toolscript.config.settings import OPTION, PathSettings
from toolscript.errors import ConfigError, GatewayError, GatewayMissingError, ToolscriptError
from toolscript.storage.atomic_files import open_private
from toolscript.surfaces.cli import detached
from toolscript.surfaces.cli.connect import client_of, record_file, running_gateway
from toolscript.surfaces.cli.output import note
from toolscript.surfaces.server.config_sources import load
from toolscript.surfaces.server.error_codes import codes_of
from toolscript.surfaces.server.gateway_file import GatewayFile, GatewayRecord

LISTEN_TIMEOUT_S = 30.0
_ON_DEMAND = "--on-demand"
STOP_TIMEOUT_S = 60.0
_POLL_S = 0.02
_EXIT_S = 2.0
"""Seconds to wait for the exit of a gateway that no longer answers."""
_ATTEMPTS = 3
"""How often a gateway is started that ends before it answers: it may have been killed."""


class _Process:
    """A gateway's process, which is no child of this one: see `detached`."""

    def __init__(self, log: Path, flags: Mapping[str, Any], mode: str) -> None:
        with open_private(log) as output:
            self._starter = subprocess.Popen(  # noqa: S603 - this interpreter, with options of our own
                _command(flags, mode),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                start_new_session=True,
            )
        assert self._starter.stdout  # noqa: S101 - it is a pipe
        self._report = self._starter.stdout
        self.pid = int(self._report.readline() or 0)
        self.code: int | None = None
        """Its exit status; None while it runs."""
        self._end = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with self._report:
            status = self._report.read()  # takes as long as the gateway runs
        self._starter.wait()
        self.code = int(status or 1)
        self._end.set()

    def ends_within(self, timeout_s: float) -> bool:
        """Waits for its end; returns whether that came in time."""
        return self._end.wait(timeout_s)

    def end(self) -> None:
        """Ends it, by force if it does not obey."""
        for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            if self.pid and not self._end.is_set():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, number)
                self.ends_within(STOP_TIMEOUT_S)


class BackgroundGateway:
    """A gateway that was started as a process; within a block, errors end it.

    A signal that ends this process ends no gateway that was started on demand: other sessions
    may wait for it.

    Args:
        paths: Those of this process.
        flags: The options of the gateway; None for a default.
        mode: ``--on-demand`` if it is started for clients that need one, and ends without them,
            ``--open`` if it admits programs without a token, else empty.
    """

    def __init__(self, paths: PathSettings, flags: Mapping[str, Any], mode: str) -> None:
        self._file = record_file(paths)
        self._log = paths.data_dir / "logs" / f"{self._file.path.stem}.log"
        # The log of another gateway is left alone until this one is known to be the only one.
        self._early = self._log.with_suffix(f".{os.getpid()}.log")
        self._on_demand = mode == _ON_DEMAND
        self._process = _Process(self._early, flags, mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._on_demand and not issubclass(kind, ToolscriptError):
            if self._early.exists():
                self._early.replace(self._log)
            return
        reason = self._reason_of_its_end() if kind is GatewayMissingError else ""
        if kind is not None:
            self._process.end()
            if self._early.exists() and not self._file.is_locked():
                self._early.replace(self._log)
        self._early.unlink(missing_ok=True)
        if reason:  # says more than that it does not answer
            raise GatewayError(reason) from None

    def _reason_of_its_end(self) -> str:
        """Returns the last line of a gateway that has answered and then ended; else empty."""
        if self._process.ends_within(_EXIT_S):
            return _last_line(self._early if self._early.exists() else self._log)
        return ""

    def record(self) -> GatewayRecord:
        """Returns its record, once it answers; raises `GatewayError` if it does not.

        Raises `ConfigError` if it has ended because of its options or its configuration.
        """
        record = _record_of(self._process, self._file, self._early)
        self._early.replace(self._log)
        return record


def ensure_gateway(paths: PathSettings, flags: Mapping[str, Any]) -> GatewayRecord:
    """Returns the gateway of this call's configuration, started on demand if none runs.

    Of several processes that do so at once, one starts it. Raises `GatewayError` if none
    answers within `LISTEN_TIMEOUT_S`.
    """
    file, failures = record_file(paths), 0
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while time.monotonic() < deadline:
        running = running_gateway(paths)
        if running is not None and running.health is not None:
            return running.record
        if not file.is_locked():
            for problem in load(paths).problems:  # raises what is wrong with the whole of it
                note(str(problem))
            try:
                with BackgroundGateway(paths, flags, _ON_DEMAND) as started:
                    return started.record()
            except GatewayError:
                failures += not file.is_locked()  # else another process was faster
                if failures == _ATTEMPTS:
                    raise
        time.sleep(_POLL_S)
    raise GatewayError(f"no gateway answered within {LISTEN_TIMEOUT_S:g} s")


def _command(flags: Mapping[str, Any], mode: str) -> list[str]:
    # With -P a project's own click.py, for example, is not imported.
    command = [sys.executable, "-P", "-m", detached.__name__, "gateway", "start", "--foreground"]
    command += [mode] if mode else []
    for name, value in flags.items():
        if value is not None:
            command += [OPTION[name].flag or "", *([] if value is True else [str(value)])]
    return command


def _record_of(process: _Process, file: GatewayFile, log: Path) -> GatewayRecord:
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while time.monotonic() < deadline:
        code = process.code
        if code is not None:
            kind = ConfigError if code == codes_of(ConfigError).exit_code else GatewayError
            raise kind(_last_line(log) or f"the gateway ended with code {code}")
        record = file.read()
        if record is not None and record.pid == process.pid:
            with contextlib.suppress(GatewayMissingError):
                client_of(record).get("/health")
                return record
        time.sleep(_POLL_S)
    silent = f"the gateway did not answer within {LISTEN_TIMEOUT_S:g} s"
    raise GatewayError(": ".join(filter(None, (silent, _last_line(log)))))


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1].removeprefix("toolscript: ") if lines else ""

"""Sends a request for new tokens in a process of its own, and stores the answer in a file.

A refresh token may be used only once. The process outlives the one that asked for it: were that
killed between the request and the answer, the new refresh token would be lost, and the old one is
worth nothing any more. The next process that refreshes takes the answer over.
"""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import anyio
import filelock
import httpx2
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from toolscript.storage.atomic_files import write_atomically

_READY = b"ready\n"
_START_TIMEOUT_S = 30.0


class TokenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request for tokens."""

    received: float
    """In seconds since 1970."""
    status: int
    body: bytes
    used: str = ""
    """The digest of the refresh token that was sent: see `digest_of`."""


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is told on its standard input."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes
    timeout_s: float
    used: str
    """See `TokenAnswer.used`."""


def digest_of(token: str) -> str:
    """Returns what stands for a refresh token, which the answer to it does not have."""
    return hashlib.sha256(token.encode()).hexdigest()


class TokenRequest:
    """The request under way for one login, if any, and the answer that is not taken over yet.

    Everything but `clear` is for the process that has the lock of the login.

    Args:
        login: The path of the login's file; the others lie beside it.
    """

    def __init__(self, login: Path) -> None:
        self._answer = login.with_suffix(".answer")
        self._lock = login.with_suffix(".request.lock")

    async def answer(self, timeout_s: float) -> TokenAnswer | None:
        """Returns the answer that a killed process has not taken over; None if there is none.

        A request that is under way is waited for. Raises `httpx2.ReadTimeout`.
        """
        lock = filelock.AsyncFileLock(
            self._lock, timeout=timeout_s, mode=0o600, thread_local=False, run_in_executor=False
        )
        try:
            async with lock:
                return msgspec.json.decode(self._answer.read_bytes(), type=TokenAnswer)
        except filelock.Timeout:
            raise httpx2.ReadTimeout("a request for tokens is under way") from None
        except (OSError, msgspec.MsgspecError):
            return None

    def clear(self) -> None:
        """Forgets the answer, which has been taken over, or is of another login."""
        self._answer.unlink(missing_ok=True)

    async def send(self, request: httpx2.Request, refresh_token: str, timeout_s: float) -> None:
        """Sends a request with a refresh token and waits until its answer is stored.

        Raises `httpx2.ConnectError` where there is no answer. Not to be cancelled.
        """
        order = _Order(
            method=request.method,
            url=str(request.url),
            headers=list(request.headers.items()),
            body=request.content,
            timeout_s=timeout_s,
            used=digest_of(refresh_token),
        )
        command = [sys.executable, "-P", "-m", __name__, str(self._answer), str(self._lock)]
        process = await anyio.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        async with process:
            if process.stdin is None or process.stdout is None:
                raise httpx2.ConnectError("the process for the request has no pipes")
            said = BufferedByteReceiveStream(process.stdout)
            try:
                with anyio.fail_after(_START_TIMEOUT_S):
                    await said.receive_exactly(len(_READY))
                await process.stdin.send(msgspec.json.encode(order))
                await process.stdin.aclose()
            except (anyio.IncompleteRead, anyio.BrokenResourceError, TimeoutError):
                raise httpx2.ConnectError("the process for the request ended early") from None
            problem = b"".join([part async for part in said])
            await process.wait()
        if problem:
            raise httpx2.ConnectError(problem.decode(errors="replace"))


def _main(answer: Path, lock: Path) -> None:
    with filelock.FileLock(lock, mode=0o600):
        sys.stdout.buffer.write(_READY)
        sys.stdout.buffer.flush()
        text = sys.stdin.buffer.read()
        try:
            order = msgspec.json.decode(text, type=_Order)
        except msgspec.MsgspecError:  # who asked was killed before all was said
            return
        try:
            with httpx2.Client(timeout=order.timeout_s) as client:
                response = client.request(
                    order.method, order.url, headers=order.headers, content=order.body
                )
        except httpx2.HTTPError as error:
            _say(f"the provider cannot be reached: {error}")
            return
        got = TokenAnswer(
            received=time.time(),
            status=response.status_code,
            body=response.content,
            used=order.used,
        )
        write_atomically(answer, msgspec.json.encode(got))


def _say(problem: str) -> None:
    try:
        sys.stdout.buffer.write(problem.encode())
        sys.stdout.buffer.flush()
    except OSError:  # nobody listens any more
        return


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))

"""An encoder that asks an embedding server: Ollama, or one with OpenAI's interface.

Sources: Ollama's ``POST /api/embed`` and OpenAI's ``POST /v1/embeddings``.
"""

import http.client
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2
import numpy as np

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.embedding.models import family
from toolscript.errors import ModelError, UnreachableError, UnsuitableModelError
from toolscript.text.display import printable
from toolscript.text.redaction import redact

CONNECT_S = 1.5
"""How long a server may take to accept a connection, and to answer whether it is there."""
ANSWER_S = 30.0
"""How long it may take to embed a batch of documents."""
QUERY_S = 5.0
"""How long it may take to embed a question, since a caller waits."""
RETRY_AFTER_S = 15.0
"""How long a server that did not answer is not asked again."""
BATCH_TEXTS = 64
MAX_TEXT_CHARS = 8_192
"""Longer texts are cut: no model here reads more."""
MAX_ANSWER_BYTES = 64 * 1024**2
MAX_DIMENSIONS = 16_384
_PROBE = "tool"
_ADDRESS = re.compile(
    r"(?:ollama://(?P<ollama>[^/]+)|openai\+(?P<openai>https?://[^/]+/(?:.+/)?v1))"
    r"/(?P<model>[^/].*?)/*"
)


@dataclass(frozen=True, slots=True)
class Address:
    """The parsed URL of a model, such as ``ollama://host:port/all-minilm``."""

    text: str
    """The URL as it was given; holds no secret."""
    url: str
    """The address that texts are posted to."""
    model: str
    ollama: bool

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parses a URL; raises `UnsuitableModelError` naming the mistake."""
        if re.search(r"://[^/]*@|\?", text):
            raise UnsuitableModelError(
                f"model {_show(text)!r} carries a key; put that into TOOLSCRIPT_EMBEDDINGS_KEY"
            )
        try:
            found, port = _ADDRESS.fullmatch(text), urlsplit(text).port
        except ValueError:  # of a port
            found = port = None
        if found is None:
            raise UnsuitableModelError(
                f"model {_show(text)!r} is no address; expected ollama://host:port/model, "
                "openai+http://host:port/v1/model or openai+https://…"
            )
        model = unquote(found["model"])
        if found["openai"]:
            return cls(text, f"{found['openai']}/embeddings", model, ollama=False)
        server = found["ollama"] if port else f"{found['ollama']}:11434"
        return cls(text, f"http://{server}/api/embed", model, ollama=True)


class RemoteEncoder:
    """A model behind an address. Lives as long as the application; thread-safe.

    Raises `ModelError` on construction when it refuses, and `UnreachableError`
    when it does not answer in time.
    """

    device = "remote"

    def __init__(self, address: Address, key: str = "") -> None:
        self._address = address
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.Client(headers=headers, follow_redirects=False)
        self._key = key
        self._retry_at = 0.0
        self._failure = ""
        self.name = address.text
        self.model = address.model
        known_family = family(address.model)
        self._prefix = known_family.query_prefix if known_family else ""
        self.dim = 0
        self.dim = len(self._embed([_PROBE], CONNECT_S)[0])

    def documents(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder.documents`."""
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = list(texts[start : start + BATCH_TEXTS])
            out[start : start + len(batch)] = self._embed(batch, ANSWER_S)
        return out

    def knows(self, word: str) -> bool:
        """See `Encoder.knows`: its words cannot be seen from here, so it may know any."""
        del word
        return True

    def query(self, text: str) -> Vectors:
        """See `Encoder.query`."""
        return self.query_with_parts(text, ())[0]

    def query_with_parts(self, text: str, parts: Sequence[str]) -> Vectors:
        """See `Encoder.query_with_parts`: one request."""
        return self._embed([self._prefix + part for part in (text, *parts)], QUERY_S)

    def _embed(self, texts: list[str], answer_s: float) -> Vectors:
        if time.monotonic() < self._retry_at:
            raise UnreachableError(self._failure)
        try:
            rows = self._rows(self._post(texts, answer_s), len(texts))
        except UnreachableError as error:
            self._failure = f"{error}; it is asked again after {RETRY_AFTER_S:g} s"
            self._retry_at = time.monotonic() + RETRY_AFTER_S
            raise
        return unit_rows(rows)

    def _post(self, texts: list[str], answer_s: float) -> Any:
        # A text of nothing but white space is refused by some servers.
        sent = [text[:MAX_TEXT_CHARS] if text.strip() else "-" for text in texts]
        timeout = httpx2.Timeout(answer_s, connect=CONNECT_S)
        body = {"model": self._address.model, "input": sent}
        try:
            with self._client.stream(
                "POST", self._address.url, json=body, timeout=timeout
            ) as response:
                return self._answer(response.status_code, self._read(response, answer_s))
        except httpx2.TimeoutException:
            raise UnreachableError(f"{self._show} did not answer in time") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = printable(redact(str(error), ()), 200) or type(error).__name__
            raise UnreachableError(f"{self._show} cannot be reached: {reason}") from None

    def _read(self, response: httpx2.Response, answer_s: float) -> bytes:
        """The answer, bounded in size and in time: a server may send for ever."""
        data, deadline = bytearray(), time.monotonic() + answer_s
        for chunk in response.iter_bytes():
            data += chunk
            if len(data) > MAX_ANSWER_BYTES:
                raise ModelError(f"{self._show} answered more than {MAX_ANSWER_BYTES} bytes")
            if time.monotonic() > deadline:
                raise UnreachableError(f"{self._show} did not answer in time")
        return bytes(data)

    def _answer(self, status: int, data: bytes) -> Any:
        try:
            answer: Any = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if status != http.client.OK:
            reason = self._reason(answer)
            message = f"{self._show} answered HTTP {status}{f': {reason}' if reason else ''}"
            transient = status >= http.client.INTERNAL_SERVER_ERROR or status in {408, 429}
            raise UnreachableError(message) if transient else ModelError(message)
        return answer

    def _reason(self, answer: Any) -> str:
        """Returns the server's message about an error, as one harmless line."""
        error: Any = answer.get("error") if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - third-party JSON
        message: Any = error.get("message") if isinstance(error, dict) else error  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - third-party JSON
        secrets = (self._key,) if self._key else ()
        return printable(redact(message, secrets), 200) if isinstance(message, str) else ""

    def _rows(self, answer: Any, count: int) -> Vectors:
        try:
            data = answer["embeddings"] if self._address.ollama else _in_order(answer["data"])
            rows: Vectors = np.array(data, dtype=np.float32)
            if rows.shape[:-1] != (count,):
                raise ValueError(rows.shape)  # noqa: TRY301 - as what cannot be read at all
        except (KeyError, TypeError, ValueError, OverflowError):
            rows = np.zeros((count, 0), dtype=np.float32)
        dim = int(rows.shape[-1])
        if not 0 < dim <= MAX_DIMENSIONS or not np.isfinite(rows).all():
            raise ModelError(f"{self._show} answered something that is no {count} embeddings")
        if self.dim not in {0, dim}:
            raise ModelError(f"{self._show} answered with {dim} dimensions, before with {self.dim}")
        return rows

    @property
    def _show(self) -> str:
        return f"the embedding server {_show(self._address.text)}"


def _in_order(data: list[dict[str, Any]]) -> list[Any]:
    """OpenAI's rows in the order of their ``index``."""
    return [row["embedding"] for row in sorted(data, key=lambda row: int(row["index"]))]


def _show(text: str) -> str:
    return printable(redact(text.partition("?")[0], ()), 200)

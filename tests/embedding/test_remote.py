"""Ollama's and OpenAI's interfaces, spoken by a local server that embeds with the bundled model."""

import contextlib
import json
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolscript.embedding import remote
from toolscript.embedding.base import Encoder
from toolscript.embedding.download_progress import Progress
from toolscript.embedding.loader import Choice, identify, lazy, load_choice
from toolscript.embedding.remote import BATCH_TEXTS, Address, RemoteEncoder
from toolscript.embedding.vector_cache import SqliteVectorCache
from toolscript.errors import ModelError, UnreachableError
from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document

KEY = "sk-very-secret"


@dataclass
class Server:
    """Embeds as it is asked, and can be told to misbehave."""

    encoder: Encoder
    key: str = ""
    status: int = 200
    body: bytes | None = None
    """Answered instead."""
    hang: bool = False
    backwards: bool = False
    paths: list[str] = field(default_factory=list[str])
    batches: list[list[str]] = field(default_factory=list[list[str]])
    url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def ollama(self) -> str:
        return f"ollama://{self.url}/all-minilm"

    @property
    def openai(self) -> str:
        return f"openai+http://{self.url}/v1/text-embedding-mini"

    def answer(self, path: str, request: dict[str, Any], key: str) -> tuple[int, bytes]:
        self.paths.append(path)
        self.batches.append(request["input"])
        if self.hang:
            self.ended.wait()
        if self.key and key != f"Bearer {self.key}":
            return 401, json.dumps({"error": {"message": f"wrong key {key}"}}).encode()
        if self.status != 200:
            return self.status, b'{"error": "model \\"x\\" not found,\\u001b[31m try pulling it"}'
        if self.body is not None:
            return 200, self.body
        rows = (self.encoder.documents(request["input"]) * 3).tolist()  # nobody promised length 1
        if path == "/api/embed":
            return 200, json.dumps({"model": request["model"], "embeddings": rows}).encode()
        data = [{"index": at, "embedding": row} for at, row in enumerate(rows)]
        return 200, json.dumps({"data": data[::-1] if self.backwards else data}).encode()

    @contextmanager
    def running(self) -> Generator["Server"]:
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                pass

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                key = self.headers.get("Authorization", "")
                status, body = mine.answer(self.path, request, key)
                with contextlib.suppress(OSError):  # whoever asked has given up
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self.ended.set()
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture
def server(encoder: Encoder) -> Generator[Server]:
    with Server(encoder).running() as made:
        yield made


# Addresses


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize(
    ("text", "url", "model"),
    [
        ("ollama://localhost/all-minilm", "http://localhost:11434/api/embed", "all-minilm"),
        ("ollama://h:1/all-minilm:33m", "http://h:1/api/embed", "all-minilm:33m"),
        ("ollama://[::1]:1/x/y", "http://[::1]:1/api/embed", "x/y"),
        ("openai+https://api.openai.com/v1/m", "https://api.openai.com/v1/embeddings", "m"),
        ("openai+http://h:8000/v1/BAAI/bge-m3", "http://h:8000/v1/embeddings", "BAAI/bge-m3"),
        ("openai+https://h/proxy/v1/@x/m%3Aa", "https://h/proxy/v1/embeddings", "@x/m:a"),
    ],
)
def test_an_address_says_where_and_what(text: str, url: str, model: str) -> None:
    found = Address.parse(text)
    assert (found.url, found.model) == (url, model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://h/x", "is no address"),
        ("ollama://", "is no address"),
        ("ollama://h", "is no address"),
        ("openai+http://h/m", "is no address"),
        ("ollama://h:99999/m", "is no address"),
        (f"openai+http://u:{KEY}@h/v1/m", "carries a key"),
        (f"openai+http://h/v1/m?key={KEY}", "carries a key"),
    ],
)
def test_an_address_that_is_none_is_told_without_its_secrets(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        Address.parse(text)
    assert KEY not in str(caught.value)


# What it embeds


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_its_vectors_are_the_servers_at_length_1(
    server: Server, encoder: Encoder, kind: str
) -> None:
    server.backwards = True  # OpenAI's rows say where they belong
    found = RemoteEncoder(Address.parse(getattr(server, kind)))
    texts = ["read a file", "send mail", "what time is it"]
    assert found.dim == encoder.dim
    assert found.device == "remote"
    np.testing.assert_allclose(found.documents(texts), encoder.documents(texts), atol=1e-5)
    np.testing.assert_allclose(found.query(texts[0]), encoder.query(texts[0]), atol=1e-5)
    assert set(server.paths) == {"/api/embed" if kind == "ollama" else "/v1/embeddings"}


@pytest.mark.requirement("model:lazy")
def test_texts_are_sent_in_batches_that_are_bounded(server: Server) -> None:
    found = RemoteEncoder(Address.parse(server.ollama))
    del server.batches[:]
    texts = [f"text {n}" for n in range(BATCH_TEXTS + 3)] + ["", "x" * 1_000_000]
    assert found.documents(texts).shape == (len(texts), found.dim)
    assert [len(batch) for batch in server.batches] == [BATCH_TEXTS, 5]
    assert max(len(text) for batch in server.batches for text in batch) <= remote.MAX_TEXT_CHARS
    assert found.documents([]).shape == (0, found.dim)


def test_a_bge_elsewhere_gets_its_prefix(server: Server) -> None:
    found = RemoteEncoder(Address.parse(f"ollama://{server.url}/bge-small-en"))
    found.query("read")
    found.documents(["read"])
    assert server.batches[-2] == ["Represent this sentence for searching relevant passages: read"]
    assert server.batches[-1] == ["read"]


def test_a_question_and_its_parts_are_one_request(server: Server) -> None:
    found = RemoteEncoder(Address.parse(f"ollama://{server.url}/bge-small-en"))
    del server.batches[:]
    assert found.query_with_parts("read, write", ["read", "write"]).shape == (3, found.dim)
    [sent] = server.batches
    assert [text.rpartition(": ")[2] for text in sent] == ["read, write", "read", "write"]


@pytest.mark.requirement("model:select")
def test_the_key_is_sent_and_never_told(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.key = KEY
    asked = Choice(server.openai, directory=tmp_path, key=KEY)
    assert load_choice(asked, Progress()).encoder is not None
    assert KEY not in repr(asked)
    server.key = "another"
    with caplog.at_level(logging.DEBUG):
        refused = load_choice(asked, Progress()).degraded
    assert "answered HTTP 401: wrong key" in refused
    assert KEY not in refused + caplog.text
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and KEY in p.read_text("utf-8")]


# What goes wrong


def why(server: Server, kind: str = "ollama", error: type[ModelError] = ModelError) -> str:
    with pytest.raises(error) as caught:
        RemoteEncoder(Address.parse(getattr(server, kind)))
    return str(caught.value)


def test_a_refusal_is_quoted_and_harmless(server: Server) -> None:
    server.status = 404
    told = why(server)
    assert f'{server.ollama} answered HTTP 404: model "x" not found' in told
    assert "\x1b" not in told


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_failure_that_may_pass_is_one_that_is_asked_again(server: Server, status: int) -> None:
    server.status = status
    assert f"answered HTTP {status}" in why(server, error=UnreachableError)


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"<html>",
        b'{"embeddings": []}',
        b'{"embeddings": [[]]}',
        b'{"embeddings": [["x"]]}',
        b'{"embeddings": [[1, 2], [3, 4]]}',
        b'{"embeddings": [[1e999, 2]]}',
        b'{"embeddings": [[null]]}',
        b'{"embeddings": 7}',
        b'{"embeddings": [[1%s]]}' % (b"0" * 400),
        b"[" * 200_000,
    ],
    ids=lambda body: body[:40],
)
def test_an_answer_that_is_no_embedding_is_refused(server: Server, body: bytes) -> None:
    server.body = body
    why(server)


@pytest.mark.parametrize("index", [b"Infinity", b"NaN", b"null", b"[]"])
def test_an_answer_in_no_order_is_refused(server: Server, index: bytes) -> None:
    server.body = b'{"data": [{"index": %s, "embedding": [1, 2]}]}' % index
    why(server, "openai")


def test_another_number_of_dimensions_is_refused(server: Server) -> None:
    found = RemoteEncoder(Address.parse(server.ollama))
    server.body = b'{"embeddings": [[1, 2]]}'
    with pytest.raises(ModelError, match="answered with 2 dimensions, before with 384"):
        found.query("x")


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize("how", ["down", "hanging"])
def test_where_it_does_not_answer_the_bundled_model_does_and_that_is_remembered(
    server: Server, tmp_path: Path, how: str
) -> None:
    server.hang = how == "hanging"
    address = server.ollama if server.hang else "ollama://127.0.0.1:9/all-minilm"
    asked = Choice(address, directory=tmp_path)
    loaded = load_choice(asked, Progress())
    assert loaded.encoder is not None
    assert loaded.encoder.model == "toolscript-minilm-l6"
    assert address in loaded.degraded
    requests = len(server.batches)
    assert load_choice(asked, Progress()).degraded == loaded.degraded
    identity = identify(asked)
    assert identity is not None
    assert (identity.name, identity.degraded) == (loaded.encoder.name, loaded.degraded)
    assert len(server.batches) == requests


def document(number: int) -> Document:
    return Document(id=f"s__t{number}", server="s", name=f"t{number}", digest=str(number))


def prepared(signal: SemanticSignal, count: int) -> Corpus:
    corpus = Corpus(document(number) for number in range(count))
    for _ in signal.prepare(corpus):
        pass
    return corpus


@pytest.mark.requirement("model:select")
def test_what_a_server_has_embedded_is_cached_like_any_other(
    server: Server, tmp_path: Path
) -> None:
    """cache:incremental, model:select: a paid answer is paid for once."""

    def signal() -> SemanticSignal:
        model = lazy(Choice(server.ollama, directory=tmp_path / "models"))
        cache = SqliteVectorCache(tmp_path / "h.sqlite")
        return SemanticSignal(model, lambda: cache, tmp_path / "curves")

    first = signal()
    prepared(first, 3)
    assert first.counters.documents_embedded == 3
    sent = len(server.batches)
    again = signal()
    corpus = prepared(again, 3)
    assert (again.counters.documents_embedded, again.counters.documents_from_cache) == (0, 3)
    assert len(server.batches) == sent + 1  # whether it is there
    assert not again.index(corpus).rank(Query("t1")).degraded


def test_a_server_that_goes_away_costs_its_signal_until_it_is_back(
    server: Server, tmp_path: Path
) -> None:
    """search:degraded: it is not asked by every search meanwhile."""
    model = lazy(Choice(server.ollama, directory=tmp_path))
    signal = SemanticSignal(model, lambda: None)
    index = signal.index(prepared(signal, 2))
    assert not index.rank(Query("t1")).degraded
    server.status = 503
    sent = len(server.batches)
    for query in ("one", "two", "three"):
        assert "answered HTTP 503" in index.rank(Query(query)).degraded
    assert len(server.batches) == sent + 1
    assert not index.rank(Query("t1")).degraded  # a question that is remembered

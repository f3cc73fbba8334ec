"""A hub on this machine: metadata, redirects to a store of large files, ranges, ETags.

It speaks what huggingface-hub's client asks for, and can be told to misbehave.
The store of the large files answers at another port, as the real one does at
another host.
"""

import hashlib
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = ".onnx"
PAUSE_S = 20.0


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    range: str
    authorization: str


@dataclass
class Hub:
    """What the hub has, how it misbehaves, and what it was asked."""

    files: dict[str, bytes]
    """By ``owner/name/file``."""
    status: int = 200
    """Another one is all that is answered."""
    hang: bool = False
    hold: threading.Event | None = None
    """Nothing is answered until this is set."""
    hang_store: bool = False
    cut_after: int = 0
    """The connection is cut after so many bytes of a large file, each time."""
    cuts: int = 1000
    """How often."""
    hang_after: int = 0
    """So many bytes of a large file come, and then nothing."""
    pause: threading.Event | None = None
    """Half of a large file comes; the rest waits until this is set, at most `PAUSE_S`."""
    corrupt: str = ""
    """The ending of the file whose last byte is wrong."""
    asked: list[Asked] = field(default_factory=list[Asked])
    sent: int = 0
    """Bytes of large files."""
    url: str = ""
    store_url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, folder: Path, repository: str) -> "Hub":
        """A hub with one repository: the files of a folder."""
        found = [path for path in folder.rglob("*") if path.is_file()]
        names = {path: path.relative_to(folder).as_posix() for path in found}
        return cls({f"{repository}/{name}": path.read_bytes() for path, name in names.items()})

    @property
    def paths(self) -> list[str]:
        """What was asked for, without the commit or branch."""
        return [re.sub(r"/resolve/[^/]+/", "/", each.path) for each in self.asked]

    @contextmanager
    def running(self) -> Generator["Hub"]:
        """Answers as long as the block lasts."""
        servers = [self._server(_Api), self._server(_Store)]
        self.url, self.store_url = (
            f"http://127.0.0.1:{server.server_address[1]}" for server in servers
        )
        threads = [
            threading.Thread(target=server.serve_forever, args=(0.02,)) for server in servers
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.ended.set()
            for server, thread in zip(servers, threads, strict=True):
                server.shutdown()
                thread.join()
                server.server_close()

    def _server(self, kind: type["_Handler"]) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), type(kind.__name__, (kind,), {"hub": self}))
        server.daemon_threads = True
        return server


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass

    def do_HEAD(self) -> None:
        self._note()
        self._answer()

    def do_GET(self) -> None:
        self._note()
        self._answer()

    def _note(self) -> None:
        headers = self.headers
        self.hub.asked.append(
            Asked(
                self.command, self.path, headers.get("Range", ""), headers.get("Authorization", "")
            )
        )

    def _answer(self) -> None:
        raise NotImplementedError

    def _end(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")


class _Api(_Handler):
    def _answer(self) -> None:
        if self.hub.hang:
            self.hub.ended.wait()
            return
        if self.hub.hold:
            self.hub.hold.wait()
        if self.hub.status != 200:
            code = {401: "RepoNotFound", 403: "GatedRepo", 404: "RepoNotFound"}
            self._end(self.hub.status, X_Error_Code=code.get(self.hub.status, ""))
            return
        asked = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/[^/]+\?blobs=true", self.path)
        if asked:
            self._end(200, json.dumps(self._info(asked[1])).encode())
            return
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
        content = self.hub.files.get(f"{found[1]}/{found[3]}") if found else None
        if found is None or content is None:
            self._end(404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        elif found[3].endswith(LARGE):
            etag = hashlib.sha256(content).hexdigest()
            self._end(
                302,
                Location=f"{self.hub.store_url}/{found[1]}/{found[3]}",
                X_Repo_Commit=COMMIT,
                X_Linked_Etag=f'"{etag}"',
                X_Linked_Size=str(len(content)),
            )
        else:
            blob = b"blob %d\0" % len(content) + content
            etag = hashlib.sha1(blob).hexdigest()  # noqa: S324 - as git does
            sent = self._spoilt(found[3], content)
            self._end(200, sent, ETag=f'"{etag}"', X_Repo_Commit=COMMIT)

    def _info(self, repository: str) -> dict[str, Any]:
        """What the hub knows of a repository."""
        own = f"{repository}/"
        files = {n.removeprefix(own): c for n, c in self.hub.files.items() if n.startswith(own)}
        siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
        for file in (each for each in siblings if str(each["rfilename"]).endswith(LARGE)):
            digest = hashlib.sha256(files[str(file["rfilename"])]).hexdigest()
            file |= {"lfs": {"sha256": digest, "size": file["size"], "pointerSize": 134}}
        return {"id": repository, "sha": COMMIT, "siblings": siblings}

    def _spoilt(self, name: str, content: bytes) -> bytes:
        if self.hub.corrupt and name.endswith(self.hub.corrupt):
            return content[:-1] + bytes([content[-1] ^ 1])
        return content


class _Store(_Api):
    def _answer(self) -> None:
        if self.hub.hang_store:
            self.hub.ended.wait()
            return
        content = self._spoilt(self.path, self.hub.files[self.path.lstrip("/")])
        start = 0
        given = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if given:
            start = int(given[1])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        rest = content[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if self.hub.cut_after and self.hub.cuts:
            self.hub.cuts -= 1
            rest = rest[: self.hub.cut_after]
            self.close_connection = True
        if self.hub.hang_after:
            self.wfile.write(rest[: self.hub.hang_after])
            self.hub.sent += self.hub.hang_after
            self.hub.ended.wait()
            return
        self.hub.sent += len(rest)
        half = len(rest) // 2 if self.hub.pause else 0
        self.wfile.write(rest[:half])
        if self.hub.pause:
            self.hub.pause.wait(PAUSE_S)
        self.wfile.write(rest[half:])

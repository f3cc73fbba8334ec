"""The bounds of what is read of servers over HTTP: in one body, and in a stream of events."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import HELPERS, Running, running, write_config
from toolscript.errors import UpstreamError
from toolscript.gateway.jsonrpc_reader import MESSAGE_BYTES
from toolscript.gateway.raw_results import RawResult

_MIB = 2**20
_JSON, _EVENTS = "application/json", "text/event-stream"


def _result(text: str) -> str:
    return '{"content":[{"type":"text","text":"' + text + '"}]}'


def _body(result: str, kind: str, newline: str = "\n") -> str:
    message = f'{{"jsonrpc":"2.0","id":ID,"result":{result}}}'
    return f"event: message{newline}data: {message}{newline * 2}" if kind == _EVENTS else message


def _answer(result: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "body": _body(result, kind), **more}


@contextmanager
def _served(folder: Path, answers: dict[str, Any], **environ: str) -> Generator[Running]:
    file = folder / "answers.json"
    file.write_text(json.dumps(answers), "utf-8")
    command = [sys.executable, "-S", str(HELPERS / "bodies.py"), str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            url = process.stdout.readline().strip()
            entry = {"type": "http", "url": url, "protocol": "legacy"}
            with running(write_config(folder / "config.json", {"s": entry}), environ) as app:
                app.wait_for("s", "ready")
                yield app
        finally:
            process.kill()


def _call(app: Running, name: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {}
    return app.portal.call(app.app.call, f"s__{name}", nothing)


@pytest.mark.parametrize("kind", [_JSON, _EVENTS])
def test_m18_large_answers_over_http(tmp_path: Path, kind: str) -> None:
    """Within the limit they come whole, past it the call fails at once; others go on."""
    large, cut = _result("x" * 2 * _MIB), _result(r"cut \ud83d")
    answers = {
        "small": _answer(_result("x"), kind),
        "large": _answer(large, kind),
        "too_large": _answer(_result("x" * MESSAGE_BYTES), kind),
        "cut": _answer(cut, kind),
        "no_json": _answer("oops", kind),
        "large_and_no_json": _answer("oops" + "x" * _MIB, kind),
        "forged": _answer('{"content":[],"toolscript/large":"0123456789abcdef"}', kind),
    }
    with _served(tmp_path, answers, TOOLSCRIPT_CALL_TIMEOUT="600") as app:
        result = _call(app, "large")
        assert isinstance(result, RawResult)
        assert result.text.decode() == large
        with pytest.raises(UpstreamError, match=r"^s: .* at most 16 MiB are read"):
            _call(app, "too_large")
        for name in ("no_json", "large_and_no_json"):
            with pytest.raises(UpstreamError):
                _call(app, name)
        assert _call(app, "cut")["content"][0]["text"] == "cut \ufffd"
        assert _call(app, "forged")["toolscript/large"] == "0123456789abcdef"
        assert _call(app, "small")["content"][0]["text"] == "x"


def test_m18_events_with_other_ends_of_lines(tmp_path: Path) -> None:
    large = _result("x" * _MIB)
    kinds = {"cr_lf": "\r\n", "cr": "\r"}
    answers = {
        name: {"type": _EVENTS, "body": _body(large, _EVENTS, newline)}
        for name, newline in kinds.items()
    }
    with _served(tmp_path, answers) as app:
        for name in kinds:
            result = _call(app, name)
            assert isinstance(result, RawResult)
            assert result.text.decode() == large


def test_m18_what_is_packed_is_bounded_as_it_is_unpacked(tmp_path: Path) -> None:
    """A megabyte of it is a gigabyte; it is not asked for, and taken all the same."""
    answers = {
        "bomb": _answer(_result("x" * 64 * _MIB), _JSON, encoding="gzip"),
        "fits": _answer(_result("x" * _MIB), _JSON, encoding="gzip"),
    }
    with _served(tmp_path, answers) as app:
        with pytest.raises(UpstreamError, match=r"^s: .* at most 16 MiB are read"):
            _call(app, "bomb")
        assert isinstance(_call(app, "fits"), RawResult)

"""An MCP server over stdio that behaves, or misbehaves, as its one argument says.

The argument is a JSON object; every key is optional. It is written by hand, with
nothing but the standard library, so that it starts at once and can say what no
library would let it say.

    name           what the server calls itself
    tools          the entries of its list, sent as they stand
    tools_file     a JSON file with the entries instead; a change sends list_changed
    page_size      the list comes in pages of this many
    endless        every page names a next one: "new" cursors, or the "same" one
    list_error     tools/list is answered with this error message
    discover       server/discover is refused ("refuse"), ignored ("silent"), or answered in
                   the protocol of 2026-07-28 ("answer"), whose results are then the script's
    refusal        the code of the error for methods that it does not know
    starts         a file that gets a line with the process id at each start
    stdout         printed first; stdout_hex: the same, as bytes
    stderr         printed first on stderr
    stderr_env     the value of this environment variable is printed on stderr
    exit           the process ends with this code, having printed
    hang           nothing is ever read or answered
    stubborn       SIGTERM is ignored, and so is the end of stdin
    child          a process of its own that ignores SIGTERM; its id goes to this file
    daemon         the same in a session of its own, with no parent and no open file
    dies           while this file exists, the process ends once it has listed its tools
    listings       a file that gets a line with the time (monotonic) at each listing
    lists          only this many listings are answered
    restless       each listing is followed by list_changed
    calls          a file that gets a line with the parameters at each call
    results        tool name to the result of calling it, sent as it stands; a tool that
                   is not among them answers with what it was given
    errors         tool name to the JSON-RPC error of calling it
    raw            tool name, or tools/list, to the line that answers it, sent as it stands
                   with the request's id for every ID in it
    silent         calls of these tools are never answered
    cancels        a file that gets a line with the request's id at each cancellation
    progress       so often progress is told before a call is answered
    pace           seconds after each of these
    elicits        asks this of the user before it answers a call, and answers with the reply
    fields         the properties of the form that "elicits" shows; else one, "name"
    resources      URIs that are listed; every URI that is asked for is answered, with "says"
    templates      URI templates that are listed
    reads          a file that gets a line with the URI at each resource that is asked for
    slow           seconds before a call is answered
    fate           a JSON file; what it holds at the start counts as well
    floods         a file; while it names one of these floods, that goes on
    flood          once the tools are listed, without end: "stderr", "stdout", "line",
                   "notifications" or "list_changed"
"""

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

_GIVEN: dict[str, Any] = json.loads(sys.argv[1])
_FATE: dict[str, Any] = (
    json.loads(Path(_GIVEN["fate"]).read_text("utf-8")) if "fate" in _GIVEN else {}
)
WILL: dict[str, Any] = _GIVEN | _FATE
_LISTINGS = itertools.count()
_ASKED = itertools.count()
_ASKING: dict[str, Any] = {}
_LOCK = threading.Lock()
_CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
_FLOODS = {
    "stdout": "this is not MCP\n" * 100,
    "line": "x" * 65536,
    "notifications": json.dumps(
        {
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": "info", "data": "x" * 1000},
        }
    )
    + "\n",
    "list_changed": json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    + "\n",
}


def say(text: str) -> None:
    with _LOCK:
        sys.stdout.write(text)
        sys.stdout.flush()


def send(**message: Any) -> None:
    say(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def tools() -> list[Any]:
    if "tools_file" in WILL:
        return json.loads(Path(WILL["tools_file"]).read_text("utf-8"))
    return WILL.get("tools", [])


def listing(params: dict[str, Any]) -> dict[str, Any]:
    size = WILL.get("page_size")
    if not size:
        return {"tools": tools()}
    start = int(params.get("cursor") or 0)
    page: dict[str, Any] = {"tools": tools()[start : start + size]}
    if WILL.get("endless") == "new":
        page = {"tools": tools(), "nextCursor": str(start + 1)}
    elif WILL.get("endless") == "same":
        page = {"tools": tools(), "nextCursor": "1"}
    elif start + size < len(tools()):
        page["nextCursor"] = str(start + size)
    return page


def hello(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": params.get("protocolVersion", "2025-06-18"),
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": WILL.get("name", "scripted"), "version": "1"},
    }


def discovery() -> dict[str, Any]:
    versions = {"supportedVersions": ["2026-07-28"], "resultType": "complete"}
    return versions | {"capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}


def answer(identifier: Any, method: str, params: dict[str, Any]) -> None:  # noqa: C901, PLR0912 - a table
    if method == "initialize":
        send(id=identifier, result=hello(params))
    elif method == "tools/list" and "list_error" in WILL:
        send(id=identifier, error={"code": -32000, "message": WILL["list_error"]})
    elif method == "tools/list" and next(_LISTINGS) >= WILL.get("lists", math.inf):
        return
    elif method == "tools/list" and method in WILL.get("raw", {}):
        say_raw(identifier, method)
    elif method == "tools/list":
        note("listings", time.monotonic())
        modern = discovery() if WILL.get("discover") == "answer" else {}
        send(id=identifier, result=modern | listing(params))
        if WILL.get("restless"):
            send(method="notifications/tools/list_changed")
        if "dies" in WILL and Path(WILL["dies"]).exists():
            os._exit(1)
        if "flood" in WILL:
            threading.Thread(target=flood, args=(WILL["flood"],), daemon=True).start()
    elif method.startswith(("resources/", "completion/")):
        send(id=identifier, result=resource(method, params))
    elif method == "tools/call":
        note("calls", json.dumps(params))
        threading.Thread(target=call, args=(identifier, params), daemon=True).start()
    elif method == "server/discover" and WILL.get("discover") == "answer":
        send(id=identifier, result=discovery())
    elif method == "ping":
        send(id=identifier, result={})
    elif method != "server/discover" or WILL.get("discover") != "silent":
        send(
            id=identifier,
            error={"code": WILL.get("refusal", -32601), "message": "Method not found"},
        )


def resource(method: str, params: dict[str, Any]) -> dict[str, Any]:
    says = WILL.get("says", "")
    if method == "resources/list":
        return {"resources": [{"uri": u, "name": says} for u in WILL.get("resources", [])]}
    if method == "resources/templates/list":
        rows = [{"uriTemplate": each, "name": says} for each in WILL.get("templates", [])]
        return {"resourceTemplates": rows}
    uri = params.get("uri") or params["ref"]["uri"]
    note("reads", uri)
    if method == "completion/complete":
        return {"completion": {"values": [says]}}
    return {"contents": [{"uri": uri, "text": says}]}


def call(identifier: Any, params: dict[str, Any]) -> None:
    name = params["name"]
    meta: dict[str, Any] = params.get("_meta", {})
    token = meta.get("progressToken")
    time.sleep(WILL.get("slow", 0))
    for step in range(WILL.get("progress", 0) if token is not None else 0):
        told: dict[str, Any] = {"progress": step + 1, "total": WILL["progress"]}
        told |= {"progressToken": token, "message": f"step {step + 1}"}
        send(method="notifications/progress", params=told)
        time.sleep(WILL.get("pace", 0))
    if name in WILL.get("errors", {}):
        send(id=identifier, error=WILL["errors"][name])
    elif name in WILL.get("silent", []):
        return
    elif name in WILL.get("raw", {}):
        say_raw(identifier, name)
    elif "elicits" in WILL:
        asked = f"ask-{next(_ASKED)}"
        _ASKING[asked] = identifier
        fields = WILL.get("fields", {"name": {"type": "string"}})
        schema = {"type": "object", "properties": fields}
        question = {"mode": "form", "message": WILL["elicits"], "requestedSchema": schema}
        send(id=asked, method="elicitation/create", params=question)
    else:
        send(id=identifier, result=WILL.get("results", {}).get(name) or said(params))


def say_raw(identifier: Any, name: str) -> None:
    say(WILL["raw"][name].replace("ID", json.dumps(identifier)) + "\n")


def said(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def flood(kind: str) -> None:
    while True:
        gush(kind)


def gush(kind: str) -> None:
    if kind == "stderr":
        sys.stderr.write("flood " * 2000 + "\n")
    else:
        say(_FLOODS[kind])


def flood_as_told(path: Path) -> None:
    while True:
        kind = path.read_text("utf-8")
        gush(kind) if kind else time.sleep(0.02)


def watch(path: Path) -> None:
    seen = path.stat().st_mtime_ns
    while True:
        time.sleep(0.02)
        if path.stat().st_mtime_ns != seen:
            seen = path.stat().st_mtime_ns
            send(method="notifications/tools/list_changed")


def note(key: str, value: object) -> None:
    if key in WILL:
        with Path(WILL[key]).open("a", encoding="utf-8") as file:
            file.write(f"{value}\n")


def begin() -> None:
    note("starts", os.getpid())
    if WILL.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in WILL:
        # The path is among the arguments so that a test can find the process by it.
        child = subprocess.Popen([sys.executable, "-S", "-c", _CHILD, WILL["child"]])
        Path(WILL["child"]).write_text(str(child.pid), "utf-8")
    if "daemon" in WILL and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(WILL["daemon"]).write_text(str(os.getpid()), "utf-8")
            os.closerange(0, 100)
            daemon = [sys.executable, "-S", "-c", _CHILD, WILL["daemon"]]
            os.execv(sys.executable, daemon)  # noqa: S606 - needs none
        os._exit(0)
    if "stdout_hex" in WILL:
        os.write(1, bytes.fromhex(WILL["stdout_hex"]))
    say(WILL.get("stdout", ""))
    sys.stderr.write(WILL.get("stderr", "") + os.environ.get(WILL.get("stderr_env", ""), ""))
    sys.stderr.flush()
    if "exit" in WILL:
        sys.exit(WILL["exit"])
    if "floods" in WILL:
        threading.Thread(target=flood_as_told, args=(Path(WILL["floods"]),), daemon=True).start()
    if "tools_file" in WILL:
        threading.Thread(target=watch, args=(Path(WILL["tools_file"]),), daemon=True).start()


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer(message["id"], message["method"], message.get("params") or {})
        elif message.get("id") in _ASKING:
            reply = message.get("result") or message.get("error")
            send(id=_ASKING.pop(message["id"]), result=said(reply))
        elif message.get("method") == "notifications/cancelled":
            note("cancels", message["params"]["requestId"])


begin()
while WILL.get("hang"):
    time.sleep(600)
serve()
while WILL.get("stubborn"):
    time.sleep(600)
os._exit(0)  # a flooding thread may hold stdout

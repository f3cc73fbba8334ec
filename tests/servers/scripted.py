"""An MCP server over stdio that behaves, or misbehaves, as its one argument says.

It is the server of ``toolscript.testing``, whose keys it knows, with more of them:

    tools_file     a JSON file with the entries instead; a change sends list_changed
    methods        a file that gets a line with the method of each request
    ttl_ms         for how long the newest protocol calls the list valid
    page_size      the list comes in pages of this many
    endless        every page names a next one: "new" cursors, or the "same" one
    list_error     tools/list is answered with this error message
    discover       server/discover is refused ("refuse"), ignored ("silent"), or answered in
                   the protocol of 2026-07-28 ("answer"), whose results are then the script's
    refuses        methods that it does not know
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
    list_s         how long each listing but the first takes, in seconds
    restless       each listing is followed by list_changed
    calls          a file that gets a line with the parameters at each call
    raw            tool name, or tools/list, to the line that answers it, sent as it stands
                   with the request's id for every ID in it
    ends           the id of a task to the result with which it has ended
    cancels        a file that gets a line with the request's id at each cancellation
    elicits        asks this of the user before it answers a call, and answers with the reply
    fields         the properties of the form that "elicits" shows; else one, "name"
    tells          a call is answered with the process id and the working directory
    placed         a call's answer has the working directory, too
    resources      URIs that are listed; every URI that is asked for is answered, with "says"
    templates      URI templates that are listed
    reads          a file that gets a line with the URI at each resource that is asked for
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

# The program starts without site-packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
from toolscript.testing.server_program import JsonObject, ScriptedServer, text_result

_CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
_LIST_CHANGED = {"method": "notifications/tools/list_changed"}
_MESSAGE = {"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}}
_FLOODS = {
    "stdout": "this is not MCP\n" * 100,
    "line": "x" * 65536,
    "notifications": json.dumps({"jsonrpc": "2.0", **_MESSAGE}) + "\n",
    "list_changed": json.dumps({"jsonrpc": "2.0", **_LIST_CHANGED}) + "\n",
}
_DISCOVERY: JsonObject = {
    "supportedVersions": ["2026-07-28"],
    "resultType": "complete",
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


def in_thread(work: Any, *args: object) -> None:
    threading.Thread(target=work, args=args, daemon=True).start()


class MisbehavingServer(ScriptedServer):
    def __init__(self, script: JsonObject) -> None:
        fate = Path(script["fate"]).read_text("utf-8") if "fate" in script else "{}"
        super().__init__(script | json.loads(fate))
        self.listings = itertools.count()
        self.elicitations = itertools.count()
        self.waiting: JsonObject = {}
        """A question's id to the id of the call that waits for its answer."""

    def note(self, key: str, value: object) -> None:
        if key in self.script:
            with Path(self.script[key]).open("a", encoding="utf-8") as file:
                file.write(f"{value}\n")

    def receive(self, message: JsonObject) -> None:
        if message.get("method") == "notifications/cancelled":
            self.note("cancels", message["params"]["requestId"])
        elif "method" not in message and message.get("id") in self.waiting:
            reply = message.get("result") or message.get("error")
            self.send(id=self.waiting.pop(message["id"]), result=text_result(reply))
        else:
            super().receive(message)

    def answer(self, identifier: Any, method: str, params: JsonObject) -> None:
        self.note("methods", method)
        if method in self.script.get("refuses", []):
            self.send(id=identifier, error={"code": -32601, "message": "Method not found"})
        elif method == "tools/list":
            self.list_tools(identifier, params)
        elif method in self.script.get("others", {}):
            super().answer(identifier, method, params)
        elif method == "tasks/get" and "ends" in self.script:
            ended = {"status": "completed", "result": self.script["ends"][params["taskId"]]}
            self.send(id=identifier, result={"taskId": params["taskId"], **ended})
        elif method.startswith("resources/"):
            self.send(id=identifier, result={**self.modern, **self.resource(method, params)})
        elif method == "server/discover" and self.script.get("discover") == "answer":
            self.send(id=identifier, result=_DISCOVERY)
        elif method != "server/discover" or self.script.get("discover") != "silent":
            if method == "tools/call":
                self.note("calls", json.dumps(params))
            super().answer(identifier, method, params)

    @property
    def modern(self) -> JsonObject:
        return _DISCOVERY if self.script.get("discover") == "answer" else {}

    def list_tools(self, identifier: Any, params: JsonObject) -> None:
        script = self.script
        if "list_error" in script:
            self.send(id=identifier, error={"code": -32000, "message": script["list_error"]})
            return
        listing = next(self.listings)
        if listing >= script.get("lists", math.inf):
            return
        if "tools/list" in script.get("raw", {}):
            self.send_raw(identifier, "tools/list")
            return
        self.note("listings", time.monotonic())
        time.sleep(script.get("list_s", 0) if listing else 0)
        modern = self.modern
        if "ttl_ms" in script:
            modern = modern | {"ttlMs": script["ttl_ms"]}
        self.send(id=identifier, result=modern | self.page(params))
        if script.get("restless"):
            self.send(**_LIST_CHANGED)
        if "dies" in script and Path(script["dies"]).exists():
            os._exit(1)
        if "flood" in script:
            in_thread(self.flood, script["flood"])

    def page(self, params: JsonObject) -> JsonObject:
        tools: list[Any] = self.script.get("tools", [])
        if "tools_file" in self.script:
            tools = json.loads(Path(self.script["tools_file"]).read_text("utf-8"))
        size, endless = self.script.get("page_size"), self.script.get("endless")
        if not size:
            return {"tools": tools}
        start = int(params.get("cursor") or 0)
        if endless:
            return {"tools": tools, "nextCursor": str(start + 1) if endless == "new" else "1"}
        more = {"nextCursor": str(start + size)} if start + size < len(tools) else {}
        return {"tools": tools[start : start + size], **more}

    def resource(self, method: str, params: JsonObject) -> JsonObject:
        says = self.script.get("says", "")
        if method == "resources/list":
            uris = self.script.get("resources", [])
            return {"resources": [{"uri": uri, "name": says} for uri in uris]}
        if method == "resources/templates/list":
            templates = self.script.get("templates", [])
            rows = [{"uriTemplate": template, "name": says} for template in templates]
            return {"resourceTemplates": rows}
        self.note("reads", params["uri"])
        return {"contents": [{"uri": params["uri"], "text": says}]}

    def reply(self, identifier: Any, params: JsonObject) -> None:
        if params["name"] in self.script.get("raw", {}):
            self.send_raw(identifier, params["name"])
        elif "elicits" in self.script:
            question_id = f"ask-{next(self.elicitations)}"
            self.waiting[question_id] = identifier
            fields = self.script.get("fields", {"name": {"type": "string"}})
            schema = {"type": "object", "properties": fields}
            question = {"mode": "form", "message": self.script["elicits"]}
            question["requestedSchema"] = schema
            self.send(id=question_id, method="elicitation/create", params=question)
        elif self.script.get("tells"):
            place = {"pid": os.getpid(), "cwd": str(Path.cwd())}
            self.send(id=identifier, result=text_result(place))
        elif self.script.get("placed"):
            echo = {"name": params["name"], "arguments": params.get("arguments")}
            self.send(id=identifier, result=text_result({**echo, "cwd": str(Path.cwd())}))
        else:
            super().reply(identifier, params)

    def send_raw(self, identifier: Any, name: str) -> None:
        self.write(self.script["raw"][name].replace("ID", json.dumps(identifier)) + "\n")

    def flood(self, kind: str) -> None:
        while True:
            self.gush(kind)

    def gush(self, kind: str) -> None:
        if kind == "stderr":
            sys.stderr.write("flood " * 2000 + "\n")
        else:
            self.write(_FLOODS[kind])

    def flood_while_named(self, path: Path) -> None:
        while True:
            kind = path.read_text("utf-8")
            self.gush(kind) if kind else time.sleep(0.02)

    def watch(self, path: Path) -> None:
        seen = path.stat().st_mtime_ns
        while True:
            time.sleep(0.02)
            if path.stat().st_mtime_ns != seen:
                seen = path.stat().st_mtime_ns
                self.send(**_LIST_CHANGED)

    def begin(self) -> None:
        script = self.script
        self.note("starts", os.getpid())
        if script.get("stubborn"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "child" in script:
            # The path is among the arguments so that a test can find the process by it.
            child = subprocess.Popen([sys.executable, "-S", "-c", _CHILD, script["child"]])
            Path(script["child"]).write_text(str(child.pid), "utf-8")
        if "daemon" in script:
            start_daemon(script["daemon"])
        if "stdout_hex" in script:
            os.write(1, bytes.fromhex(script["stdout_hex"]))
        self.write(script.get("stdout", ""))
        from_environment = os.environ.get(script.get("stderr_env", ""), "")
        sys.stderr.write(script.get("stderr", "") + from_environment)
        sys.stderr.flush()
        if "exit" in script:
            sys.exit(script["exit"])
        if "floods" in script:
            in_thread(self.flood_while_named, Path(script["floods"]))
        if "tools_file" in script:
            in_thread(self.watch, Path(script["tools_file"]))

    def run(self) -> None:
        self.begin()
        while self.script.get("hang"):
            time.sleep(600)
        self.serve()
        while self.script.get("stubborn"):
            time.sleep(600)
        os._exit(0)  # a flooding thread may hold stdout


def start_daemon(path: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path).write_text(str(os.getpid()), "utf-8")
            os.closerange(0, 100)
            os.execv(sys.executable, [sys.executable, "-S", "-c", _CHILD, path])  # noqa: S606 - needs none
        os._exit(0)


MisbehavingServer(json.loads(sys.argv[1])).run()

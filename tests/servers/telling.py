"""An MCP server that says its environment in every way that a server has.

Each variable whose name begins with ``STORED_`` counts, in all spellings: on standard error at the
start, in the description and the schema of its tools, in its prompts and resources, in results, in
errors, and as the last words if it ends.

    tell       a result with the environment
    large      the same, larger than is parsed at once
    refuse     an error with the environment
    end        the process ends
    digests    the SHA-256 of each variable: what it really has
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

# The program starts without site-packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
from tests.hostile.redaction_corpus import spellings

from toolscript.testing.server_program import JsonObject, ScriptedServer, text_result

VALUES = {name: value for name, value in os.environ.items() if name.startswith("STORED_")}
LINES = [line for value in VALUES.values() for line in spellings(value).values()]
TEXT = "\n".join(LINES)
FEW = "\n".join(LINES[:40])


def tool(name: str, text: str = "") -> JsonObject:
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": text}}}
    return {"name": name, "description": f"{name} the environment {text}", "inputSchema": schema}


class TellingServer(ScriptedServer):
    def answer(self, identifier: Any, method: str, params: JsonObject) -> None:
        if method in {"prompts/get", "resources/read"}:
            message = {"role": "user", "content": {"type": "text", "text": TEXT}}
            contents = [{"uri": "told://x", "text": TEXT}]
            self.send(id=identifier, result={"messages": [message], "contents": contents})
        else:
            super().answer(identifier, method, params)

    def call(self, identifier: Any, params: JsonObject) -> None:
        name = params["name"]
        if name == "refuse":
            error = {"code": -32050, "message": FEW, "data": {"lines": LINES[:100]}}
            self.send(id=identifier, error=error)
        elif name == "end":
            sys.stderr.write(f"{LINES[0]} {LINES[-1]}")
            sys.stderr.flush()
            os._exit(1)
        elif name == "digests":
            hashes = {k: hashlib.sha256(v.encode()).hexdigest() for k, v in VALUES.items()}
            self.send(id=identifier, result=text_result(hashes))
        else:
            content = [{"type": "text", "text": TEXT}] * (5 if name == "large" else 1)
            told = {"content": content, "structuredContent": {"lines": LINES}}
            self.send(id=identifier, result=told)


def main() -> None:
    for at in range(0, len(TEXT), 1000):  # not by lines
        os.write(2, TEXT[at : at + 1000].encode())
    os.write(2, b"\n")
    tools = [tool("tell", FEW), *map(tool, ("large", "refuse", "end", "digests"))]
    script = {
        "name": LINES[0] if LINES else "telling",
        "tools": tools,
        "others": {
            "prompts/list": {"prompts": [{"name": "p", "description": line} for line in LINES]},
            "resources/list": {"resources": [{"uri": "told://x", "name": FEW}]},
        },
    }
    TellingServer(script).serve()


main()

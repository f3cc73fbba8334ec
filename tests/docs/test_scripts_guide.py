"""The scripts of the guide run, with a server that answers as the one for files does."""

import json
from pathlib import Path

from tests.docs.pages import DOCS, fences
from tests.support import FUZZY, Cli, Scripted, stop_all, tool

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CONTENT = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
TEXTS = {
    "list_directory": "[FILE] a.log\n[DIR] old\n[FILE] b.log",
    "read_text_file": "ERROR a\nok\nERROR b\n",
}


def test_the_scripts_of_the_guide_run(
    tmp_path: Path, scripted: Scripted, no_process_left: None
) -> None:
    del no_process_left
    cli = Cli(tmp_path, FUZZY)
    for fence in fences(DOCS / "guides" / "scripts.md"):
        if fence.file:
            (cli.home / fence.file).write_text(fence.text, "utf-8")
    results = {
        name: {"content": [{"type": "text", "text": text}], "structuredContent": {"content": text}}
        for name, text in TEXTS.items()
    }
    fate = tmp_path / "fate.json"
    fate.write_text(json.dumps({"results": results}), "utf-8")
    hints = {"annotations": {"readOnlyHint": True}, "outputSchema": CONTENT}
    tools = [tool(name, inputSchema=PATH) | hints for name in TEXTS]
    cli.configure(files=scripted(*tools, fate=str(fate)))
    cli.start_gateway("--scripts")
    done = cli("exec", "count.py")
    assert json.loads(done.stdout) == {"a.log": 2, "b.log": 2}, done.stderr
    stop_all([cli.record()["pid"]])

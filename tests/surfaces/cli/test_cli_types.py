"""``toolscript get-types`` and ``search --output types``, each run as a process."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.compilers import DENO, OFFLINE, tsc
from tests.servers.in_thread import serve_in_thread
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch, tool

FENCE = re.compile(r"^```typescript\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOSTILE = "Copy a file. ``` */ </script> | \u2028 \x1b[31m"


@pytest.fixture
def served(cli: Cli, scripted: Scripted) -> Cli:
    """A command line with a gateway of two servers."""
    cli.env = FUZZY
    path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    files = scripted({**READ_FILE, "inputSchema": path}, tool("copy|file", HOSTILE))
    cli.configure(files=files, mail=scripted(SEND_MAIL))
    cli.start_gateway()
    return cli


@contextmanager
def recorded(url: str) -> Generator[tuple[str, list[str]]]:
    """An address that passes requests on, and what was asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            try:
                answer = urllib.request.urlopen(url + self.path, timeout=30)  # noqa: S310 - a gateway of ours
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                body = answer.read()
                self.send_response(answer.status or 500)
            self.end_headers()
            self.wfile.write(body)

    with serve_in_thread(Handler) as port:
        yield f"http://127.0.0.1:{port}", asked


@pytest.mark.requirement("cli:types")
def test_search_results_as_types(served: Cli) -> None:
    """cli:types: the two calls of the seed, and its Markdown."""
    with recorded(served.record()["url"]) as (url, asked):
        environ = {"TOOLSCRIPT_GATEWAY_URL": url}
        done = served("search", "read_file", "--output", "types", "--limit", "1", env=environ)
    assert done.returncode == 0, done.stderr
    calls = [urlsplit(path) for path in asked if path.startswith(("/search", "/runtime"))]
    assert [call.path for call in calls] == ["/search", "/runtime/tools.ts"]
    assert parse_qs(calls[0].query)["q"] == ["read_file"]
    assert parse_qs(calls[1].query)["filter"] == ["files__read_file"]
    head, module, usage = done.stdout.split("```typescript\n")
    assert head == (
        "## Search Results\n\n| Tool | Confidence | Reason |\n|------|-----------|--------|\n"
        "| files__read_file | 1.00 | Exact name |\n\n"
    )
    assert module.startswith("// Auto-generated TypeScript client for MCP tools\n")
    assert module.endswith("}\n```\n\nUsage example:\n")
    assert usage == (
        'import { tools } from "toolscript";\n\n// Call tools using the generated client\n'
        'const result = await tools.files.read_file({ path: "file.txt" });\n```\n'
    )
    same = served("get-types", "--filter", "files__read_file").stdout
    assert module.removesuffix("```\n\nUsage example:\n") == same


@pytest.mark.requirement("cli:types")
def test_without_a_gateway_it_is_the_same(served: Cli) -> None:
    asked = ("search", "read_file", "--output", "types")
    served_by_gateway = served(*asked).stdout
    assert served("gateway", "stop").returncode == 0
    assert served(*asked).stdout == served_by_gateway


@pytest.mark.requirement("cli:types")
def test_a_hostile_description_stays_in_its_comment(served: Cli, tmp_path: Path) -> None:
    """cli:types: the Markdown has two blocks, the table its columns, the code compiles."""
    done = served("search", "copy|file", "--output", "types", "--limit", "1")
    assert done.stdout.count("```") == 4
    assert "| files__copy\\|file | " in done.stdout
    assert "\x1b" not in done.stdout
    module, usage = FENCE.findall(done.stdout)
    assert not tsc([save(tmp_path, "tools.ts", module)])
    save(tmp_path, "usage.ts", usage)
    assert not check(tmp_path, "usage.ts")


@pytest.mark.requirement("cli:types")
def test_nothing_found(served: Cli) -> None:
    """cli:types: as in a table."""
    done = served("search", "zxqv blorp", "--output", "types", "--threshold", "0.99")
    assert done.stdout.startswith("No tools found matching query\n")


def save(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, "utf-8")
    imports = {"imports": {"toolscript": "./tools.ts"}}
    (folder / "map.json").write_text(json.dumps(imports), "utf-8")
    return folder / name


def check(folder: Path, name: str) -> str:
    command = [DENO, "check", "--quiet", *OFFLINE, f"--import-map={folder / 'map.json'}"]
    done = subprocess.run([*command, folder / name], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.requirement("cli:others")
def test_types_are_what_the_gateway_serves(served: Cli) -> None:
    """cli:others: get-types, in both languages."""
    url = served.record()["url"]
    for language in ("ts", "py"):
        path = f"/runtime/tools.{language}"
        assert served("get-types", "--lang", language).stdout == fetch(url, path)[1]
        long_name = {"ts": "typescript", "py": "python"}[language]
        assert served("get-types", "--lang", long_name).stdout == fetch(url, path)[1]
    one = served("get-types", "--filter", "mail", "--filter", "files__read_file").stdout
    assert one == fetch(url, "/runtime/tools.ts", {"filter": "mail,files__read_file"})[1]


@pytest.mark.requirement("cli:others")
def test_a_name_that_is_not_there(served: Cli) -> None:
    """cli:others: get-types."""
    done = served("get-types", "--filter", "mial")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toolscript: no server is called 'mial'; configured are: files, mail\n"

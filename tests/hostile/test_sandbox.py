"""Scripts under ``toolscript exec`` that want more than to call the tools they were given."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import FUZZY, Cli, Scripted, fetch, processes, stop_all, tool, until
from toolscript.surfaces.cli.gateway_client import RemoteClient
from toolscript.surfaces.cli.tool_proxy import MAX_BODY_BYTES, ToolProxy

IMPORT = 'import { text, ToolError, tools } from "toolscript";\n'
OLD = time.time() - 3600
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="rests on Linux's limits")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """A command line with a gateway of two servers, and a temporary directory of its own."""
    folder = tmp_path_factory.mktemp("hostile-exec")
    (folder / "tmp").mkdir()
    cli = Cli(folder, {**FUZZY, "TMPDIR": str(folder / "tmp")})
    scripted = Scripted(cli.home)
    calls, cancels = str(folder / "calls"), str(folder / "cancels")
    server = scripted(tool("echo"), tool("mute"), silent=["mute"], calls=calls, cancels=cancels)
    cli.configure(s=server, t=scripted(tool("echo")))
    cli.start_gateway()
    yield cli
    stop_all([cli.record()["pid"]])
    assert not processes(str(cli.home))


def run(cli: Cli, script: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run a script that is handed over on standard input."""
    return cli("exec", "-", *flags, given=script)


def started(cli: Cli, script: str) -> "subprocess.Popen[str]":
    """A run of a script that has said "up"; its standard input is a pipe."""
    file = cli.home / "script.ts"
    file.write_text(script, "utf-8")
    process = subprocess.Popen(
        cli.command("exec", str(file)),
        cwd=cli.home,
        env=cli.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    return process


def folders(cli: Cli) -> list[Path]:
    return sorted((cli.home / "tmp").glob("toolscript-exec-*"))


# M1: the gateway's key

KEYS = r"[\w-]{43}"
READS = {
    "module": f"""
        const module = await import("./main.js", {{ with: {{ type: "text" }} }});
        console.log(module.default.match(/{KEYS}/g).join("\\n"));
    """,
    "heap": f"""
        import v8 from "node:v8";
        const chunks = [], heap = v8.getHeapSnapshot();
        for await (const chunk of heap) chunks.push(chunk);
        const seen = new TextDecoder().decode(await new Blob(chunks).arrayBuffer());
        console.log([...new Set(seen.match(/{KEYS}/g))].join("\\n"));
    """,
    "globals": "console.log(globalThis.TOOLSCRIPT_GATEWAY_TOKEN);",
}


@pytest.mark.parametrize("how", READS)
def test_m1_what_a_script_can_read_is_not_the_gateways_key(served: Cli, how: str) -> None:
    """types:typescript: the key of the run, which is worth nothing afterwards."""
    done = run(served, READS[how])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "the key of the run is found: the script looks in the right place"
    assert served.record()["key"] not in done.stdout


def test_m1_the_key_of_a_run_admits_to_its_tools_only(served: Cli) -> None:
    """types:typescript: no other tool, no other route, no other way to the gateway."""
    url = served.record()["url"]
    script = f"""
    const base = globalThis.TOOLSCRIPT_GATEWAY_URL, token = globalThis.TOOLSCRIPT_GATEWAY_TOKEN;
    const headers = {{ Authorization: `Bearer ${{token}}`, "Content-Type": "application/json" }};
    const ask = async (where, method = "POST", more = headers) => {{
      try {{
        const body = method === "GET" ? null : "{{}}";
        const got = await fetch(where, {{ method, headers: more, body }});
        await got.body?.cancel();
        return got.status;
      }} catch (error) {{
        return error.name;
      }}
    }};
    console.log(JSON.stringify([
      await ask(`${{base}}/tools/s__echo`),
      await ask(`${{base}}/tools/s__echo`, "POST", {{}}),
      await ask(`${{base}}/tools/t__echo`),
      await ask(`${{base}}/tools/s__echo/../../graph/clear`),
      await ask(`${{base}}/graph/clear`),
      await ask(`${{base}}/message`),
      await ask(`${{base}}/tools`, "GET"),
      await ask("{url}/tools", "GET"),
      await ask("{url}/graph/clear"),
    ]));
    """
    done = run(served, script, "--filter", "s")
    assert done.returncode == 0, done.stderr
    refused = [401, 404, 404, 404, 404, 501, "NotCapable", "NotCapable"]
    assert json.loads(done.stdout) == [200, *refused]


def test_m1_another_program_of_this_machine_has_no_use_for_the_address() -> None:
    """types:typescript: it lacks the key; what is too long is not read."""
    gateway = RemoteClient("http://127.0.0.1:9", "of the test")
    with ToolProxy(gateway, ["s__echo"]) as proxy:
        proxy.serve()
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "é"}):
            asked = fetch(proxy.url, "/tools/s__echo", method="POST", headers=headers, body=b"{}")
            assert (asked[0], asked[1]["type"]) == (401, "AccessError")
        known = {"Authorization": f"Bearer {proxy.key}"}
        long = known | {"Content-Length": str(MAX_BODY_BYTES + 1)}
        asked = fetch(proxy.url, "/tools/s__echo", method="POST", headers=long)
        assert (asked[0], asked[1]["type"]) == (400, "InputError")
        asked = fetch(proxy.url, "/tools/s__echo", method="POST", headers=known, body=b"{}")
        assert (asked[0], asked[1]["type"]) == (502, "GatewayMissingError")


def test_m1_a_call_that_a_script_gives_up_is_cancelled(served: Cli) -> None:
    """types:typescript: as if the script had asked the gateway itself."""
    script = """
    setTimeout(() => Deno.exit(0), 60000);
    const headers = { Authorization: `Bearer ${globalThis.TOOLSCRIPT_GATEWAY_TOKEN}` };
    const stop = new AbortController();
    const where = `${globalThis.TOOLSCRIPT_GATEWAY_URL}/tools/s__mute`;
    fetch(where, { method: "POST", headers, body: "{}", signal: stop.signal }).catch(() => {});
    console.log("up");
    await new Response(Deno.stdin.readable).text();
    stop.abort();
    await new Promise(() => {});
    """
    with started(served, script) as process:
        try:
            calls, cancels = served.home / "calls", served.home / "cancels"
            until(lambda: calls.exists() and "mute" in calls.read_text("utf-8"), "it is called")
            assert process.stdin
            process.stdin.close()
            until(cancels.exists, "the call is cancelled")
        finally:
            process.terminate()


# M2: the parent is killed


@LINUX
@pytest.mark.parametrize(
    "script",
    [
        "console.log('up'); for (;;) {}",
        "console.log('up'); await new Promise(() => setInterval(() => {}, 1000));",
    ],
    ids=["busy", "idle"],
)
def test_m2_no_sandbox_outlives_its_parent(served: Cli, script: str) -> None:
    """types:typescript: and the folder that is left is deleted by a later run."""
    process = started(served, script)
    with process:
        assert processes("toolscript-exec-")
        process.kill()
    tmp = str(served.home / "tmp")
    until(lambda: not processes(tmp), "Deno has ended", 10)
    [left] = folders(served)
    assert served.record()["key"] not in (left / "main.js").read_text("utf-8")
    assert run(served, "1").returncode == 0
    assert folders(served) == [left], "it may be one that is just being made"
    os.utime(left, (OLD, OLD))
    assert run(served, "1").returncode == 0
    assert folders(served) == []


def test_m2_a_folder_in_use_is_left_alone(served: Cli) -> None:
    """types:typescript: however old it is."""
    script = "console.log('up'); await new Response(Deno.stdin.readable).text();\n"
    with started(served, f"{script}await import('toolscript');") as process:
        [used] = folders(served)
        os.utime(used, (OLD, OLD))
        assert run(served, "1").returncode == 0
        assert folders(served) == [used]
        process.communicate("go", timeout=60)
    assert process.returncode == 0
    assert folders(served) == []


@LINUX
def test_m2_m3_the_system_limits_cpu_time_and_files(served: Cli) -> None:
    """types:typescript: where nobody is left to stop it, and whatever Deno itself would allow."""
    idle = "console.log('up'); await new Promise(() => setInterval(() => {}, 1000))"
    with started(served, idle) as process:
        [pid] = [p for p, args in processes(str(served.home / "tmp")).items() if "deno" in args]
        limits = Path(f"/proc/{pid}/limits").read_text("utf-8")
        process.terminate()
    assert re.search(r"Max cpu time +\d+ +\d+ +seconds", limits)
    assert re.search(r"Max file size +0 +0 ", limits)


# M3: the disk

FILLS = """
const tried = {
  cache: async () => {
    const cache = await caches.open("x");
    await cache.put("http://x/", new Response(new Uint8Array(1e6)));
  },
  storage: () => localStorage.setItem("x", "x".repeat(1e6)),
  modules: async () => {
    const text = `const a: number = 1; export const b = "${"x".repeat(1e6)}"`;
    for (let at = 0; at < 5; at++) {
      await import("data:application/typescript," + encodeURIComponent(`${text} + ${at}`));
    }
    const blob = new Blob([text], { type: "application/typescript" });
    await import(URL.createObjectURL(blob));
  },
  temporary: () => Deno.makeTempFile(),
  database: async () => {
    const { DatabaseSync } = await import(["node", "sqlite"].join(":"));
    new DatabaseSync("x.db").exec("create table t (x)");
  },
};
const failed = [];
for (const [name, fill] of Object.entries(tried)) {
  try { await fill(); } catch { failed.push(name); }
}
console.log("up");
console.log(failed.join());
await new Response(Deno.stdin.readable).text();
"""


def test_m3_a_script_writes_nothing_to_the_disk(served: Cli) -> None:
    """types:typescript: neither by a cache nor by a storage nor as compiled modules."""
    with started(served, FILLS) as process:
        [folder] = folders(served)
        found = {path.name for path in (served.home / "tmp").rglob("*") if path.is_file()}
        assert found == {"main.js", "script.ts", "toolscript.ts", "imports.json"}
        assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        said = process.stdout.read()
    assert said == "cache,storage,temporary,database\n"


# L19: a worker

WORKER = """
const code = "data:application/javascript,postMessage(1)";
const worker = new Worker(code, { type: "module" });
await new Promise((done) => (worker.onmessage = done));
console.log("worked");
Deno.exit(0);
"""


@LINUX
def test_l19_what_a_worker_takes_is_said(served: Cli) -> None:
    """types:typescript: it is too much for the default, and enough with what the message says."""
    done = run(served, WORKER)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("give it more with --memory (a Worker takes 540 MiB of it)\n")
    done = run(served, WORKER, "--memory", str(256 + 540))
    assert (done.returncode, done.stdout) == (0, "worked\n"), done.stderr

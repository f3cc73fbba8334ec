"""Stored secrets: no file, log, answer or process list has one but its server's environment."""

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.hostile.redaction_corpus import CASES, SHORT, leaked, spellings
from tests.stdio_sessions import said, session
from tests.support import FUZZY, HELPERS, READ_FILE, Cli, Scripted, fetch, post, tool, until
from toolscript.config.entry import EntryError, Source, server
from toolscript.config.secret_store import SecretStore, resolve_secrets
from toolscript.config.trust import describe
from toolscript.errors import UpstreamError
from toolscript.text.redaction import redact
from toolscript.types import ServerSpec

SECRETS = list(dict.fromkeys(case.secret for case in CASES))
TOLD = {f"STORED_{n}": text for n, text in enumerate(SECRETS) if len(text) > SHORT}
"""Those that a server tells; of shorter ones too many words of a page would be one."""


def entry(**more: Any) -> dict[str, Any]:
    return {"command": "some-server", **more}


def spec_of(raw: dict[str, Any], store: SecretStore) -> ServerSpec:
    return server("s", raw, Source({"OTHER": "x"}, secret_version=store.version))


@pytest.fixture
def store(cli: Cli) -> SecretStore:
    return SecretStore(cli.home / ".toolscript")


@pytest.mark.parametrize("secret", SECRETS)
def test_no_spelling_of_a_stored_secret_is_shown(secret: str, store: SecretStore) -> None:
    store.set("x", secret)
    spec = spec_of(entry(env={"FLAVOUR": "${secret:x}"}), store)
    assert not leaked(secret, repr(spec.digest) + json.dumps(spec.env) + repr(spec.secrets))
    resolved = resolve_secrets(spec, store)
    assert resolved.spec.env == {"FLAVOUR": secret}
    for how, line in spellings(secret).items():
        for hidden in (resolved.secrets, resolve_secrets(spec, store, asks=False).secrets):
            assert not leaked(secret, redact(line, hidden)), (how, line)


def test_a_secret_takes_its_place_when_the_server_is_started(store: SecretStore) -> None:
    value = "pa/ss ${secret:b} ${OTHER}"
    store.set("a", value)
    store.set("b", "bbbbbb")
    raw = {
        **entry(args=["--dsn", "${OTHER}:${secret:a}", "$${secret:b}", "${NONE:-${secret:a}}"]),
        "env": {"A": "${secret:a}", "B": "1"},
    }
    spec = spec_of(raw, store)
    assert spec.args[1] == "x:${secret:a}"
    assert spec.secret_versions == {"a": store.version("a")}
    resolved = resolve_secrets(spec, store).spec
    assert resolved.args == ("--dsn", f"x:{value}", "${secret:b}", value)
    assert resolved.env == {"A": value, "B": "1"}
    remote = {"url": "https://h.example/x?k=${secret:a}", "headers": {"X-K": "K ${secret:a}"}}
    resolved = resolve_secrets(spec_of(remote, store), store).spec
    assert resolved.url == f"https://h.example/x?k={quote(value, safe='')}"
    assert resolved.headers == {"X-K": f"K {value}"}


def test_a_secret_that_is_not_there_is_named(store: SecretStore) -> None:
    spec = spec_of(entry(env={"A": "${secret:git.hub-1}"}), store)
    with pytest.raises(UpstreamError) as caught:
        resolve_secrets(spec, store)
    assert str(caught.value) == (
        "needs the secret git.hub-1; store it with: toolscript secret set git.hub-1"
    )
    assert resolve_secrets(spec, store, asks=False).secrets == spec.secrets


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"command": "${secret:a}"}, "command has ${secret:a}, which only env, headers, args and"),
        (entry(cwd="${secret:a}"), "cwd has ${secret:a}, which only env"),
        (entry(includeTools=["${secret:a}"]), "includeTools has ${secret:a}, which only"),
        (
            {"url": "https://x.org", "oauth": {"clientId": "${secret:a}"}},
            "oauth.clientId has ${secret:a}, which only",
        ),
        (entry(args=["${secret:}"]), "args has ${secret:…} with a name that no secret can have"),
        (entry(env={"A": "${secret:a b}"}), "env.A has ${secret:…} with a name that"),
        (entry(env={"A": "${secret:a:-b}"}), "env.A has ${secret:…} with a name that"),
        ({"url": "${secret:a}"}, "url is a string; expected http"),
    ],
)
def test_a_secret_in_another_place_is_a_mistake(
    raw: dict[str, Any], message: str, store: SecretStore
) -> None:
    with pytest.raises(EntryError, match=f"^{re.escape(message)}"):
        spec_of(raw, store)


def test_the_user_sees_which_secrets_a_projects_entry_takes() -> None:
    """Before anything else, so that no long argument hides them."""
    raw = entry(args=["x" * 400, "${secret:b}"], env={"A": "${OTHER:-${secret:a}}"})
    assert describe(raw).startswith("with your secrets a, b; some-server xxx")
    assert describe({"url": "https://x.org", "headers": {"K": "${secret:k}"}}) == (
        "with your secrets k; https://x.org; headers K"
    )


# A server that tells everything, at every door


def parts() -> set[str]:
    """Every eight characters in a row of each secret, in the spellings of `leaked`."""
    found = set[str]()
    for secret in TOLD.values():
        coded = [secret, secret.upper(), json.dumps(secret)[1:-1], quote(secret, safe="")]
        for text in (*coded, secret.encode().hex()):
            size = min(8, len(text))
            found |= {text[at : at + size] for at in range(len(text) - size + 1)}
    return found - ENTRY_PARTS


ENTRY_PARTS = {"secrets/"}
"""Of a path that is a secret of the corpus; a folder of ours has the same name."""


def leaks(shown: str) -> list[str]:
    plain = re.sub(r"\b[0-9a-f]{16,64}\b", "", shown)
    return sorted(part for part in parts() if part in plain)


def process_list(cli: Cli) -> Iterator[str]:
    """The arguments and environments of a home's processes; of the server the arguments alone."""
    gateway = str(cli.record()["pid"])
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace")
            environ = (folder / "environ").read_bytes().decode(errors="replace")
        except OSError:  # it has ended, or is another user's
            continue
        if folder.name == gateway or str(cli.home) in arguments + environ:
            yield arguments if "telling.py" in arguments else arguments + environ


def test_nothing_of_a_stored_secret_comes_out(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    store = SecretStore(cli.home / ".toolscript")
    for name, text in TOLD.items():
        store.set(name, text)
    telling = [sys.executable, "-S", "-E", str(HELPERS / "telling.py"), str(cli.home)]
    env = {name: f"${{secret:{name}}}" for name in TOLD}
    cli.configure(
        told={"command": telling[0], "args": telling[1:], "env": env}, files=scripted(READ_FILE)
    )
    url = cli.start_gateway()
    owner = {"Authorization": f"Bearer {cli.record()['key']}"}
    shown: dict[str, Any] = {}
    with session(cli) as one:
        one.open()
        hashes = said(one.call("told:digests"))
        shown |= {f"MCP {name}": one.call(f"told:{name}") for name in ("tell", "large")}
        shown["MCP refuse"] = one.answer(
            one.begin(
                "tools/call",
                name="call_destructive_tool",
                arguments={"tool": "told:refuse", "arguments": {"x": TOLD["STORED_0"]}},
            )
        )
        for method in ("tools/list", "prompts/list", "resources/list"):
            shown[f"MCP {method}"] = one.ask(method)
        prompt = shown["MCP prompts/list"]["prompts"][0]["name"]
        shown["MCP prompt"] = one.ask("prompts/get", name=prompt)
        shown["MCP resource"] = one.ask("resources/read", uri="toolscript:///told/told://x")
    assert hashes == {k: hashlib.sha256(v.encode()).hexdigest() for k, v in TOLD.items()}
    listed = [*process_list(cli)]
    assert len(listed) >= 3, "both servers and the gateway"
    shown["process list"] = "\n".join(listed)
    for path in ("/servers", "/health", "/tools", "/activity", "/servers/log?server=told"):
        shown[path] = fetch(url, path, headers=owner)[1]
    shown["tells"] = post(url, "/tools/told__tell", {})[1]
    shown["refuses"] = post(url, "/tools/told__refuse", {"x": TOLD["STORED_0"]})[1]
    shown["types"] = fetch(url, "/runtime/tools.ts", headers=owner)[1]
    commands = (
        *(("list-servers",), ("list-tools",), ("describe", "told__tell"), ("doctor",)),
        *(("logs", "told", "--lines", "20"), ("call", "told__tell"), ("call", "told__refuse")),
        *(("search", "tell the environment", "--why", "told__tell"), ("activity",)),
        *(("call", "told__end"), ("list-servers",), ("logs", "told")),
        ("secret", "list"),
    )
    for words in commands:
        done = cli(*words)
        shown[" ".join(words)] = done.stdout + done.stderr
    assert cli("gateway", "stop").returncode == 0
    for file in (path for path in cli.home.rglob("*") if path.is_file()):
        if file != store.path:
            shown[str(file.relative_to(cli.home))] = file.read_bytes().decode(errors="replace")
    for door, answer in shown.items():
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        assert not leaks(text), door
        assert "***" in text or door not in {*shown} & MARKED, door
    assert any(name.startswith(".toolscript/logs/servers/") for name in shown)


MARKED = {
    *("MCP tell", "MCP large", "MCP refuse", "MCP prompt", "MCP resource"),
    *("MCP prompts/list", "tells", "refuses", "logs told --lines 20", "call told__tell"),
    *("/servers/log?server=told", "describe told__tell", "call told__refuse"),
}
"""Doors at which something was blanked."""


def test_a_secret_that_is_set_starts_its_server_and_a_new_value_starts_it_anew(
    cli: Cli, scripted: Scripted
) -> None:
    cli.env = FUZZY
    telling = ["-S", "-E", str(HELPERS / "telling.py"), str(cli.home)]
    env = {"STORED_KEY": "Bearer ${secret:key}"}
    cli.configure(told={"command": sys.executable, "args": telling, "env": env})
    url = cli.start_gateway()

    def status() -> dict[str, Any]:
        [told] = fetch(url, "/servers")[1]["servers"]
        return told

    def has(value: str) -> bool:
        answer = post(url, "/tools/told__digests", {})[1]
        digest = hashlib.sha256(f"Bearer {value}".encode()).hexdigest()
        return digest in json.dumps(answer)

    failed = until(lambda: status() if status()["state"] == "failed" else None, "it has failed")
    assert failed["error"] == "needs the secret key; store it with: toolscript secret set key"
    for value in ("first-value", "second-value"):
        assert cli("secret", "set", "key", given=value).returncode == 0
        until(lambda value=value: has(value), "it has the value", 10)
    until(lambda: status()["state"] == "ready", "it is ready")
    assert cli("secret", "rm", "key").returncode == 0
    missing = "needs the secret key; "
    until(lambda: missing in status()["error"], "it says so before it is called", 10)
    assert missing in str(post(url, "/tools/told__digests", {}))


def test_a_server_without_its_secret_does_not_rest(cli: Cli, scripted: Scripted) -> None:
    """It says so as soon as somebody looks, with a gateway and without."""
    cli.env = FUZZY
    assert cli("secret", "set", "key", given="first-value").returncode == 0
    cli.configure(s=scripted(tool("up"), env={"KEY": "${secret:key}"}))
    assert "ready" in cli("list-servers").stdout
    assert "resting" in cli("list-servers").stdout
    assert cli("secret", "rm", "key").returncode == 0
    assert "failed" in (shown := cli("list-servers").stdout)
    assert "needs the secret key; store it with: toolscript secret set key" in shown
    assert cli("secret", "set", "key", given="second-value").returncode == 0
    assert "ready" in cli("list-servers", "--refresh").stdout
    url = cli.start_gateway()
    assert fetch(url, "/servers")[1]["servers"][0]["state"] == "resting"
    assert cli("secret", "rm", "key").returncode == 0
    until(lambda: "failed" in cli("list-servers").stdout, "it has failed")

"""What a gateway does, in numbers: http:others."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch, post, until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def gateway(cli: Cli, scripted: Scripted) -> Cli:
    cli.env = FUZZY
    broken = scripted(stderr="hunter2-horse", exit=1)
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL), broken=broken)
    cli.start_gateway()
    return cli


def told(cli: Cli, token: str = "") -> tuple[str, Samples]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    status, text = fetch(cli.record()["url"], "/metrics", headers=headers)
    assert status == 200, text
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    return text, {(s.name, frozenset(s.labels.items())): s.value for s in samples}


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@pytest.mark.requirement("http:others")
def test_servers_tools_and_requests_are_counted(gateway: Cli) -> None:
    url = gateway.record()["url"]
    fetch(url, "/search", {"q": "hunter2-horse"})
    for path in ("/nowhere/hunter2-horse", "/nowhere/else"):
        fetch(url, path)
    for path in ("/ui/static/hunter2-horse.js", "/ui/tools/hunter2-horse.json"):
        fetch(url, path)
    post(url, "/tools/files__read_file", {})
    post(url, "/tools/files__hunter2-horse", {})
    text, found = told(gateway)
    assert found[key("toolscript_server_up", server="files")] == 1
    assert found[key("toolscript_server_up", server="broken")] == 0
    assert found[key("toolscript_server_tools", server="mail")] == 1
    assert found[key("toolscript_servers", state="ready")] == 2
    assert found[key("toolscript_tools")] == 2
    requests = "toolscript_requests_total"
    assert found[key(requests, route="/search", status="200")] == 1
    assert found[key(requests, route="other", status="404")] == 2
    assert found[key(requests, route="/tools/{tool}", status="200")] == 1
    assert found[key(requests, route="/tools/{tool}", status="404")] == 1
    assert found[key("toolscript_request_seconds_total", route="/search", status="200")] > 0
    assert found[key("toolscript_requests_running")] == 1
    assert found[key(requests, route="/ui/static", status="404")] == 1
    assert "hunter2" not in text


@pytest.mark.requirement("upstream:resources")
def test_what_servers_use_is_measured(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    far = {"url": "http://127.0.0.1:9/mcp"}
    cli.configure(files=scripted(READ_FILE), far=far)
    cli.start_gateway()
    _, found = told(cli)
    assert found[key("toolscript_server_processes", server="files")] == 1
    assert found[key("toolscript_server_memory_bytes", server="files")] > 2**20
    assert found[key("toolscript_server_cpu_seconds", server="files")] >= 0
    for name in ("processes", "memory_bytes", "cpu_seconds"):
        assert key(f"toolscript_server_{name}", server="far") not in found


def test_the_event_loop_is_watched_from_the_first_question_on(gateway: Cli) -> None:
    told(gateway)
    name = "toolscript_event_loop_lag_seconds_count"
    until(lambda: told(gateway)[1][key(name)] > 2, "it has been looked at")
    found = told(gateway)[1]
    whole = found[key("toolscript_event_loop_lag_seconds_sum")]
    assert found[key("toolscript_event_loop_lag_cpu_seconds_sum")] <= whole


@pytest.mark.requirement("http:others")
def test_a_token_bounds_what_is_counted(gateway: Cli) -> None:
    token = gateway("token", "create", "--server", "files").stdout.strip()
    assert fetch(gateway.record()["url"], "/metrics")[0] == 401
    text, found = told(gateway, token)
    assert found[key("toolscript_tools")] == 1
    assert "mail" not in text
    assert "toolscript_server_memory_bytes" not in text


def test_without_the_library_the_answer_says_what_to_install(
    cli: Cli, scripted: Scripted, tmp_path: Path
) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError", "utf-8")
    cli.env = FUZZY | {"PYTHONPATH": str(tmp_path)}
    cli.configure(files=scripted(READ_FILE))
    status, value = fetch(cli.start_gateway(), "/metrics")
    assert status == 501
    assert " -m pip install 'prometheus-client" in value["error"]

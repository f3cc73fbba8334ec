"""What the chart's containers run, run here in their order on a real database."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.shipped import CHART
from tests.postgres_server import PostgresServer
from tests.support import FUZZY, READ_FILE, Cli, Scripted, fetch, until

helm = pytest.importorskip("helm_python", reason="Helm's library has no wheel for this machine")
TEMPLATES = "toolscript/templates"


@pytest.mark.requirement("deploy:chart")
def test_the_first_token_and_a_gateway_run_on_an_empty_database(
    postgres: PostgresServer, tmp_path: Path, no_process_left: None
) -> None:
    postgres.execute("create database first_start")
    secrets: dict[str, str] = {"url": postgres.url("first_start"), "key": "k" * 44}
    values = {"config": {"mcpServers": {"files": Scripted(tmp_path)(READ_FILE)}}}
    with helm.Chart.load(str(CHART)) as chart:
        texts: dict[str, str] = chart.render(values, name="demo", namespace="tools")

    def pod(template: str) -> tuple[list[str], Cli]:
        """A pod's arguments, and what runs them: with its environment, in a home of its own."""
        spec = yaml.safe_load(texts[f"{TEMPLATES}/{template}.yaml"])["spec"]["template"]["spec"]
        [container] = spec["containers"]
        home = tmp_path / template
        home.mkdir(exist_ok=True)
        environment: dict[str, str] = FUZZY | {"TOOLSCRIPT_CONFIG": str(home / "toolscript.json")}
        for each in container["env"]:
            key: str = each.get("valueFrom", {}).get("secretKeyRef", {}).get("key", "")
            environment[each["name"]] = secrets[key] if key else each.get("value", "")
        here = {"TOOLSCRIPT_HOST": "127.0.0.1", "TOOLSCRIPT_PORT": "0"}
        return container["args"], Cli(home, environment | here)

    created = pod("deployment")[1]("token", "create")
    assert created.returncode == 0, created.stderr
    arguments, gateway = pod("deployment")
    config = yaml.safe_load(texts[f"{TEMPLATES}/configmap.yaml"])["data"]["toolscript.json"]
    (gateway.home / "toolscript.json").write_text(config, "utf-8")
    command = gateway.command(*arguments)
    with subprocess.Popen(command, env=gateway.environment(), cwd=gateway.home) as process:
        try:
            until(lambda: gateway.records, "the gateway has left its record")
            url = gateway.record()["url"]
            until(lambda: fetch(url, "/ready")[0] == 200, "it is ready")
            bearer = {"Authorization": f"Bearer {created.stdout.strip()}"}
            assert fetch(url, "/search", {"q": "read_file"})[0] == 401
            status, answer = fetch(url, "/search", {"q": "read_file"}, headers=bearer)
            assert (status, answer["results"][0]["toolId"]) == (200, "files__read_file")
        finally:
            process.terminate()

"""The compose file: what its schema says, and that its parts fit together."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.shipped import (
    COMPOSE,
    DEPLOY,
    PORT,
    PROBES,
    VERSION,
    check_arguments,
    compose,
    program,
    stages,
    unknown_variables,
)
from toolscript.config.servers import load_config
from toolscript.surfaces.http.gateway_process import GRACE_S

SERVICES: dict[str, dict[str, Any]] = compose()["services"]
OURS = {name for name, service in SERVICES.items() if service["image"].startswith("toolscript:")}
GATEWAYS = {name for name in OURS if name.startswith("gateway")}


def lint(file: Path) -> int:
    return program("check-jsonschema", "--builtin-schema", "vendor.compose-spec", file).returncode


@pytest.mark.requirement("deploy:compose")
def test_the_schema_is_fulfilled() -> None:
    assert lint(COMPOSE) == 0


def test_gateways_wait_for_the_database() -> None:
    assert len(GATEWAYS) == 2
    for name in (*GATEWAYS, "token"):
        assert SERVICES[name]["depends_on"]["postgres"]["condition"] == "service_healthy"


def test_commands_and_variables_exist() -> None:
    for name in OURS:
        check_arguments(SERVICES[name].get("command", []))
        assert unknown_variables(SERVICES[name]["environment"]) == set(), name
    assert SERVICES["token"]["command"] == ["token", "create"]


def test_the_balancer_names_each_gateway() -> None:
    balancer = (DEPLOY / "Caddyfile").read_text("utf-8")
    [upstreams] = re.findall(r"\{\$GATEWAYS:(.*?)\}", balancer)
    assert set(upstreams.split()) == {f"{name}:{PORT}" for name in GATEWAYS}
    [own] = re.findall(r"\{\$PORT:(\d+)\}", balancer)
    assert SERVICES["balancer"]["ports"] == [f"127.0.0.1:{PORT}:{own}"]


def test_what_gateways_share_is_the_same() -> None:
    shared = [SERVICES[name]["environment"] for name in OURS]
    assert all(each == shared[0] for each in shared)
    secrets = (shared[0]["TOOLSCRIPT_DATABASE"], shared[0]["TOOLSCRIPT_SECRET_KEY"])
    assert all("${" in secret for secret in secrets)


def test_probes_exist() -> None:
    for name in GATEWAYS:
        test = " ".join(SERVICES[name]["healthcheck"]["test"])
        [path] = re.findall(rf"http://127\.0\.0\.1:{PORT}(/\w+)", test)
        assert path in PROBES
    [path] = re.findall(r"health_uri (\S+)", (DEPLOY / "Caddyfile").read_text("utf-8"))
    assert path == "/ready"
    assert path in PROBES


def test_no_container_may_do_more_than_it_needs() -> None:
    for name in {*OURS, "balancer"}:
        service = SERVICES[name]
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    published = {name for name, service in SERVICES.items() if service.get("ports")}
    assert published == {"balancer"}
    assert compose()["networks"]["database"]["internal"]
    assert SERVICES["postgres"]["networks"] == ["database"]


def test_calls_under_way_have_the_time_to_end() -> None:
    for name in GATEWAYS:
        assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) > GRACE_S


def test_the_image_is_the_one_that_is_built() -> None:
    for name in OURS:
        build = SERVICES[name]["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
        assert build["target"] in stages()
        assert SERVICES[name]["image"] == f"toolscript:{VERSION}-{build['target']}"


def test_what_is_mounted_exists() -> None:
    volumes = set(compose()["volumes"])
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert source in volumes or (DEPLOY / source).exists(), mount


def test_the_configuration_that_comes_with_it_has_no_mistakes(tmp_path: Path) -> None:
    assert SERVICES["token"]["volumes"][0] == "./config:/etc/toolscript:ro"
    config = load_config(DEPLOY / "config" / "toolscript.json", tmp_path, {})
    assert config.servers
    assert config.problems == ()

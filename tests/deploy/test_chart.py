"""The Helm chart: what Helm and the schemas of Kubernetes say, and that values reach manifests."""

import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import kubernetes_validate  # pyright: ignore[reportMissingTypeStubs] - it has annotations, no stubs
import pytest
import yaml

from tests.deploy.shipped import (
    CHART,
    PORT,
    PROBES,
    USER,
    VERSION,
    check_arguments,
    unknown_variables,
)
from tests.docs.pages import Fence, every_fence
from toolscript.config.servers import load_config
from toolscript.surfaces.http.gateway_process import GRACE_S

helm = pytest.importorskip("helm_python", reason="Helm's library has no wheel for this machine")

Manifest = dict[str, Any]
SERVERS = {
    "docs": {"url": "https://docs.example.com/mcp", "headers": {"Authorization": "${DOCS_TOKEN}"}},
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
}
EVERYTHING: dict[str, Any] = {
    "replicaCount": 3,
    "image": {"repository": "images.example.com/toolscript", "tag": "0.1.0-stdio"},
    "imagePullSecrets": [{"name": "pull"}],
    "config": {"mcpServers": SERVERS},
    "database": {"existingSecret": "db", "urlKey": "address"},
    "secretKey": {"existingSecret": "seal", "key": "now", "previousKey": "before"},
    "env": [{"name": "TOOLSCRIPT_LOG_LEVEL", "value": "info"}],
    "envFrom": [{"secretRef": {"name": "servers"}}],
    "host": "::",
    "service": {"type": "NodePort", "port": 8080, "annotations": {"a.example.com/b": "c"}},
    "resources": {"limits": {"memory": "1Gi", "cpu": "2"}},
    "volumes": {"data": "5Gi", "tmp": "1Gi"},
    "startupProbe": {"failureThreshold": 300},
    "livenessProbe": {"periodSeconds": 21},
    "readinessProbe": {"failureThreshold": 9},
    "preStopSeconds": 11,
    "terminationGracePeriodSeconds": 91,
    "podDisruptionBudget": {"maxUnavailable": 4},
    "topologySpreadConstraints": [
        {"maxSkew": 5, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"team": "agents"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
    "serviceMonitor": {
        "enabled": True,
        "interval": "15s",
        "labels": {"release": "prometheus"},
        "tokenSecret": {"name": "metrics", "key": "bearer"},
    },
    "podAnnotations": {"a.example.com/pod": "yes"},
    "podLabels": {"team": "platform"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one replica": {"replicaCount": 1},
    "autoscaling": {"autoscaling": {"enabled": True, "maxReplicas": 9}},
    "everything": EVERYTHING,
}
WITHOUT_SCHEMA = {"ServiceMonitor"}
"""Not a kind of Kubernetes itself."""
NOTES = "toolscript/templates/NOTES.txt"


def rendered(values: Mapping[str, Any]) -> dict[str, str]:
    """What Helm makes of the chart: texts by template."""
    with helm.Chart.load(str(CHART)) as chart:
        return chart.render(dict(values), name="demo", namespace="tools")


@cache
def _texts(case: str) -> dict[str, str]:
    return rendered(CASES[case])


def manifests(case: str) -> dict[str, Manifest]:
    """The objects of a case by their kind, of which there is one each."""
    texts = (text for name, text in _texts(case).items() if name != NOTES)
    objects = [each for text in texts for each in yaml.safe_load_all(text) if each]
    found: dict[str, Manifest] = {each["kind"]: each for each in objects}
    assert len(found) == len(objects)
    return found


def pod(case: str) -> Manifest:
    """The specification of the gateways' pods."""
    return manifests(case)["Deployment"]["spec"]["template"]["spec"]


def container(case: str) -> Manifest:
    """The one container of these pods."""
    [found] = pod(case)["containers"]
    return found


def variables(case: str) -> dict[str, str]:
    """Its environment: texts, or ``name/key`` of a secret."""
    found: dict[str, str] = {}
    for each in container(case)["env"]:
        secret = each.get("valueFrom", {}).get("secretKeyRef")
        found[each["name"]] = (
            f"{secret['name']}/{secret['key']}" if secret else each.get("value", "")
        )
    return found


def held(value: Any, within: Any) -> bool:
    """Whether ``within`` is ``value``, or has it anywhere in it."""
    if value == within:
        return True
    parts = cast("Any", within.values() if isinstance(within, dict) else within)
    return isinstance(within, dict | list) and any(held(value, part) for part in parts)


def leaves(values: Any) -> list[Any]:
    """The numbers and texts of nested values."""
    if isinstance(values, dict | list):
        parts = cast("Any", values.values() if isinstance(values, dict) else values)
        return [leaf for part in parts for leaf in leaves(part)]
    return [] if isinstance(values, bool) else [values]


@pytest.mark.requirement("deploy:chart")
@pytest.mark.parametrize("case", CASES)
def test_the_linter_of_helm_finds_nothing(case: str) -> None:
    report = helm.lint(str(CHART), CASES[case], strict=True)
    assert report["errors"] == []
    assert {message["error"] for message in report["messages"]} <= {"icon is recommended"}


@pytest.mark.requirement("deploy:chart")
@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("case", CASES)
def test_manifests_are_valid(case: str, version: str) -> None:
    for kind, manifest in manifests(case).items():
        if kind not in WITHOUT_SCHEMA:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_which_objects_there_are() -> None:
    always = {"ConfigMap", "Deployment", "NetworkPolicy", "Service"}
    assert set(manifests("one replica")) == always
    assert set(manifests("defaults")) == always | {"PodDisruptionBudget"}
    scaling = {"PodDisruptionBudget", "HorizontalPodAutoscaler"}
    assert set(manifests("autoscaling")) == always | scaling
    more = {"PodDisruptionBudget", "ServiceMonitor"}
    assert set(manifests("everything")) == always | more


def test_how_many_gateways_there_are() -> None:
    replicas = {case: manifests(case)["Deployment"]["spec"].get("replicas") for case in CASES}
    assert replicas == {"defaults": 2, "one replica": 1, "autoscaling": None, "everything": 3}
    scaler = manifests("autoscaling")["HorizontalPodAutoscaler"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 9)
    deployment = manifests("autoscaling")["Deployment"]
    assert scaler["scaleTargetRef"]["name"] == deployment["metadata"]["name"]


@pytest.mark.requirement("deploy:chart")
@pytest.mark.parametrize("key", sorted(EVERYTHING.keys() - {"config", "image", "host"}))
def test_every_value_reaches_a_manifest(key: str) -> None:
    everything = list(manifests("everything").values())
    assert [leaf for leaf in leaves(EVERYTHING[key]) if not held(leaf, everything)] == []


@pytest.mark.parametrize("fence", every_fence("yaml"), ids=str)
def test_the_values_that_a_page_shows_are_values(fence: Fence) -> None:
    values = yaml.safe_load(fence.text)
    report = helm.lint(str(CHART), values, strict=True)
    assert report["errors"] == []
    shown = yaml.safe_load(rendered(values)["toolscript/templates/configmap.yaml"])
    assert json.loads(shown["data"]["toolscript.json"]) == values["config"]


def test_every_value_is_tried() -> None:
    """What the test above is worth: it leaves no value out."""
    shipped: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    assert set(shipped) == set(schema["properties"]) - {"global"}
    assert set(shipped) == set(EVERYTHING) | {"autoscaling"}
    for key, value in shipped.items():
        if properties := schema["properties"][key].get("properties"):
            assert set(value) == set(properties), key


def test_the_image_is_the_one_that_the_values_name() -> None:
    assert container("defaults")["image"] == f"toolscript:{VERSION}"
    assert container("everything")["image"] == "images.example.com/toolscript:0.1.0-stdio"
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == VERSION


@pytest.mark.parametrize("case", CASES)
def test_the_configuration_is_mounted_where_the_image_looks_for_it(
    case: str, tmp_path: Path
) -> None:
    config_map = manifests(case)["ConfigMap"]
    [(name, text)] = config_map["data"].items()
    assert json.loads(text)["mcpServers"] == (SERVERS if case == "everything" else {})
    file = tmp_path / name
    file.write_text(text, "utf-8")
    assert load_config(file, tmp_path, {"DOCS_TOKEN": "x"}).problems == ()
    [volume] = [each for each in pod(case)["volumes"] if "configMap" in each]
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    mounts = {each["name"]: each for each in container(case)["volumeMounts"]}
    assert f"{mounts[volume['name']]['mountPath']}/{name}" == "/etc/toolscript/toolscript.json"
    assert "subPath" not in mounts[volume["name"]]  # which would not show a change


@pytest.mark.parametrize("case", CASES)
def test_probes_ask_routes_that_exist(case: str) -> None:
    gateway = container(case)
    [port] = gateway["ports"]
    assert port["containerPort"] == PORT
    paths = {
        probe: gateway[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert set(paths.values()) <= PROBES
    assert paths["readinessProbe"] == "/ready"
    assert paths["livenessProbe"] == "/live"
    ports = {gateway[probe]["httpGet"]["port"] for probe in paths}
    ports |= {each["targetPort"] for each in manifests(case)["Service"]["spec"]["ports"]}
    assert ports == {port["name"]}


@pytest.mark.parametrize("case", CASES)
def test_variables_and_commands_exist(case: str) -> None:
    assert unknown_variables(variables(case)) == set()
    check_arguments(container(case)["args"])
    # The address of a service by this name would count as our setting TOOLSCRIPT_PORT.
    assert pod(case)["enableServiceLinks"] is False


def test_the_database_and_the_key_come_from_secrets() -> None:
    secrets = {name: text for name, text in variables("defaults").items() if "/" in text}
    assert secrets == {
        "TOOLSCRIPT_DATABASE": "toolscript-database/url",
        "TOOLSCRIPT_SECRET_KEY": "toolscript-secret-key/key",
    }
    assert variables("everything").items() >= {
        ("TOOLSCRIPT_DATABASE", "db/address"),
        ("TOOLSCRIPT_SECRET_KEY", "seal/now"),
        ("TOOLSCRIPT_SECRET_KEY_PREVIOUS", "seal/before"),
    }


@pytest.mark.parametrize("name", ["database", "secretKey"])
def test_without_a_secret_it_says_what_is_missing(name: str) -> None:
    with pytest.raises(helm.HelmRenderError, match=rf"{name}\.existingSecret is empty; name a"):
        rendered({name: {"existingSecret": ""}})


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 3},
        {"replicaCount": 0},
        {"database": {"secret": "x"}},
        {"config": {"mcpServers": []}},
    ],
    ids=json.dumps,
)
def test_values_with_a_mistake_are_refused(values: dict[str, Any]) -> None:
    report = helm.lint(str(CHART), values)
    assert any("schema" in message["error"] for message in report["messages"])


def test_a_client_keeps_its_pod() -> None:
    assert manifests("defaults")["Service"]["spec"]["sessionAffinity"] == "ClientIP"


@pytest.mark.parametrize("case", CASES)
def test_no_pod_may_do_more_than_it_needs(case: str) -> None:
    confined(pod(case))


def confined(spec: Manifest) -> None:
    """Fails for a pod that the Pod Security Standard ``restricted`` refuses, or that writes."""
    assert spec["automountServiceAccountToken"] is False
    security = spec["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, USER)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for each in spec["containers"]:
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"/data", "/tmp"} <= {mount["mountPath"] for mount in each["volumeMounts"]}  # noqa: S108 - in a container


@pytest.mark.parametrize("case", CASES)
def test_calls_under_way_have_the_time_to_end(case: str) -> None:
    waits = container(case)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod(case)["terminationGracePeriodSeconds"] > waits + GRACE_S


@pytest.mark.parametrize("case", CASES)
def test_gateways_alone_are_selected(case: str) -> None:
    found = manifests(case)
    template = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        found["Deployment"]["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        *(each["labelSelector"]["matchLabels"] for each in spread(case)),
        *(found[k]["spec"]["selector"]["matchLabels"] for k in found if "Budget" in k),
        *(found[k]["spec"]["podSelector"]["matchLabels"] for k in found if k == "NetworkPolicy"),
    ]
    for selector in selectors:
        assert selector.items() <= template.items()
    if "ServiceMonitor" in found:
        selector = found["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
        assert selector.items() <= found["Service"]["metadata"]["labels"].items()


def spread(case: str) -> list[Manifest]:
    """How the pods are spread."""
    return pod(case)["topologySpreadConstraints"]


def test_the_network_policy_lets_gateways_reach_each_other() -> None:
    policy = manifests("everything")["NetworkPolicy"]["spec"]
    own = {"podSelector": policy["podSelector"]}
    [ingress] = policy["ingress"]
    assert ingress["from"] == [*EVERYTHING["networkPolicy"]["from"], own]
    assert any(rule.get("to") == [own] for rule in policy["egress"])
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    by_default = manifests("defaults")["NetworkPolicy"]["spec"]
    [ingress] = by_default["ingress"]
    assert ingress["from"] == [{"podSelector": {}}, {"podSelector": by_default["podSelector"]}]
    texts = rendered({"networkPolicy": {"from": []}})
    policy = yaml.safe_load(texts["toolscript/templates/networkpolicy.yaml"])["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert "from" not in policy["ingress"][0]


def test_metrics_are_asked_for_with_a_token() -> None:
    [endpoint] = manifests("everything")["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["path"] == "/metrics"
    assert endpoint["authorization"]["credentials"] == {"name": "metrics", "key": "bearer"}
    with pytest.raises(helm.HelmRenderError, match=r"serviceMonitor\.tokenSecret\.name is empty"):
        rendered({"serviceMonitor": {"enabled": True}})


@pytest.mark.parametrize("case", CASES)
def test_the_notes_show_how_the_first_token_is_made(case: str) -> None:
    [line] = re.findall(r"kubectl run .*?\n\n", _texts(case)[NOTES], re.DOTALL)
    words = shlex.split(line.replace("\\\n", " "))
    [overrides] = [word.partition("=")[2] for word in words if word.startswith("--overrides=")]
    spec = json.loads(overrides)["spec"]
    name = words[words.index("run") + 1]
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    kubernetes_validate.validate(made, "1.30", strict=True)
    confined(spec)
    [only] = spec["containers"]
    assert only["name"] == name
    assert only["args"] == ["token", "create"]
    check_arguments(only["args"])
    assert only["env"] == container(case)["env"][: len(only["env"])]

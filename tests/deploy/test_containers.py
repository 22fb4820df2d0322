"""What deploys the server to Compose and Kubernetes: valid by their schemas, and true of this program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from antiphon.config import Config, load_config
from antiphon.http.server.server import GRACE
from antiphon.store import store_name
from antiphon.version import __version__
from kit.api import app

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KUBERNETES = "1.31"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text("utf-8"))
DEPLOYMENT: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes/deployment.yaml").read_text("utf-8"))
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


VARIABLES = {
    "compose": COMPOSE["services"]["antiphon"]["environment"],
    "kubernetes": {one["name"]: one.get("value", "postgresql://of-a-secret/antiphon") for one in CONTAINER["env"]},
}


def config_of(folder: str) -> Config:
    """What a server of this deployment reads: its file, and its variables, unknown ones of which are refused."""
    file = str(DEPLOY / folder / "config.toml")
    return load_config({"ANTIPHON_HOME": "/var/lib/antiphon", "ANTIPHON_CONFIG": file, **VARIABLES[folder]}).config


def test_compose_takes_its_file() -> None:
    compose = PyCompose.from_yaml((DEPLOY / "compose/compose.yaml").read_text("utf-8"))
    compose.validate()
    assert set(compose.service_names()) == {"antiphon", "database", "vllm"}


@pytest.mark.parametrize(
    "path", [path for path in MANIFESTS if path.stem != "kustomization"], ids=lambda path: path.stem
)
def test_kubernetes_takes_each_manifest(path: Path) -> None:
    kubernetes_validate.validate(yaml.safe_load(path.read_text("utf-8")), KUBERNETES, strict=True)


def test_the_kustomization_has_every_manifest_but_the_example_of_a_secret() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text("utf-8"))
    listed = set(kustomization["resources"])
    assert listed == {path.name for path in MANIFESTS} - {"kustomization.yaml", "secret.example.yaml"}
    for generator in kustomization["configMapGenerator"]:
        assert all((DEPLOY / "kubernetes" / file).is_file() for file in generator["files"])


@pytest.mark.parametrize("folder", ["compose", "kubernetes"])
def test_the_configuration_is_one_that_other_machines_can_reach(folder: str) -> None:
    config = config_of(folder)
    assert config.server.host == "0.0.0.0"
    assert not config.server.without_keys
    assert config.server.keys == "/etc/antiphon/secrets/keys.json"
    assert store_name(config.sessions.store) == "postgresql"
    assert config.limits.turn_timeout > 0


def test_running_answers_end_before_the_platform_kills() -> None:
    grace = POD["terminationGracePeriodSeconds"]
    before = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert before + config_of("kubernetes").server.drain + GRACE < grace
    assert config_of("compose").server.drain + GRACE < int(COMPOSE["services"]["antiphon"]["stop_grace_period"][:-1])


def test_the_files_that_variables_name_are_mounted() -> None:
    mounted = {secret["target"] for secret in COMPOSE["services"]["antiphon"]["secrets"]}
    assert COMPOSE["services"]["antiphon"]["environment"]["ANTIPHON_SERVER_KEYS"] in mounted
    (volume,) = [one for one in POD["volumes"] if one["name"] == "secrets"]
    (mount,) = [one for one in CONTAINER["volumeMounts"] if one["name"] == "secrets"]
    (keys,) = [one["value"] for one in CONTAINER["env"] if one["name"] == "ANTIPHON_SERVER_KEYS"]
    assert keys in {f"{mount['mountPath']}/{item['path']}" for item in volume["secret"]["items"]}
    # The key that encrypts reasoning is beside the API keys, and the same for all replicas.
    assert {item["path"] for item in volume["secret"]["items"]} == {"keys.json", "seal.key"}


def test_probes_ask_routes_that_are_there() -> None:
    paths = {getattr(route, "path", None) for route in app([]).routes}
    asked = {CONTAINER[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert asked == {"/livez", "/readyz"}
    assert asked <= paths


def test_the_service_finds_the_pods() -> None:
    service = yaml.safe_load((DEPLOY / "kubernetes/service.yaml").read_text("utf-8"))
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert [port["name"] for port in CONTAINER["ports"]] == [port["targetPort"] for port in service["spec"]["ports"]]


def test_the_pod_is_restricted() -> None:
    context = POD["securityContext"] | CONTAINER["securityContext"]
    assert context["runAsNonRoot"]
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    user = re.findall(r"useradd --uid (\d+)", (DEPLOY / "Containerfile").read_text("utf-8"))
    assert [str(context["runAsUser"])] == user


def test_the_image_is_of_this_version() -> None:
    assert CONTAINER["image"] == f"antiphon:{__version__}"

"""The dashboard, the alerts and the scraping: PromQL that parses, over metrics and labels that a server has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from antiphon.engines import ScriptedEngine
from antiphon.observe import Metrics
from kit.api import model

FOLDER = Path(__file__).parents[2] / "deploy/monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
ALERTS: dict[str, Any] = yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
TARGETS: list[tuple[str, dict[str, Any]]] = [
    (panel["title"], target) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]
OF_PROMETHEUS = {"instance", "job", "le"}


VARIABLES = {"$__rate_interval": "5m", "$instance": ".*"}


class Restarted(ScriptedEngine):
    """An engine that died once."""

    restarts = 1


def known_metrics() -> dict[str, frozenset[str]]:
    """The labels of every series that a server can have, by its name."""
    metrics = Metrics()
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase) and (names := metric._labelnames):
            metric.labels(*names)
    metrics.between_tokens.labels("m")
    loaded = [model(Restarted([]))]
    metrics.follow(queue=lambda: (0, 0), models=lambda: loaded)
    samples = [
        sample for family in text_string_to_metric_families(metrics.render().decode()) for sample in family.samples
    ]
    return {"up": frozenset(), **{sample.name: frozenset(sample.labels) for sample in samples}}


KNOWN = known_metrics()


def series(expression: str) -> list[promql_parser.VectorSelector]:
    """Every series that the expression reads. Raises `ValueError` for what is no PromQL."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    found: list[promql_parser.VectorSelector] = []

    def note(part: promql_parser.Expr) -> None:
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)

    promql_parser.walk(promql_parser.parse(expression), note)
    return found


def labels_used(expression: str, text: str) -> set[str]:
    """Labels that an expression filters and groups by, and that its legend or annotations show."""
    grouped = {name for group in re.findall(r"\bby \(([^)]*)\)", expression) for name in re.split(r",\s*", group)}
    filtered = {matcher.name for one in series(expression) for matcher in one.matchers.matchers}
    return grouped | filtered | set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))


def check(expression: str, text: str) -> None:
    read = series(expression)
    assert read
    assert {one.name for one in read} <= KNOWN.keys()
    known = set.union(OF_PROMETHEUS, *(set(KNOWN[one.name or ""]) for one in read))
    assert labels_used(expression, text) <= known


@pytest.mark.parametrize(("title", "target"), TARGETS)
def test_each_graph_shows_what_a_server_has(title: str, target: dict[str, Any]) -> None:
    check(target["expr"], target["legendFormat"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_watches_what_a_server_has(rule: dict[str, Any]) -> None:
    check(rule["expr"], " ".join(rule["annotations"].values()))
    assert rule["labels"]["severity"] in ("page", "warn")
    assert set(rule["annotations"]) == {"summary", "description"}


def test_the_dashboard_shows_every_metric_of_ours() -> None:
    shown = {one.name for _, target in TARGETS for one in series(target["expr"])}
    families = {re.sub("_(bucket|count|sum)$", "_bucket", name) for name in KNOWN if name.startswith("antiphon_")}
    assert {name for name in families if not name.endswith("_created")} <= shown


def test_no_panel_lies_on_another() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_prometheus_reads_the_alerts_of_the_job_that_they_name() -> None:
    scraping = yaml.safe_load((FOLDER / "prometheus.yaml").read_text("utf-8"))
    assert [FOLDER / name for name in scraping["rule_files"]] == [FOLDER / "alerts.yaml"]
    assert {job["job_name"] for job in scraping["scrape_configs"]} == {"antiphon"}

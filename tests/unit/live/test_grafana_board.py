"""The Grafana board asks for what is exported, in its units."""

import json
import re

import pytest
from doc_pages import ROOT

from joulelab.live.metrics import FAMILIES, GPU_LABELS

BOARD = json.loads((ROOT / "cluster/grafana_gpus.json").read_text())
ENDINGS = {"counter": "_total", "info": "_info"}
EXPORTED = {
    family.name + ENDINGS.get(family.type, ""): family
    for family in (each.filled() for each in FAMILIES)
}
LABELS = {*GPU_LABELS, "reason", "study"}
GRAFANA_UNITS = {
    "watts": "watt",
    "hertz": "hertz",
    "celsius": "celsius",
    "ratio": "percentunit",
    "bytes": "bytes",
    "joules": "joule",
    "seconds": "s",
}
VARIABLES = [v for v in BOARD["templating"]["list"] if v["type"] == "query"]
EXPRESSIONS = [
    *((panel["title"], target["expr"]) for panel in BOARD["panels"] for target in panel["targets"]),
    *((variable["name"], variable["query"]["query"]) for variable in VARIABLES),
]


def metrics_of(expression):
    return set(re.findall(r"\bjoulelab_\w+", expression))


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=lambda part: part[:40])
def test_an_expression_names_metrics_and_labels_that_are_exported(where, expression):
    matched = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    grouped = ", ".join(re.findall(r"\bby \(([^)]*)\)", expression)).split(", ")

    assert metrics_of(expression)
    assert metrics_of(expression) <= set(EXPORTED)
    assert {*matched, *filter(None, grouped)} <= LABELS
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


def test_every_metric_is_on_the_board():
    shown = set().union(*(metrics_of(expression) for _, expression in EXPRESSIONS))

    assert shown == set(EXPORTED)


@pytest.mark.parametrize("panel", BOARD["panels"], ids=lambda panel: panel["title"])
def test_a_panel_has_the_unit_of_its_metrics(panel):
    unit = panel["fieldConfig"]["defaults"].get("unit")
    expected = set()
    for target in panel["targets"]:
        for name in metrics_of(target["expr"]):
            is_rate = target["expr"].startswith("rate(")
            expected.add("watt" if is_rate else GRAFANA_UNITS.get(EXPORTED[name].unit))

    assert expected == {unit}


def test_variables_that_are_used_are_those_of_the_board():
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(BOARD)))

    assert used == {variable["name"] for variable in BOARD["templating"]["list"]}


def test_panels_lie_side_by_side():
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_every_metric_is_documented():
    page = (ROOT / "docs/how-to/watching.md").read_text()

    assert [name for name in EXPORTED if f"`{name}`" not in page] == []

"""Each board as Grafana will load it: valid by Grafana's own models, laid out, and agreeing with the alerts."""

from __future__ import annotations

import importlib.util
import json
import re
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest
import yaml

from alerts.generate import GENERATED as ALERTS
from alerts.links import BOARDS
from alerts.promises import DEFAULT
from dashboards.boards import DASHBOARDS
from dashboards.generate import boards
from dashboards.model import Prom, queries_of
from dashboards.panels import CLICKHOUSE, PROMETHEUS
from dashboards.sql_files import sql_queries

needs_models = pytest.mark.skipif(
    importlib.util.find_spec("grafana_foundation_sdk") is None,
    reason="grafana-foundation-sdk is not installed: make setup",
)
ALL = {board["uid"]: board for board in boards()}
PANELS = [(uid, panel) for uid, board in ALL.items() for panel in board["panels"]]
_FLEET = DEFAULT.fleet
UNITS = {"s", "ms", "bytes", "percentunit", "none", "short", "reqps"}


def _steps(panel: dict[str, Any]) -> list[float]:
    return [
        step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"] if step["value"] is not None
    ]


def _panel(uid: str, title: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [panel for panel in ALL[uid]["panels"] if panel.get("title", "").startswith(title)]
    return found


@needs_models
@pytest.mark.parametrize("uid", ALL)
def test_a_board_is_what_grafanas_own_models_hold(uid: str) -> None:
    from tests.dashboards.grafana_models import faults

    assert faults(ALL[uid]) == []


@needs_models
def test_the_models_find_what_is_unknown_missing_or_of_another_type() -> None:
    from tests.dashboards.grafana_models import faults

    board = json.loads(json.dumps(ALL["loraledger-fleet"]))
    panel = board["panels"][0]
    board["rows"] = []
    panel["options"]["graphMode"] = "bars"
    panel["fieldConfig"]["defaults"]["decimal"] = 1
    panel["targets"][0]["expr"] = 7
    del panel["options"]["textMode"]
    found = "\n".join(faults(board))
    for fault in (
        ".rows is unknown",
        "graph_mode is 'bars'",
        ".defaults.decimal is unknown",
        ".expr is 7",
        "textMode is missing",
    ):
        assert fault in found


def test_a_clickhouse_query_has_what_its_plugin_reads_and_nothing_else() -> None:
    found = [target for _, panel in PANELS for target in panel.get("targets", []) if target["datasource"] == CLICKHOUSE]
    assert len(found) == len(sql_queries()) - 1
    for target in found:
        assert target.keys() == {"refId", "datasource", "editorType", "format", "rawSql"}
        assert (target["editorType"], target["format"] in range(4)) == ("sql", True)
        assert re.fullmatch("[A-Z]", target["refId"])


@needs_models
def test_units_are_grafanas_own() -> None:
    from grafana_foundation_sdk.models import units

    assert {value for value in vars(units).values() if isinstance(value, str)} >= UNITS


@pytest.mark.parametrize("uid", ALL)
def test_panels_lie_inside_24_columns_without_overlap_and_have_their_own_ids(uid: str) -> None:
    panels = ALL[uid]["panels"]
    assert sorted(panel["id"] for panel in panels) == list(range(1, len(panels) + 1))
    for panel in panels:
        assert 0 <= panel["gridPos"]["x"] <= panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


@pytest.mark.parametrize(
    ("uid", "panel"),
    [pair for pair in PANELS if pair[1]["type"] != "text"],
    ids=lambda value: value if isinstance(value, str) else value["title"],
)
def test_a_panel_says_what_it_shows_in_which_unit_from_a_chosen_data_source(uid: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith((".", "…"))
    assert panel["datasource"] in (PROMETHEUS, CLICKHOUSE)
    assert panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert {target["datasource"]["uid"] for target in panel["targets"]} == {panel["datasource"]["uid"]}


@pytest.mark.parametrize("uid", ALL)
def test_every_variable_that_is_read_is_offered_and_every_one_offered_is_read(uid: str) -> None:
    text = json.dumps({key: value for key, value in ALL[uid].items() if key != "templating"}) + json.dumps(
        [v.get("datasource") for v in ALL[uid]["templating"]["list"]]
    )
    read = {name for name in re.findall(r"\$\{?(\w+)", text) if not name.startswith("__")}
    assert read == {variable["name"] for variable in ALL[uid]["templating"]["list"]}


def test_uids_are_the_ones_alerts_point_at_and_every_sql_file_is_on_a_board() -> None:
    assert list(ALL) == [board.uid for board in BOARDS]
    rules = (ALERTS / "rules.yaml").read_text()
    assert set(re.findall(r"/d/([\w-]+)/", rules)) <= set(ALL)
    assert set(re.findall(r"var-(\w+)=", rules)) == {"tenant"}
    drawn = {target.get("rawSql") for _, panel in PANELS for target in panel.get("targets", [])}
    variables = {json.dumps(variable) for board in ALL.values() for variable in board["templating"]["list"]}
    for name, query in sql_queries().items():
        assert query in drawn or any(json.dumps(query) in variable for variable in variables), name


@pytest.mark.parametrize(
    ("uid", "title", "thresholds", "alert"),
    [
        ("loraledger-tenants", "P99 latency / SLO", [DEFAULT.latency.yellow, DEFAULT.latency.red], None),
        ("loraledger-tenants", "Share above 1.1", [DEFAULT.latency.share], "LoraTenantLatencyYellow"),
        ("loraledger-tenants", "Share above 1.3", [DEFAULT.latency.share], "LoraTenantLatencyRed"),
        ("loraledger-tenants", "Burn rate", sorted(row.factor for row in DEFAULT.budget.rows), None),
        (
            "loraledger-fleet",
            "Memory use",
            [_FLEET.band_low, _FLEET.band_high, _FLEET.memory_critical],
            "LoraGpuMemoryCritical",
        ),
        ("loraledger-fleet", "KV blocks in use", [_FLEET.kv_saturated], "LoraKvPoolSaturated"),
        ("loraledger-routing", "Warm pool hit rate", [DEFAULT.adapters.warm_hit_low], "LoraWarmPoolHitRateLow"),
        ("loraledger-routing", "Loads above", [DEFAULT.adapters.cold_share], "LoraColdStartSlow"),
        ("loraledger-routing", "Cold start duration", [DEFAULT.adapters.cold_ms], None),
        ("loraledger-pipeline", "Unattributed", [DEFAULT.ledger.unattributed], "LoraEngineTimeUnattributed"),
        ("loraledger-pipeline", "System time", [DEFAULT.ledger.system], "LoraEngineTimeSystemHigh"),
        ("loraledger-pipeline", "Step model drift", [DEFAULT.ledger.drift], "LoraStepModelDrift"),
        ("loraledger-pipeline", "Snapshot age", [Decimal(DEFAULT.ledger.snapshot_age)], "LoraSnapshotStale"),
    ],
)
def test_the_thresholds_drawn_are_the_thresholds_that_alert(
    uid: str, title: str, thresholds: list[Decimal], alert: str | None
) -> None:
    assert _steps(_panel(uid, title)) == [float(value) for value in thresholds]
    if alert is not None:
        rules = [
            rule for group in yaml.safe_load((ALERTS / "rules.yaml").read_text())["groups"] for rule in group["rules"]
        ]
        (expression,) = [rule["expr"] for rule in rules if rule.get("alert") == alert]
        assert re.search(rf"[<>] {re.escape(f'{thresholds[-1]:f}')}(?!\d)", expression)


def test_a_name_of_a_query_stands_for_one_expression() -> None:
    queries = [query for board in DASHBOARDS for panel in board.panels for query in queries_of(panel)]
    asked = {query for query in queries if isinstance(query, Prom)}
    assert len({query.name for query in asked}) == len(asked)

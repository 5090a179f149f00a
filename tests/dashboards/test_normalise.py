from __future__ import annotations

from typing import Any

from dashboards.normalise import SCHEMA_VERSION, normalise


def test_dead_keys_and_nulls_go_but_the_first_threshold_keeps_its_null() -> None:
    steps = [{"color": "green", "value": None}, {"color": "red", "value": 1}]
    panel = {
        "type": "stat",
        "span": None,
        "error": False,
        "interval": None,
        "fieldConfig": {"defaults": {"unit": "s", "mappings": [], "thresholds": {"steps": steps}}},
    }
    board: dict[str, Any] = {
        "uid": "x",
        "style": "dark",
        "rows": [],
        "id": None,
        "panels": [panel],
        "templating": {"list": []},
    }
    done = normalise(board)
    assert {"style", "rows", "id"}.isdisjoint(done)
    assert done["schemaVersion"] == SCHEMA_VERSION
    assert done["panels"][0]["fieldConfig"] == {
        "defaults": {"unit": "s", "thresholds": {"steps": steps}},
        "overrides": [],
    }
    assert {"span", "error", "interval"}.isdisjoint(done["panels"][0])
    assert board["style"] == "dark", "the argument is left as it was"

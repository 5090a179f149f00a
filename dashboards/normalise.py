"""Turns grafanalib's output into what current Grafana saves: without obsolete keys and nulls, with required options. Pure."""

from __future__ import annotations

from typing import Any, Final

SCHEMA_VERSION: Final = 42
_DEAD_BOARD: Final = frozenset(
    ("__inputs", "hideControls", "rows", "sharedCrosshair", "style", "gnetId", "id", "version")
)
_DEAD_PANEL: Final = frozenset(
    (
        "editable",
        "error",
        "height",
        "minSpan",
        "span",
        "color",
        "columns",
        "fontSize",
        "mappings",
        "hideTimeOverride",
        "transparent",
        "links",
    )
)
_DEAD_VARIABLE: Final = frozenset(("useTags", "tagsQuery", "tagValuesQuery", "auto", "auto_min", "auto_count"))
_REDUCE: Final = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_TOOLTIP: Final = {"mode": "multi", "sort": "desc", "hideZeros": False}
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": _TOOLTIP,
    },
    "stat": {
        "graphMode": "none",
        "colorMode": "value",
        "justifyMode": "auto",
        "textMode": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
        "orientation": "auto",
        "reduceOptions": _REDUCE,
    },
    "table": {"frameIndex": 0, "showHeader": True, "cellHeight": "sm", "sortBy": []},
}


def normalise(board: dict[str, Any]) -> dict[str, Any]:
    """The board as Grafana would save it; the argument must be plain dicts, lists and scalars, and is not changed."""
    cleaned: dict[str, Any] = _without_nulls({key: value for key, value in board.items() if key not in _DEAD_BOARD})
    cleaned["schemaVersion"] = SCHEMA_VERSION
    cleaned["editable"] = False
    cleaned["timepicker"] = {"refresh_intervals": ["10s", "30s", "1m", "5m"]}
    cleaned["panels"] = [_panel(panel) for panel in cleaned["panels"]]
    cleaned["templating"] = {"list": [_variable(variable) for variable in cleaned["templating"]["list"]]}
    return cleaned


def _panel(panel: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in panel.items() if key not in _DEAD_PANEL and value != []}
    if kept["type"] == "text":
        kept.pop("fieldConfig", None)
        return kept
    kept["fieldConfig"].setdefault("overrides", [])
    defaults = kept["fieldConfig"]["defaults"]
    for empty in [key for key, value in defaults.items() if value in ("", [])]:
        del defaults[empty]
    if kept["type"] == "table":
        defaults["custom"] = {"align": "auto", "inspect": False}
    kept["options"] = _OPTIONS[kept["type"]] | {
        key: value for key, value in kept.get("options", {}).items() if key == "sortBy"
    }
    return kept


def _variable(variable: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in variable.items() if key not in _DEAD_VARIABLE and value != ""}
    kept.pop("current", None)
    if variable.get("includeAll"):
        kept["current"] = {"text": ["All"], "value": ["$__all"]}
    if variable["type"] == "query":
        kept["definition"] = variable["query"]
    if variable["type"] == "datasource":
        for key in ("sort", "includeAll", "multi"):
            kept.pop(key, None)
    return kept


def _without_nulls(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        # The first threshold step begins at minus infinity, which Grafana writes as null.
        return {
            name: _without_nulls(inner, name)
            for name, inner in value.items()
            if inner is not None or (name == "value" and "color" in value)
        }
    if isinstance(value, list):
        return [_without_nulls(inner, key) for inner in value]
    return value

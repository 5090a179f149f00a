from __future__ import annotations

import pytest

from alerts.metrics_used import MetricUnknown, families


def test_suffixes_labels_functions_and_variables_are_told_apart() -> None:
    expression = (
        'histogram_quantile(0.99, sum by (tenant, le) (rate(lora_request_slo_ratio_bucket{tenant=~"$tenant"}[$__rate_interval])))\n'
        "/ on (tenant) group_left (org) tenant:slo:max > bool 1e-9 or time() - process_start_time_seconds offset 5m unless up"
    )
    assert families([expression], frozenset({"tenant:slo:max"})) == {
        "lora_request_slo_ratio",
        "process_start_time_seconds",
    }


@pytest.mark.parametrize(
    "expression", ["rate(lora_requests_total[5m])", "lora_request_slo_ratio > 1", "tenant:slo:max > 1"]
)
def test_an_undeclared_series_a_bare_histogram_and_an_unrecorded_rule_are_refused(expression: str) -> None:
    with pytest.raises(MetricUnknown, match="could not resolve series"):
        families([expression])

from __future__ import annotations

import re

from telemetry import names


def test_every_name_is_used_once() -> None:
    assert len({metric.name for metric in names.METRICS}) == len(names.METRICS)
    for vocabulary in (names.Attr, names.SpanName, names.EventName):
        values = [value for key, value in vars(vocabulary).items() if not key.startswith("_")]
        assert len(set(values)) == len(values), vocabulary


def test_every_declared_metric_is_exported() -> None:
    declared = [value for value in vars(names).values() if isinstance(value, names.Metric)]
    assert list(names.METRICS) == declared


def test_names_and_labels_are_ones_prometheus_takes_and_say_their_kind() -> None:
    for metric in names.METRICS:
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in (metric.name, *metric.labels)), metric
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert not metric.name.endswith(("_created", "_bucket", "_sum", "_count", "_info")), metric.name
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric.name
        assert metric.help.endswith("."), metric.name
        assert "le" not in metric.labels


def test_every_ratio_and_percentile_gauge_states_its_window() -> None:
    for metric in names.METRICS:
        if metric.kind == "gauge" and re.search(r"_(ratio|rate|p\d\d)(_|$)", metric.name):
            assert metric.window, metric.name


def test_the_alert_thresholds_are_bucket_bounds() -> None:
    assert names.SLO_RATIO_HIST.buckets == names.SLO_RATIO
    assert {1.0, 1.1, 1.3} < set(names.SLO_RATIO)


def test_our_attributes_and_events_stay_in_our_namespace() -> None:
    attributes = [value for key, value in vars(names.Attr).items() if not key.startswith("_")]
    assert all(re.match(r"(loraledger|gen_ai|http|url)\.|error\.type$", attribute) for attribute in attributes)
    events = [value for key, value in vars(names.EventName).items() if not key.startswith("_")]
    assert all(event.startswith("loraledger.") for event in events)

"""The page that explains every metric: `python -m alerts.metrics_page [--check] [FILE]` writes docs/metrics.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from alerts import generated_files
from alerts.metrics_used import families
from alerts.model import Recording
from alerts.rules import alerts, groups
from telemetry import names

PAGE: Final = Path(__file__).parent.parent / "docs" / "metrics.md"
_INTRO: Final = """# Metrics

What a gateway exposes on `/metrics`, from `telemetry/names.py`. This page is generated (`python -m alerts.metrics_page`); edit the names, not this.

- Billing never reads metrics; invoices come from usage records and the ledger.
- Gauges that are ratios or percentiles state their window; beside each stand the counters it comes from, so that other windows can be computed.
- A gateway is one process with one registry and is one target, so no worker's series hides another's; rules and boards sum over targets, or take
  the largest where every gateway shows the same figure. A restart is a counter reset, which `increase` and `rate` know.
- Label values are bounded, see the last table. What lies beyond a cap becomes `other` and counts in `loraledger_label_overflow_total`.
- The latency promise is judged on `lora_request_slo_ratio` (latency / SLO), whose bounds are the alert thresholds: "P99 above 1.1 x SLO" is exactly
  "more than 1 % of requests above 1.1", without interpolation. Failures count as above every bound.
- Cost gauges show the ledger's last published snapshot; `loraledger_snapshot_age_seconds` is its age. A gauge is absent while its value is unknown.
"""


def page() -> str:
    """The whole page as Markdown."""
    recordings = _recordings()
    buckets = (
        (_code(one.name), ", ".join(f"{bound:g}" for bound in one.buckets)) for one in names.METRICS if one.buckets
    )
    recorded = (
        (_code(record), ", ".join(map(_code, sorted(families([expr], frozenset(recordings))))))
        for record, expr in recordings.items()
    )
    bounds = ((_code(label), bound) for label, bound in names.LABEL_BOUNDS.items())
    families_have = ("metric", "kind", "unit", "labels", "meaning", "window", "alerts that read it")
    return "\n".join(
        [
            _INTRO,
            *_table("Families", families_have, _metrics()),
            *_table("Buckets", ("histogram", "upper bounds, then +Inf"), buckets),
            *_table("Recorded by the rules", ("series", "computed from"), recorded),
            *_table("Labels and their bounds", ("label", "values"), bounds),
        ]
    )


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        cells = (cell.replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _metrics() -> Iterator[Sequence[str]]:
    readers = _readers()
    for metric in names.METRICS:
        labels = ", ".join(map(_code, metric.labels)) or "none"
        window = metric.window or ("since start" if metric.kind != "gauge" else "now")
        alerted = ", ".join(readers[metric.name])
        yield _code(metric.name), metric.kind, metric.unit, labels, metric.help, window, alerted


def _code(name: str) -> str:
    return f"`{name}`"


def _recordings() -> dict[str, str]:
    """Expressions of the recorded series, by the name that they are recorded under."""
    return {rule.record: rule.expr for group in groups() for rule in group.rules if isinstance(rule, Recording)}


def _readers() -> dict[str, list[str]]:
    """Names of the alerts that read each metric, through recorded series too."""
    recordings = _recordings()
    found: dict[str, list[str]] = {metric.name: [] for metric in names.METRICS}
    for alert in alerts():
        sources = [alert.expr, *(expr for record, expr in recordings.items() if record in alert.expr)]
        for family in families(sources, frozenset(recordings)):
            if alert.name not in found[family]:
                found[family].append(alert.name)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; with `--check` nothing is written and the exit code is 1 when the page is out of date."""
    parser = argparse.ArgumentParser(prog="python -m alerts.metrics_page", description="Write docs/metrics.md.")
    parser.add_argument("file", nargs="?", type=Path, default=PAGE)
    generated_files.add_check(parser)
    given = parser.parse_args(arguments)
    return generated_files.write_or_check(given.file.parent, {given.file.name: page()}, given.check, parser.prog)


if __name__ == "__main__":
    raise SystemExit(main())

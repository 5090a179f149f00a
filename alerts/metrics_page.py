"""The page that explains every metric: `python -m alerts.metrics_page [--check] [FILE]` writes docs/metrics.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
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
    return "\n".join([_INTRO, *_metrics(), *_histograms(), *_recorded(), *_labels()])


def _metrics() -> Iterator[str]:
    yield "## Families\n"
    yield "| metric | kind | unit | labels | meaning | window | alerts that read it |"
    yield "|---|---|---|---|---|---|---|"
    readers = _readers()
    for metric in names.METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
        window = metric.window or ("since start" if metric.kind != "gauge" else "now")
        yield f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {_cell(metric.help)} | {window} | {', '.join(readers[metric.name])} |"
    yield ""


def _histograms() -> Iterator[str]:
    yield "## Buckets\n"
    yield "| histogram | upper bounds, then +Inf |"
    yield "|---|---|"
    for metric in names.METRICS:
        if metric.kind == "histogram":
            yield f"| `{metric.name}` | {', '.join(f'{bound:g}' for bound in metric.buckets)} |"
    yield ""


def _recorded() -> Iterator[str]:
    yield "## Recorded by the rules\n"
    yield "| series | computed from |"
    yield "|---|---|"
    recordings = _recordings()
    for record, expr in recordings.items():
        sources = ", ".join(f"`{name}`" for name in sorted(families([expr], frozenset(recordings))))
        yield f"| `{record}` | {sources} |"
    yield ""


def _labels() -> Iterator[str]:
    yield "## Labels and their bounds\n"
    yield "| label | values |"
    yield "|---|---|"
    for label, bound in names.LABEL_BOUNDS.items():
        yield f"| `{label}` | {_cell(bound)} |"
    yield ""


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


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; with `--check` nothing is written and the exit code is 1 when the page is out of date."""
    parser = argparse.ArgumentParser(prog="python -m alerts.metrics_page", description="Write docs/metrics.md.")
    parser.add_argument("file", nargs="?", type=Path, default=PAGE)
    generated_files.add_check(parser)
    given = parser.parse_args(arguments)
    return generated_files.write_or_check(given.file.parent, {given.file.name: page()}, given.check, parser.prog)


if __name__ == "__main__":
    raise SystemExit(main())

"""Alertmanager's and Prometheus' configuration by example: who hears what, and what silences what. No I/O."""

from __future__ import annotations

from typing import Any, Final

from alerts.expressions import duration
from alerts.promises import JOB, Promises

PAGE: Final = "page"
TICKET: Final = "ticket"


def alertmanager(
    page_url: str = "http://127.0.0.1:9095/page", ticket_url: str = "http://127.0.0.1:9095/ticket"
) -> dict[str, Any]:
    """Critical pages at once, warning opens a ticket; a red promise silences the yellow of the same thing."""
    return {
        "route": {
            "receiver": TICKET,
            "group_by": ["alertname", "tenant", "engine"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "12h",
            "routes": [
                {"receiver": PAGE, "matchers": ['severity="critical"'], "group_wait": "10s", "repeat_interval": "1h"},
                {"receiver": TICKET, "matchers": ['severity="warning"']},
            ],
        },
        "inhibit_rules": [
            {
                "source_matchers": ['severity="critical"'],
                "target_matchers": ['severity="warning"'],
                "equal": ["service", "promise", "tenant", "engine", "gpu"],
            },
        ],
        "receivers": [
            {"name": PAGE, "webhook_configs": [{"url": page_url, "send_resolved": True}]},
            {"name": TICKET, "webhook_configs": [{"url": ticket_url, "send_resolved": True}]},
        ],
    }


def prometheus(
    promises: Promises,
    targets: tuple[str, ...] = ("127.0.0.1:8000",),
    alertmanagers: tuple[str, ...] = ("127.0.0.1:9093",),
) -> dict[str, Any]:
    """Scrape the gateways under the job name that the rules expect, and load the rules beside this file."""
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": duration(promises.interval)},
        "rule_files": ["rules.yaml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": list(alertmanagers)}]}]},
        "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": list(targets)}]}],
    }

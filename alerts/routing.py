"""Example configuration of Alertmanager and Prometheus: which alert goes to whom, and which silences which. No I/O."""

from __future__ import annotations

from typing import Any, Final

from alerts.expressions import duration
from alerts.promises import HOUR, JOB, MINUTE, Promises

PAGE: Final = "page"
TICKET: Final = "ticket"


def alertmanager(
    page_url: str = "http://127.0.0.1:9095/page", ticket_url: str = "http://127.0.0.1:9095/ticket", faster: int = 1
) -> dict[str, Any]:
    """Critical pages at once, warning opens a ticket; a critical alert silences the warnings of the same promise, tenant, engine and GPU.

    `faster` divides every wait, as `Promises.compressed` divides the durations of the rules.
    """

    def wait(seconds: int) -> str:
        return duration(-(-seconds // faster))

    return {
        "route": {
            "receiver": TICKET,
            "group_by": ["alertname", "tenant", "engine"],
            "group_wait": wait(30),
            "group_interval": wait(5 * MINUTE),
            "repeat_interval": wait(12 * HOUR),
            "routes": [
                {
                    "receiver": PAGE,
                    "matchers": ['severity="critical"'],
                    "group_wait": wait(10),
                    "repeat_interval": wait(HOUR),
                },
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
        "global": {"scrape_interval": duration(promises.scrape), "evaluation_interval": duration(promises.interval)},
        "rule_files": ["rules.yaml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": list(alertmanagers)}]}]},
        "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": list(targets)}]}],
    }

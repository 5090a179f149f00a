"""Makes the report page: asks the ledger and, when there is one, Prometheus; writes one file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx

from alerts.promises import DEFAULT
from billing.store.report import report_facts
from loraledger.books import Books
from loraledger.page.build import build_page
from loraledger.page.checks import LEDGER, prometheus_alerts
from loraledger.page.render import render
from loraledger.page.view import Alerts, Page

PROMETHEUS_S: Final = 5.0


def write_report(books: Books, month: str, path: Path, prometheus: str | None) -> Page:
    """Write the page of a billing month to `path` and give its values.

    A Prometheus that does not answer costs its alerts, not the page: the ledger's checks stand in, and the page says so.
    """
    latency = DEFAULT.latency
    with books.open() as ledger:
        facts = report_facts(ledger, month, books.catalog, latency.yellow, latency.red, books.clock())
    page = build_page(facts, books.catalog, DEFAULT, books.clock())
    if prometheus is not None:
        page = replace(page, alerts=_asked(prometheus, page.alerts))
    names = {tenant.id: tenant.name for tenant in books.catalog.tenants}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(page, names), encoding="utf-8")
    return page


def _asked(address: str, own: Alerts) -> Alerts:
    try:
        answer = httpx.get(f"{address.rstrip('/')}/api/v1/alerts", timeout=PROMETHEUS_S)
        answer.raise_for_status()
        return prometheus_alerts(answer.json(), address, own.checks)
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, TypeError, ValueError) as error:
        fact = str(error).splitlines()[0] if str(error) else type(error).__name__
        return replace(own, source=LEDGER, trouble=f"Prometheus at {address} could not be asked: {fact}")

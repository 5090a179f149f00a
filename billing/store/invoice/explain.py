"""Opens an issued invoice or a draft to the attempts behind each line, of that tenant alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from billing.exact.periods import BillingMonth
from billing.invoice.explain import AttemptId, AttemptQuarter, AttemptTime, Explained, explain_invoice
from billing.invoice.invoice import Invoice
from billing.store.clickhouse import Ledger
from billing.store.cost.tenant_cost import tenant_month
from telemetry.names import BASE, EventName


class _Key(NamedTuple):
    attempt: AttemptId
    adapter: str
    engine: str
    status: str
    start_ns: int


def explain(ledger: Ledger, invoice: Invoice) -> tuple[Explained, ...]:
    """Every line of the invoice with the attempts that it is made of; shares and rounding sum to each line exactly.

    From the facts as known now: what became known after the cut-off stands in shares of its own. No other tenant's rows
    are read. ExplanationInvalid when attempts have no cost rows (the month was not derived since they came).
    """
    month = BillingMonth(invoice.month, invoice.time_zone)
    return explain_invoice(
        invoice, tenant_month(ledger, invoice.tenant, month), _attempts(ledger, invoice.tenant, month)
    )


def request_times(ledger: Ledger, tenant: str, request_id: str) -> list[AttemptTime]:
    """Engine time of a tenant's request, by attempt, as known now; empty when the tenant has no such request."""
    rows = ledger.read("request_times", {"tenant": tenant, "request": request_id})
    return [
        AttemptTime(AttemptId(row["emitter"], row["seq"], row["request_id"]), row["measured_ns"], row["reshare_ns"])
        for row in rows
    ]


def _attempts(ledger: Ledger, tenant: str, month: BillingMonth) -> list[AttemptQuarter]:
    asked = {"tenant": tenant, "base": BASE, "start_ns": month.start_ns, "end_ns": month.end_ns}
    parts: defaultdict[_Key, dict[str, int]] = defaultdict(dict)
    for row in ledger.read("attempt_measured", {"window": EventName.WINDOW, **asked}):
        parts[_key(row, row["adapter"], row["engine"])] |= {n: row[n] for n in ("base_ns", "adapter_ns")}
    for row in ledger.read("attempt_counted", asked):
        parts[_key(row, row["adapter_name"], row["engine_id"])] |= {
            "requests": 1,
            "input_tokens": row["input_tokens_sum"],
            "cached_tokens": row["cached_tokens_sum"],
            "output_tokens": row["output_tokens_sum"],
        }
    for row in ledger.read("attempt_estimated", asked):
        parts[_key(row, row["adapter_name"], row["engine_id"])] |= {
            name: row[name] for name in ("kv_saved_base_ns", "kv_saved_adapter_ns")
        }
    return [
        AttemptQuarter(key.attempt, key.adapter, key.engine, key.status, key.start_ns, **numbers)
        for key, numbers in parts.items()
    ]


def _key(row: Mapping[str, Any], adapter: str, engine: str) -> _Key:
    attempt = AttemptId(row["emitter"], row["seq"], row["request_id"])
    return _Key(attempt, adapter, engine, row["status"], row["quarter_ns"])

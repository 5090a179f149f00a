"""Cost, margin, unit price and reconciliation, from the ledger. Drawn as floats; the ledger's own values are exact."""

from __future__ import annotations

from typing import Final

from alerts.links import MONEY
from dashboards.model import GREEN, RED, ColorStep, Dashboard, Prom, Sql, Stat, TablePanel, Text, TimeSeries, Variable
from dashboards.promql import TENANT
from telemetry import names

_ZERO_STEPS: Final = (ColorStep(RED), ColorStep(GREEN, 0), ColorStep(RED, 1e-18))
"""Anything but zero is wrong: the books conserve time and money exactly."""
_MARGIN_STEPS: Final = (ColorStep(RED), ColorStep(GREEN, 0))

MONEY_BOARD: Final = Dashboard(
    MONEY,
    "What tenants cost and pay, and whether the books conserve time and money.",
    (
        Text(
            "cost = (T_B + T_A - T_kv + T_cold) x price of a GPU-hour. **T_B** and **T_A**: base and LoRA time as if no prefix had been cached; **T_kv**: what cached prefixes saved, "
            "estimated against *prefix caching off*; **T_cold**: loading adapters. Their sum is what was measured. Idle, system, recompute, down and unattributed time are owners of their own."
        ),
        Stat(
            "Cost, revenue, margin",
            "Attributed cost and what plans charge, over the time range, in the price book's currency.",
            Sql("cost_total"),
            "none",
            decimals=2,
            width=12,
        ),
        Stat(
            "Missing from the books",
            "Rented time and money that no owner accounts for. Both are zero, or the ledger is wrong.",
            Sql("reconciliation_missing"),
            "none",
            steps=_ZERO_STEPS,
            width=12,
        ),
        TimeSeries(
            "Cost by tenant",
            "Attributed cost per interval.",
            Sql("cost_by_tenant"),
            "none",
        ),
        TimeSeries(
            "The four terms",
            "Engine seconds per interval; T_kv counts against the others.",
            Sql("terms_over_time"),
            "s",
            minimum=None,
        ),
        TablePanel(
            "Terms by tenant and adapter",
            "Engine seconds, GPU-hours and cost over the time range.",
            Sql("terms_by_tenant"),
        ),
        TablePanel(
            "Margin by tenant",
            "All tenants over the time range, the lowest margin first: share of the GPU beside share of the revenue.",
            Sql("margin_by_tenant"),
            width=12,
        ),
        TimeSeries(
            "Margin, month to date",
            "Revenue less cost as the gateways show it; LoraMarginNegative warns below 0.",
            Prom(
                "margin",
                " - ".join(
                    f"max by (tenant) ({metric.name}{{{TENANT}}})"
                    for metric in (names.TENANT_REVENUE, names.TENANT_COST)
                ),
                "{{tenant}}",
            ),
            "none",
            steps=_MARGIN_STEPS,
            minimum=None,
        ),
        TablePanel(
            "Unit price",
            "Cost per million delivered output tokens, by month; empty when nothing was delivered.",
            Sql("unit_price"),
            width=12,
        ),
        TimeSeries(
            "Cost per million tokens",
            "As the gateways show it, from the ledger's last snapshot.",
            Prom("tenant_cost_per_mtok", f"max by (tenant) ({names.COST_PER_MTOK.name}{{{TENANT}}})", "{{tenant}}"),
            "none",
        ),
        TimeSeries(
            "Monthly budgets used",
            "Charges and holds over the budget, for tenants that have one; at 1 requests are refused until the month turns.",
            Prom("budget_used", f"max by (tenant) ({names.BUDGET_USED.name}{{{TENANT}}})", "{{tenant}}"),
            "percentunit",
        ),
        TablePanel(
            "Billing months by tenant",
            "In each tenant's own time zone; unmeasured above 0 marks partial sums.",
            Sql("tenant_months"),
        ),
        TimeSeries(
            "Cost by owner of engine time",
            "Tenants, cold, recompute, system, idle, unattributed, down: they sum to the rented time.",
            Sql("engine_cost_by_owner"),
            "none",
            width=24,
        ),
        TablePanel(
            "Reconciliation",
            "Per engine and hour: owners against rented time. Both differences are zero, or the ledger is wrong.",
            Sql("reconciliation"),
        ),
        TablePanel(
            "Documents",
            "Invoices and credit notes of the months in the time range.",
            Sql("invoices"),
        ),
    ),
    (Variable("tenant", "Tenant", Sql("tenants_known")),),
    start="now-7d",
)

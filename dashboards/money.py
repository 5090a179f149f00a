"""Cost, margin, unit price and reconciliation, from the ledger. Drawn as floats; the ledger's own values are exact."""

from __future__ import annotations

from typing import Any, Final

from alerts.links import MONEY
from dashboards.panels import GREEN, RED, Prom, Sql, Step, Variable, board, stat, table, text, timeseries
from dashboards.queries import promql_queries, sql_queries

ZERO_STEPS: Final = (Step(RED), Step(GREEN, 0), Step(RED, 1e-18))
"""Anything but zero is wrong: the books conserve time and money exactly."""
MARGIN_STEPS: Final = (Step(RED), Step(GREEN, 0))
_WORDS: Final = (
    "cost = (T_B + T_A - T_kv + T_cold) x price of a GPU-hour. **T_B** and **T_A**: base and LoRA time as if no prefix had been cached; **T_kv**: what cached prefixes saved, "
    "estimated against *prefix caching off*; **T_cold**: loading adapters. Their sum is what was measured. Idle, system, recompute, down and unattributed time are owners of their own."
)


def money_board() -> dict[str, Any]:
    """What tenants cost and pay, and whether the books conserve."""
    sql = sql_queries()
    return board(
        MONEY,
        "What tenants cost and pay, and whether the books conserve time and money.",
        [
            text(_WORDS),
            stat(
                "Cost, revenue, margin",
                "Attributed cost and what plans charge, over the time range, in the price book's currency.",
                Sql(sql["cost_total"]),
                "none",
                decimals=2,
                width=12,
            ),
            stat(
                "Missing from the books",
                "Rented time and money that no owner accounts for. Both are zero, or the ledger is wrong.",
                Sql(sql["reconciliation_missing"]),
                "none",
                steps=ZERO_STEPS,
                width=12,
            ),
            timeseries(
                "Cost by tenant",
                "Attributed cost per interval.",
                [Sql(sql["cost_by_tenant"], series=True)],
                "none",
                bars=True,
                stacked=True,
            ),
            timeseries(
                "The four terms",
                "Engine seconds per interval; T_kv counts against the others.",
                [Sql(sql["terms_over_time"], series=True)],
                "s",
                bars=True,
                stacked=True,
                minimum=None,
            ),
            table(
                "Terms by tenant and adapter",
                "Engine seconds, GPU-hours and cost over the time range.",
                Sql(sql["terms_by_tenant"]),
            ),
            table(
                "Margin by tenant",
                "All tenants over the time range, the lowest margin first: share of the GPU beside share of the revenue.",
                Sql(sql["margin_by_tenant"]),
                width=12,
            ),
            timeseries(
                "Margin, month to date",
                "Revenue less cost as the gateways show it; LoraMarginNegative warns below 0.",
                [Prom(promql_queries()["margin"], "{{tenant}}")],
                "none",
                steps=MARGIN_STEPS,
                minimum=None,
            ),
            table(
                "Unit price",
                "Cost per million delivered output tokens, by month; empty when nothing was delivered.",
                Sql(sql["unit_price"]),
                width=12,
            ),
            timeseries(
                "Cost per million tokens",
                "As the gateways show it, from the ledger's last snapshot.",
                [Prom(promql_queries()["tenant_cost_per_mtok"], "{{tenant}}")],
                "none",
            ),
            timeseries(
                "Monthly budgets used",
                "Charges and holds over the budget, for tenants that have one; at 1 requests are refused until the month turns.",
                [Prom(promql_queries()["budget_used"], "{{tenant}}")],
                "percentunit",
            ),
            table(
                "Billing months by tenant",
                "In each tenant's own time zone; unmeasured above 0 marks partial sums.",
                Sql(sql["tenant_months"]),
            ),
            timeseries(
                "Cost by owner of engine time",
                "Tenants, cold, recompute, system, idle, unattributed, down: they sum to the rented time.",
                [Sql(sql["engine_cost_by_owner"], series=True)],
                "none",
                bars=True,
                stacked=True,
                width=24,
            ),
            table(
                "Reconciliation",
                "Per engine and hour: owners against rented time. Both differences are zero, or the ledger is wrong.",
                Sql(sql["reconciliation"]),
            ),
            table("Documents", "Invoices and credit notes of the months in the time range.", Sql(sql["invoices"])),
        ],
        [Variable("tenant", "Tenant", sql["tenants_known"], sql=True)],
        start="now-7d",
    )

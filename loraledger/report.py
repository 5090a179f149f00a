"""The figures of a month, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from billing.reconcile import OWNERS, Reconciliation
from catalog.model import Catalog
from loraledger import console


def show_month(month: str, rows: Sequence[Mapping[str, Any]], catalog: Catalog) -> None:
    """One line per tenant: use, the four terms in seconds, cost, unit price, and the shares of GPU time and revenue."""
    currency = catalog.prices.currency
    columns = [
        "tenant",
        "requests",
        "tokens in",
        "out",
        "T_B s",
        "T_A s",
        "T_kv s",
        "T_cold s",
        f"cost {currency}",
        "per 1M out",
        "GPU",
        "revenue",
    ]
    lines = [
        [
            row["tenant"],
            f"{row['requests']:,}",
            f"{row['input_tokens']:,}",
            f"{row['output_tokens']:,}",
            console.seconds(row["t_b_ns"]),
            console.seconds(row["t_a_ns"]),
            console.seconds(row["t_kv_ns"]),
            console.seconds(row["t_cold_ns"]),
            console.amount(row["cost"]),
            console.amount(row["cost_per_million_tokens"]),
            _percent(row["gpu_share"]),
            _percent(row["revenue_share"]),
        ]
        for row in rows
    ]
    whole: dict[str, Any] = {
        key: sum((row[key] for row in rows), start=0)
        for key in ("requests", "input_tokens", "output_tokens", "t_b_ns", "t_a_ns", "t_kv_ns", "t_cold_ns")
    }
    total = [
        "all",
        f"{whole['requests']:,}",
        f"{whole['input_tokens']:,}",
        f"{whole['output_tokens']:,}",
        *(console.seconds(whole[term]) for term in ("t_b_ns", "t_a_ns", "t_kv_ns", "t_cold_ns")),
        console.amount(sum((row["cost"] for row in rows), start=Decimal(0))),
        "",
        "",
        "",
    ]
    console.out.print()
    console.table(f"{month}: for whom the engine worked", columns, lines, total=total)
    if catalog.prices.note:
        console.out.print(
            f"[dim]{catalog.prices.note} Cost = (T_B + T_A - T_kv + T_cold) x GPU-hour price; T_kv is an estimate and cancels.[/]\n"
        )


def show_reconciliation(found: Reconciliation) -> None:
    """Conservation, owner by owner, in nanoseconds and money, and whether records and meter agree."""
    rows = [
        [
            owner,
            f"{found.owners[owner]:,}",
            console.share(found.owners[owner], found.rented_ns),
            console.amount(found.costs[owner]),
        ]
        for owner in OWNERS
    ]
    money = sum(found.costs.values(), start=Decimal(0))
    total = ["rented", f"{found.rented_ns:,}", "100.0 %" if found.rented_ns else "-", console.amount(money)]
    console.table(
        "Rented time x GPUs, and whose it was",
        ["owner", "GPU ns", "share", found.currency or "cost"],
        rows,
        total=total,
    )
    if found.missing_ns:
        console.out.print(f"[red]NOT conserved[/]: {found.missing_ns:,} ns have no owner")
    else:
        console.out.print(f"[green]conserved[/]: {' + '.join(OWNERS)} = rented, 0 ns missing")
    console.out.print(
        f"records and meter are {found.record_difference_ns:,} ns apart over closed attempts ({found.uneven_attempts} uneven, {found.unmeasured_attempts} unmeasured)"
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"

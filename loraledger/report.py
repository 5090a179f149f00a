"""The figures of a month, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.markup import escape

from billing.close.acceptance import Acceptance
from billing.close.counters import Gap
from billing.close.reconcile import Reconciliation
from billing.exact.money import total, trimmed
from billing.store.invoice.verify import Fault
from catalog.model import Catalog
from catalog.owners import TimeOwner
from loraledger import console


def show_month(month: str, rows: Sequence[Mapping[str, Any]], catalog: Catalog) -> None:
    """One line per tenant: use, the four terms in seconds, cost, unit price, and the shares of GPU time and revenue."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "tenant": lambda row: row["tenant"],
        "requests": lambda row: f"{row['requests']:,}",
        "tokens in": lambda row: f"{row['input_tokens']:,}",
        "out": lambda row: f"{row['output_tokens']:,}",
        "T_B s": lambda row: console.seconds(row["t_b_ns"]),
        "T_A s": lambda row: console.seconds(row["t_a_ns"]),
        "T_kv s": lambda row: console.seconds(row["t_kv_ns"]),
        "T_cold s": lambda row: console.seconds(row["t_cold_ns"]),
        f"cost {catalog.prices.currency}": lambda row: console.amount(row["cost"]),
    }
    of_one: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "per 1M out": lambda row: console.amount(row["cost_per_million_tokens"]),
        "GPU": lambda row: _percent(row["gpu_share"]),
        "revenue": lambda row: _percent(row["revenue_share"]),
    }
    lines = [[cell(row) for cell in (*columns.values(), *of_one.values())] for row in rows]
    added = ("requests", "input_tokens", "output_tokens", "t_b_ns", "t_a_ns", "t_kv_ns", "t_cold_ns", "cost")
    whole = {"tenant": "all", **{key: sum(row[key] for row in rows) for key in added}}
    total = [*(cell(whole) for cell in columns.values()), *("" for _ in of_one)]
    console.out.print()
    console.table(f"{month}: for whom the engine worked", [*columns, *of_one], lines, total=total)
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
        for owner in TimeOwner
    ]
    money = sum(found.costs.values(), start=Decimal(0))
    whole = ["rented", f"{found.rented_ns:,}", "100.0 %" if found.rented_ns else "-", console.amount(money)]
    console.table(
        "Rented time x GPUs, and whose it was",
        ["owner", "GPU ns", "share", found.currency or "cost"],
        rows,
        total=whole,
    )
    sums = "rented time without an owner" if found.missing_ns else f"{' + '.join(TimeOwner)} = rented"
    _conserved(not found.missing_ns, f"{sums}, {found.missing_ns:,} ns missing")
    currency, missing = found.currency, found.missing_cost
    owned = console.amount(total((found.costs[TimeOwner.TENANTS], found.costs[TimeOwner.COLD])), currency)
    _conserved(
        not missing,
        f"tenants + cold are {owned} in engine_cost and {console.amount(found.attributed_cost, currency)} in tenant_cost, "
        f"{trimmed(missing):,f} {currency} missing".replace("  ", " "),
    )
    console.out.print(
        f"records and meter are {found.record_difference_ns:,} ns apart over closed attempts ({found.uneven_attempts} uneven, {found.unmeasured_attempts} unmeasured)"
    )


def _conserved(well: bool, said: str) -> None:
    console.out.print(f"{'[green]conserved[/]' if well else '[red]NOT conserved[/]'}: {said}")


def show_system(causes: Mapping[str, int], busy_ns: int) -> None:
    """Why engine time went to the system, as parts of busy time; stalls are the machine's, not the traffic's."""
    parts = ", ".join(
        f"{cause} {console.share(ns, busy_ns)}" for cause, ns in sorted(causes.items(), key=lambda item: -item[1]) if ns
    )
    console.out.print(f"of busy time, {console.share(sum(causes.values()), busy_ns)} is system: {parts or 'nothing'}")


def show_engine_gaps(gaps: Sequence[Gap]) -> None:
    """The engines' own counters beside the meter's and the usage records', all processes together, with the cause of each gap."""
    if not gaps:
        return
    lines: dict[tuple[str, str, str], list[int]] = {}
    causes: dict[tuple[str, str, str], Counter[str]] = {}
    for gap in gaps:
        key = (gap.what, gap.larger, gap.smaller)
        lines[key] = [
            old + new for old, new in zip(lines.get(key, [0, 0, 0]), (*gap.counts, gap.unexplained), strict=True)
        ]
        causes.setdefault(key, Counter()).update(gap.causes)
    rows = [
        [
            f"{what}: {larger} - {smaller}",
            ", ".join(f"{cause} {count:,}" for cause, count in causes[what, larger, smaller].most_common()) or "-",
            f"{counts[0]:,}",
            f"{counts[1]:,}",
            f"{counts[0] - counts[1]:,}",
            f"{counts[2]:,}",
        ]
        for (what, larger, smaller), counts in lines.items()
    ]
    console.out.print()
    columns = ["three counts of the same work", "because", "one", "other", "gap", "unexplained"]
    console.table("Engine counters, meter and usage records", columns, rows, left=2)


def show_blocks(blocks: Sequence[Mapping[str, Any]], waiting: Sequence[str], what: str) -> None:
    """What was found, whom it keeps from an invoice or a draft, how much it is about, and what to do; to the error stream."""
    if not blocks:
        return
    console.err.print(f"[bold]{len(blocks)} findings[/]; without {what}: {', '.join(waiting) or 'nobody'}")
    for block in blocks:
        whom = ", ".join(tenant for tenant in block["tenants"] if tenant in waiting)
        amounts = (("tokens", block["tokens"]), ("ns", block["engine_ns"]), ("at stake", block["cost"]))
        much = ", ".join(f"{value} {name}" for name, value in amounts if value is not None)
        when = f"{block['start'][:19]} to {block['end'][:19]} UTC" if block["start"] and block["end"] else ""
        console.err.print(
            f"{block['id']}  {f'blocks {whom}' if whom else 'blocks nobody'}: {block['what']}", markup=False
        )
        for line in (", ".join(part for part in (when, much) if part), block["advice"]):
            if line:
                console.err.print(f"  {line}", markup=False)


def show_accepted(accepted: Sequence[Acceptance]) -> None:
    """Gaps of the month that the provider took on."""
    if accepted:
        rows = [
            [
                one.gap,
                one.what,
                f"{one.reason} ({one.accepted_by}, {one.cutoff:%Y-%m-%d})",
                f"{one.cost:f}",
                one.currency,
            ]
            for one in accepted
        ]
        console.out.print()
        console.table("Gaps that the provider carries", ["gap", "what", "why", "cost", ""], rows, left=3)


def show_faults(faults: Sequence[Fault]) -> None:
    """Documents that are not as they were issued, what is broken and what to do; to the error stream."""
    for fault in faults:
        console.err.print(f"[bold red]broken[/] {escape(fault.document)}: {escape(fault.broken)}")
        console.err.print(f"  {fault.advice}", markup=False)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"

"""The figures of a month, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.markup import escape

from billing.close.acceptance import Acceptance
from billing.close.counters import Gap
from billing.close.reconcile import Reconciliation, ZoneMonth
from billing.exact.money import total, trimmed
from billing.store.invoice.verify import Fault
from catalog.model import Catalog
from catalog.months import to_datetime
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
    window = " to ".join(f"{to_datetime(at):%Y-%m-%d %H:%M}" for at in (found.start_ns, found.end_ns))
    console.table(
        f"Rented time x GPUs, and whose it was, {window} UTC",
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


def show_zones(zones: Sequence[ZoneMonth], currency: str) -> None:
    """The month as the tenants' time zones cut it, where it is not the provider's: these overlap, and sum to nothing."""
    rows = [
        [
            one.zone,
            ", ".join(one.tenants),
            *(f"{to_datetime(at):%Y-%m-%d %H:%M}" for at in (one.start_ns, one.end_ns)),
            f"{one.rented_ns:,}",
            f"{one.tenants_ns:,}",
            console.amount(one.cost),
        ]
        for one in zones
    ]
    columns = ("time zone", "tenants", "from (UTC)", "to (UTC)", "rented GPU ns", "theirs", currency or "cost")
    console.table("The month in its tenants' time zones, which overlap", columns, rows, left=2)


def show_late(late: Mapping[str, Any]) -> None:
    """What came late for earlier months, what follows from it, and which of them are not closed; to the error stream."""
    for one in late["derived"]:
        hours = f"{one['hours']:,} hour{'s' if one['hours'] > 1 else ''}"
        console.warn(
            f"{one['month']} got facts in {hours}, last at {one['learned_at'][:19]} UTC, and was derived again: "
            f"{one['changed']:,} rows of cost changed"
        )
        for fault in one["faults"]:
            console.warn(f"{one['month']}: {fault}")
    for one in late["learned"]:
        more = one["outcome"] == "correction"
        where = f"on {one['on']}" if one["on"] else "on the next invoice"
        todo = where if more else f"`loraledger credit {one['invoice']} --issue` credits it"
        amount = f"{one['net'].removeprefix('-')} {one['currency']}"
        console.warn(
            f"{one['tenant']}, {one['month']}: {amount} {'more' if more else 'less'} than {one['invoice']} and what corrects it; {todo}"
        )
    for one in late["added"]:
        if one["documents"]:
            console.warn(f"{one['month']} was closed without {', '.join(one['documents'])}: issued now")
        if one["waiting"]:
            console.warn(
                f"{one['month']}: {', '.join(one['waiting'])} wait; `loraledger close {one['month']}` says why"
            )
        for file in one["files"]:
            if file.endswith(".pdf"):
                console.out.print(file)
    if late["open"]:
        console.warn(f"{', '.join(late['open'])} open: what was used then is on no document until closed")
    if late["partly"]:
        console.warn(f"{', '.join(late['partly'])} partly closed: somebody waits for a document")


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

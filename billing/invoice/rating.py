"""What one tenant's month costs, and what its plan charges for it; every digit kept, rounding is the invoice's."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from typing import Final, Literal

from billing.cost.attribution import IdleTime, TenantCost
from billing.cost.facts import COLD, QuarterKey
from billing.errors import PayerMissing, RowsInvalid
from billing.exact.canonical import text_hash
from billing.exact.money import COST_QUANTUM, plain, product, round_places, total, trimmed
from billing.exact.periods import to_ns
from billing.invoice.plans import Charge, plan_charges
from billing.invoice.prices import book_hash
from catalog import tariff
from catalog.model import CostPlus, Plan, PriceBook, Tenant
from catalog.prices import IdlePolicy, Payer

_PLACES: Final = -int(COST_QUANTUM.as_tuple().exponent)


@dataclass(frozen=True, slots=True)
class Term:
    """One term of the cost formula. `gpu_ns` is engine nanoseconds x GPUs; `cost` is exact."""

    gpu_ns: int
    gpu_hours: Decimal
    cost: Decimal


@dataclass(frozen=True, slots=True)
class CostStatement:
    """The formula T_B + T_A - T_kv + T_cold of some rows; `t_kv` is positive and estimated, `measured` is the result."""

    t_b: Term
    t_a: Term
    t_kv: Term
    t_cold: Term
    measured: Term


@dataclass(frozen=True, slots=True)
class AdapterCost:
    """One adapter's part of a tenant's month. `charged` is what the plan charges for it before rounding, idle and minimum."""

    adapter: str
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    statement: CostStatement
    charged: Decimal


@dataclass(frozen=True, slots=True)
class StatusCost:
    """Attempts that ended with one status: their attributed cost, and who pays for it by the price book's table."""

    status: str
    payer: Payer
    requests: int
    gpu_hours: Decimal
    cost: Decimal


@dataclass(frozen=True, slots=True)
class RatedTenant:
    """A tenant's month: attributed cost of every row, and the charges of its plan for those that it pays.

    Amounts are in `currency`, the price book's. `ledger_hash` is the SHA-256 of the rows, so that an invoice can be traced
    to exactly the facts it was made from; `price_book_hash` is that of the prices.
    """

    tenant: str
    currency: str
    plan: Literal["cost_plus", "per_token"]
    minimum: Decimal
    price_book: str
    price_book_hash: str
    idle_policy: IdlePolicy
    idle: tuple[IdleTime, ...]
    charges: tuple[Charge, ...]
    statement: CostStatement
    adapters: tuple[AdapterCost, ...]
    statuses: tuple[StatusCost, ...]
    ledger_hash: str

    @property
    def requests(self) -> int:
        """Attempts, of every status."""
        return sum(adapter.requests for adapter in self.adapters)

    @property
    def output_tokens(self) -> int:
        """Delivered output tokens, of every status."""
        return sum(adapter.output_tokens for adapter in self.adapters)

    @property
    def amount(self) -> Decimal:
        """Sum of the charges, unrounded, before the minimum."""
        return total(charge.amount for charge in self.charges)


@dataclass(frozen=True, slots=True)
class Held:
    """What holds for the rows of a month: the price book by the hour, and the tenant's plans, each from when on, oldest first."""

    book: Callable[[int], PriceBook]
    plans: Sequence[tuple[datetime, Plan]]

    def payer(self, row: TenantCost) -> Payer | None:
        """Who pays for the row, by the table of its hour."""
        return _payer(row.quarter.status, self.book(row.quarter.start_ns))

    def charges(self, rows: Sequence[TenantCost], idle: Sequence[IdleTime], currency: str) -> list[Charge]:
        """What the plan of each row asks for it; the last one for the share of idle time, which is the month's."""
        if len(self.plans) == 1:
            return plan_charges(self.plans[0][1], rows, idle, currency)
        found: list[Charge] = []
        ends = [*(to_ns(since) for since, _ in self.plans[1:]), None]
        for (since, plan), end_ns in zip(self.plans, ends, strict=True):
            start_ns = 0 if since is self.plans[0][0] else to_ns(since)
            own = [
                row
                for row in rows
                if start_ns <= row.quarter.start_ns and (end_ns is None or row.quarter.start_ns < end_ns)
            ]
            found += [
                replace(charge, since=since)
                for charge in plan_charges(plan, own, () if end_ns is not None else idle, currency)
            ]
        return found


def rate_tenant(
    tenant: Tenant, rows: Sequence[TenantCost], book: PriceBook, idle: Sequence[IdleTime] = (), held: Held | None = None
) -> RatedTenant:
    """Apply the tenant's plan to its cost rows of one billing month; `idle` is its share from `share_idle`.

    `tenant` and `book` are as they are when the month ends, `held` says where they were others before. Cost is attributed for
    every row; charges follow the book's table by status, and shared adapter loads (COLD) are the tenant's. `cost_plus` charges
    the terms, the idle share and the margin on both; `per_token` charges tokens only.
    Raises PayerMissing, and RowsInvalid when a row is another tenant's, is there twice, or has more
    cached than input tokens.
    """
    _check_rows(tenant, rows)
    held = held or Held(lambda _: book, [(datetime.min.replace(tzinfo=UTC), tenant.plan)])
    payers: dict[QuarterKey, Payer] = {}
    for row in sorted(rows, key=lambda row: row.quarter.status):
        if (payer := held.payer(row)) is None:
            raise PayerMissing(tenant.id, row.quarter.status, held.book(row.quarter.start_ns).version)
        payers[row.quarter.key] = payer
    charged = [row for row in rows if payers[row.quarter.key] == "tenant"]
    return RatedTenant(
        tenant=tenant.id,
        currency=book.currency,
        plan=tenant.plan.kind,
        minimum=trimmed(tenant.plan.minimum),
        price_book=book.version,
        price_book_hash=book_hash(book),
        idle_policy=book.idle,
        idle=tuple(replace(part, price=trimmed(part.price), gpu_hours=trimmed(part.gpu_hours)) for part in idle),
        charges=tuple(held.charges(charged, idle, book.currency)),
        statement=_statement(rows),
        adapters=tuple(_adapter(held, name, part, payers, book.currency) for name, part in _by_adapter(rows)),
        statuses=_statuses(rows, payers),
        ledger_hash=ledger_hash(rows),
    )


def revenue(row: TenantCost, tenant: Tenant | None, book: PriceBook) -> tuple[Payer, Decimal]:
    """Who pays for the row, and what the plan asks for it before idle time, minimums and line rounding, to 18 decimals.

    A tenant that the catalog does not have (the provider itself, say) pays nothing, nor is a status charged that the book
    does not name.
    """
    if tenant is None or _payer(row.quarter.status, book) != "tenant":
        return "provider", Decimal(0)
    if isinstance(tenant.plan, CostPlus):
        asked = product(row.cost, tariff.markup(tenant.plan))
    else:
        asked = total(charge.amount for charge in plan_charges(tenant.plan, [row], (), book.currency))
    return "tenant", round_places(asked, _PLACES)


def ledger_hash(rows: Iterable[TenantCost]) -> str:
    """SHA-256 (hex) of the rows in canonical JSON: sorted, fixed decimals; the same rows in any order hash the same."""
    plain_rows = [
        asdict(row.quarter)
        | {"gpu_type": row.gpu_type, "gpu_count": row.gpu_count, "price": plain(row.price, 18)}
        | {part: plain(getattr(row, part), 12) for part in ("base_gpu_hours", "adapter_gpu_hours", "cold_gpu_hours")}
        for row in rows
    ]
    lines = sorted(json.dumps(row, sort_keys=True, separators=(",", ":")) for row in plain_rows)
    return text_hash("\n".join(lines))


def _check_rows(tenant: Tenant, rows: Sequence[TenantCost]) -> None:
    seen: set[QuarterKey] = set()
    for row in rows:
        quarter = row.quarter
        where = f"could not rate tenant {tenant.id}: row of {quarter.adapter} on {quarter.engine}, {quarter.status}, quarter {quarter.start_ns}"
        if quarter.tenant != tenant.id:
            raise RowsInvalid(f"{where} belongs to tenant {quarter.tenant}")
        if quarter.key in seen:
            raise RowsInvalid(f"{where} is there twice")
        seen.add(quarter.key)
        if quarter.cached_tokens > quarter.input_tokens:
            raise RowsInvalid(f"{where} has {quarter.cached_tokens} cached of {quarter.input_tokens} input tokens")


def _payer(status: str, book: PriceBook) -> Payer | None:
    return "tenant" if status == COLD else tariff.payer(book, status)


def _term(gpu_ns: int, gpu_hours: Iterable[Decimal], costs: Iterable[Decimal]) -> Term:
    return Term(gpu_ns, trimmed(total(gpu_hours)), trimmed(total(costs)))


def _statement(rows: Sequence[TenantCost]) -> CostStatement:
    ns = {
        "t_b": sum((r.quarter.base_ns + r.quarter.kv_saved_base_ns) * r.gpu_count for r in rows),
        "t_a": sum((r.quarter.adapter_ns + r.quarter.kv_saved_adapter_ns) * r.gpu_count for r in rows),
        "t_kv": sum((r.quarter.kv_saved_base_ns + r.quarter.kv_saved_adapter_ns) * r.gpu_count for r in rows),
        "t_cold": sum(r.quarter.cold_ns * r.gpu_count for r in rows),
    }
    terms = {
        name: _term(
            gpu_ns,
            (getattr(r, f"{name}_gpu_hours") for r in rows),
            (product(getattr(r, f"{name}_gpu_hours"), r.price) for r in rows),
        )
        for name, gpu_ns in ns.items()
    }
    measured = sum(r.quarter.measured_ns * r.gpu_count for r in rows)
    return CostStatement(**terms, measured=_term(measured, (r.gpu_hours for r in rows), (r.cost for r in rows)))


def _by_adapter(rows: Sequence[TenantCost]) -> Iterable[tuple[str, list[TenantCost]]]:
    def adapter(row: TenantCost) -> str:
        return row.quarter.adapter

    return [(name, list(part)) for name, part in groupby(sorted(rows, key=adapter), adapter)]


def _adapter(
    held: Held, name: str, rows: Sequence[TenantCost], payers: dict[QuarterKey, Payer], currency: str
) -> AdapterCost:
    charged = [row for row in rows if payers[row.quarter.key] == "tenant"]
    return AdapterCost(
        adapter=name,
        requests=sum(row.quarter.requests for row in rows),
        input_tokens=sum(row.quarter.input_tokens for row in rows),
        cached_tokens=sum(row.quarter.cached_tokens for row in rows),
        output_tokens=sum(row.quarter.output_tokens for row in rows),
        statement=_statement(rows),
        charged=trimmed(total(charge.amount for charge in held.charges(charged, (), currency))),
    )


def _statuses(rows: Sequence[TenantCost], payers: Mapping[QuarterKey, Payer]) -> tuple[StatusCost, ...]:
    """By status; one that the tenant paid for a time and the provider for another is there twice."""
    parts: defaultdict[tuple[str, Payer], list[TenantCost]] = defaultdict(list)
    for row in rows:
        parts[row.quarter.status, payers[row.quarter.key]].append(row)
    return tuple(_status(status, payer, part) for (status, payer), part in sorted(parts.items()))


def _status(status: str, payer: Payer, part: Sequence[TenantCost]) -> StatusCost:
    return StatusCost(
        status,
        payer,
        requests=sum(row.quarter.requests for row in part),
        gpu_hours=trimmed(total(row.gpu_hours for row in part)),
        cost=trimmed(total(row.cost for row in part)),
    )

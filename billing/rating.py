"""What one tenant's month costs, and what its plan charges for it; every digit kept, rounding is the invoice's."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from billing.attribution import IdlePolicy, IdleTime, TenantCost
from billing.errors import CurrencyMismatch, PayerMissing, PriceMissing, RowsInvalid
from billing.facts import COLD
from billing.money import negated, plain, product, total, trimmed
from billing.periods import to_datetime
from catalog.model import CostPlus, PerToken, Plan, PriceBook, Tenant

Payer = Literal["tenant", "provider"]


class ChargeKind(StrEnum):
    """What a charge is for; each becomes one line on the invoice. MINIMUM and ROUNDING arise only there."""

    BASE = "t_b"
    LORA = "t_a"
    CACHE = "t_kv"
    COLD = "t_cold"
    IDLE = "idle"
    MARGIN = "margin"
    INPUT = "input"
    CACHED_INPUT = "cached_input"
    OUTPUT = "output"
    MINIMUM = "minimum"
    ROUNDING = "rounding"


@dataclass(frozen=True, slots=True)
class Charge:
    """`quantity` x `price`, unrounded. `unit` is `GPU-hour`, `1M tokens`, `item`, or the currency (a margin on that much cost).

    A credit has a negative quantity, never a negative price. `gpu_type` tells term lines of several GPU types apart.
    """

    kind: ChargeKind
    quantity: Decimal
    unit: str
    price: Decimal
    gpu_type: str | None = None

    @property
    def amount(self) -> Decimal:
        """What it comes to, exact."""
        return trimmed(product(self.quantity, self.price))


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

    `ledger_hash` is the SHA-256 of the rows, so that an invoice can be traced to exactly the facts it was made from.
    """

    tenant: str
    currency: str
    plan: Literal["cost_plus", "per_token"]
    minimum: Decimal
    price_book: str
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


def gpu_price(
    book: PriceBook, gpu_type: str, at_ns: int, *, tenant: str | None = None, adapter: str | None = None
) -> Decimal:
    """Price of a GPU-hour at that instant; PriceMissing, naming the tenant and adapter that used it, when there is none."""
    at = to_datetime(at_ns)
    price = book.price(gpu_type, at)
    if price is None:
        raise PriceMissing(gpu_type, at, book.version, tenant, adapter)
    return price


def rate_tenant(
    tenant: Tenant, rows: Sequence[TenantCost], book: PriceBook, idle: Sequence[IdleTime] = ()
) -> RatedTenant:
    """Apply the tenant's plan to its cost rows of one billing month; `idle` is its share from `share_idle`.

    Cost is attributed for every row; charges follow `book.charged` by status, and shared adapter loads (COLD) are the
    tenant's. `cost_plus` charges the terms, the idle share and the margin on both; `per_token` charges tokens only.
    Raises CurrencyMismatch, PayerMissing, and RowsInvalid when a row is another tenant's, is there twice, or has more
    cached than input tokens.
    """
    if tenant.currency != book.currency:
        raise CurrencyMismatch(f"tenant {tenant.id}", book.currency, tenant.currency)
    _check_rows(tenant, rows)
    payers = {status: _payer(tenant, status, book) for status in sorted({row.quarter.status for row in rows})}
    charged = [row for row in rows if payers[row.quarter.status] == "tenant"]
    return RatedTenant(
        tenant=tenant.id,
        currency=book.currency,
        plan=tenant.plan.kind,
        minimum=trimmed(tenant.plan.minimum),
        price_book=book.version,
        idle_policy=book.idle,
        idle=tuple(IdleTime(part.gpu_type, trimmed(part.price), trimmed(part.gpu_hours)) for part in idle),
        charges=tuple(_charges(tenant.plan, charged, idle, book.currency)),
        statement=_statement(rows),
        adapters=tuple(_adapter(tenant, name, part, payers) for name, part in _by_adapter(rows)),
        statuses=tuple(_status(status, payer, rows) for status, payer in payers.items()),
        ledger_hash=ledger_hash(rows),
    )


def ledger_hash(rows: Iterable[TenantCost]) -> str:
    """SHA-256 (hex) of the rows in canonical JSON: sorted, fixed decimals; the same rows in any order hash the same."""
    plain_rows = [
        asdict(row.quarter)
        | {"gpu_type": row.gpu_type, "gpu_count": row.gpu_count, "price": plain(row.price, 18)}
        | {part: plain(getattr(row, part), 12) for part in ("base_gpu_hours", "adapter_gpu_hours", "cold_gpu_hours")}
        for row in rows
    ]
    lines = sorted(json.dumps(row, sort_keys=True, separators=(",", ":")) for row in plain_rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _check_rows(tenant: Tenant, rows: Sequence[TenantCost]) -> None:
    seen: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        quarter = row.quarter
        where = f"could not rate tenant {tenant.id}: row of {quarter.adapter} on {quarter.engine}, {quarter.status}, quarter {quarter.start_ns}"
        if quarter.tenant != tenant.id:
            raise RowsInvalid(f"{where} belongs to tenant {quarter.tenant}")
        seen[quarter.start_ns, quarter.engine, quarter.adapter, quarter.status] += 1
        if seen[quarter.start_ns, quarter.engine, quarter.adapter, quarter.status] > 1:
            raise RowsInvalid(f"{where} is there twice")
        if quarter.cached_tokens > quarter.input_tokens:
            raise RowsInvalid(f"{where} has {quarter.cached_tokens} cached of {quarter.input_tokens} input tokens")


def _payer(tenant: Tenant, status: str, book: PriceBook) -> Payer:
    if status == COLD:
        return "tenant"
    payer = next((payer for named, payer in book.charged.items() if named == status), None)
    if payer is None:
        raise PayerMissing(tenant.id, status, book.version)
    return payer


def _charges(plan: Plan, rows: Sequence[TenantCost], idle: Sequence[IdleTime], currency: str) -> list[Charge]:
    return _cost_plus(plan, rows, idle, currency) if isinstance(plan, CostPlus) else _per_token(plan, rows)


def _cost_plus(plan: CostPlus, rows: Sequence[TenantCost], idle: Sequence[IdleTime], currency: str) -> list[Charge]:
    charges = []
    priced: defaultdict[tuple[str, Decimal], list[TenantCost]] = defaultdict(list)
    for row in rows:
        priced[row.gpu_type, row.price].append(row)
    for (gpu_type, price), part in sorted(priced.items()):
        terms = {
            ChargeKind.BASE: total(row.t_b_gpu_hours for row in part),
            ChargeKind.LORA: total(row.t_a_gpu_hours for row in part),
            ChargeKind.CACHE: negated(total(row.t_kv_gpu_hours for row in part)),
            ChargeKind.COLD: total(row.t_cold_gpu_hours for row in part),
        }
        charges += [_charge(kind, quantity, "GPU-hour", price, gpu_type) for kind, quantity in terms.items()]
    charges += [_charge(ChargeKind.IDLE, part.gpu_hours, "GPU-hour", part.price, part.gpu_type) for part in idle]
    if plan.margin:
        cost = total(charge.amount for charge in charges)
        charges.append(_charge(ChargeKind.MARGIN, cost, currency, plan.margin))
    return charges


def _per_token(plan: PerToken, rows: Iterable[TenantCost]) -> list[Charge]:
    quarters = [row.quarter for row in rows]
    cached = sum(quarter.cached_tokens for quarter in quarters)
    tokens = {
        ChargeKind.INPUT: (sum(quarter.input_tokens for quarter in quarters) - cached, plan.input),
        ChargeKind.CACHED_INPUT: (cached, plan.cached_input),
        ChargeKind.OUTPUT: (sum(quarter.output_tokens for quarter in quarters), plan.output),
    }
    return [_charge(kind, Decimal(count).scaleb(-6), "1M tokens", price) for kind, (count, price) in tokens.items()]


def _charge(kind: ChargeKind, quantity: Decimal, unit: str, price: Decimal, gpu_type: str | None = None) -> Charge:
    return Charge(kind, trimmed(quantity), unit, trimmed(price), gpu_type)


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
    parts: defaultdict[str, list[TenantCost]] = defaultdict(list)
    for row in rows:
        parts[row.quarter.adapter].append(row)
    return sorted(parts.items())


def _adapter(tenant: Tenant, name: str, rows: Sequence[TenantCost], payers: dict[str, Payer]) -> AdapterCost:
    charged = [row for row in rows if payers[row.quarter.status] == "tenant"]
    return AdapterCost(
        adapter=name,
        requests=sum(row.quarter.requests for row in rows),
        input_tokens=sum(row.quarter.input_tokens for row in rows),
        cached_tokens=sum(row.quarter.cached_tokens for row in rows),
        output_tokens=sum(row.quarter.output_tokens for row in rows),
        statement=_statement(rows),
        charged=trimmed(total(charge.amount for charge in _charges(tenant.plan, charged, (), tenant.currency))),
    )


def _status(status: str, payer: Payer, rows: Sequence[TenantCost]) -> StatusCost:
    part = [row for row in rows if row.quarter.status == status]
    return StatusCost(
        status,
        payer,
        requests=sum(row.quarter.requests for row in part),
        gpu_hours=trimmed(total(row.gpu_hours for row in part)),
        cost=trimmed(total(row.cost for row in part)),
    )

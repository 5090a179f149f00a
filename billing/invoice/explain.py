"""Opens an invoice line to the attempts behind it, and an attempt to the lines it is on: exact, with rounding as a row. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from billing.cost.attribution import TenantCost, idle_policy
from billing.cost.facts import COLD, QuarterKey, TenantQuarter
from billing.errors import ExplanationInvalid
from billing.exact.money import COST_QUANTUM, allocate, negated, product, total, trimmed
from billing.exact.periods import to_ns
from billing.exact.quantities import GPU_HOUR_QUANTUM
from billing.invoice.invoice import Invoice
from billing.invoice.lines import Line
from billing.invoice.plans import TERM_KINDS, TOKEN_KINDS, ChargeKind, tokens

NO_ATTEMPT: Final = "measured time that no attempt is known for"
NO_FOLLOWER: Final = "adapter loads that no attempt of the month followed"
MEMORY: Final = "idle time carried for adapter memory"
AGREED: Final = "agreed in the contract, used or not"
LATER: Final = "learned since the invoice was cut off"
EARLIER: Final = "usage of an earlier month: explain the invoice that this line corrects"
ROUND: Final = "rounding among lines"

_SHARED: Final = (ChargeKind.DISCOUNT, ChargeKind.COVERED, ChargeKind.OVERAGE)
_NOBODY: Final = {
    ChargeKind.MINIMUM: AGREED,
    ChargeKind.COMMITMENT: AGREED,
    ChargeKind.ROUNDING: ROUND,
    ChargeKind.CORRECTION: EARLIER,
}


class AttemptId(NamedTuple):
    """An attempt's identity (`emitter`, `seq`), and what people know it by."""

    emitter: str
    seq: int
    request_id: str


class AttemptQuarter(NamedTuple):
    """One attempt's part of a row of its tenant, under the row's key: its identity is both together.

    Tokens, and `requests` = 1, stand in the quarter hour in which the attempt finished.
    """

    attempt: AttemptId
    quarter: TenantQuarter


class AttemptTime(NamedTuple):
    """Engine time of one attempt: what was measured (None: it has no figures), and the zero-sum line of shared prefixes.

    Only the measured time is on invoices; with the line it is what the attempt would have had, if all who used a prefix had shared it.
    """

    attempt: AttemptId
    measured_ns: int | None
    reshare_ns: int


@dataclass(frozen=True, slots=True)
class Share:
    """What an attempt has of a line: `quantity` in the line's unit, `amount` in the invoice's currency, unrounded.

    `attempt` is None for a part that belongs to none; `why` says why.
    """

    attempt: AttemptId | None
    why: str | None
    quantity: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Explained:
    """A line opened: `shares` and `rounding` sum to its amount exactly. `rounding` is less than a minor unit."""

    line: Line
    shares: tuple[Share, ...]
    rounding: Decimal

    def check(self) -> None:
        """Raise ExplanationInvalid unless shares and rounding come to the line's amount."""
        if (found := total((*(share.amount for share in self.shares), self.rounding))) != self.line.amount:
            raise ExplanationInvalid(
                f"could not explain line {self.line.position}: it is {self.line.amount}, its parts come to {found}"
            )


Owner = AttemptId | str
"""An attempt, or why there is none."""
Quantities = dict[Owner, Decimal]


def explain_invoice(
    invoice: Invoice,
    rows: Iterable[TenantCost],
    attempts: Iterable[AttemptQuarter],
    unpaid: Collection[QuarterKey] = (),
) -> tuple[Explained, ...]:
    """Every line of the invoice opened, in order.

    `rows` are the tenant's cost rows of the month and `attempts` their parts by attempt, both as known at the cut-off;
    with rows as known later, what is new stands in shares of its own (LATER). Row quantities are dealt by nanoseconds in
    steps of 1e-12 GPU-hours, adapter loads by attempts, margin and discounts by what they are taken of. `unpaid` are rows of a
    status that the tenant pays whose time the provider paid. ExplanationInvalid
    when a row or an attempt is another tenant's or has no row.
    """
    charged = {status.status for status in invoice.statuses if status.payer == "tenant"}
    own = list(rows)
    if strange := next((row.quarter for row in own if row.quarter.tenant != invoice.tenant), None):
        raise ExplanationInvalid(
            f"could not explain invoice {invoice.number or invoice.month} of {invoice.tenant}: a row belongs to {strange.tenant}"
        )
    since = sorted({line.since for line in invoice.lines if line.since is not None})
    dealt = _Dealt(own, list(attempts), charged, _Cut(since), unpaid)
    opened: list[tuple[Line, Quantities]] = []
    for line in invoice.lines:
        opened.append((line, _open(line, dealt, opened, invoice)))
    explained = tuple(_explained(line, quantities) for line, quantities in opened)
    for one in explained:
        one.check()
    return explained


def explain_request(explained: Iterable[Explained], request_id: str) -> list[tuple[Line, Share]]:
    """The lines on which a request is, with its share of each, all its attempts; empty when it was charged nothing."""
    return [
        (one.line, share)
        for one in explained
        for share in one.shares
        if share.attempt is not None and share.attempt.request_id == request_id
    ]


class _Cut:
    """Where the month's plan changes: when the terms that hold at an instant began, None in a month with one plan."""

    def __init__(self, since: Sequence[datetime]) -> None:
        self._since, self._ns = since, [to_ns(at) for at in since]

    def __call__(self, at_ns: int) -> datetime | None:
        return self._since[max(bisect_right(self._ns, at_ns) - 1, 0)] if self._since else None


class _Dealt:
    """The rows that the tenant pays, dealt over their attempts: by term, GPU type, price and plan; and tokens, by plan."""

    def __init__(
        self,
        rows: Sequence[TenantCost],
        attempts: Sequence[AttemptQuarter],
        charged: set[str],
        cut: _Cut,
        unpaid: Collection[QuarterKey],
    ) -> None:
        self._cut = cut
        parts: defaultdict[QuarterKey, list[AttemptQuarter]] = defaultdict(list)
        for one in attempts:
            parts[one.quarter.key].append(one)
        self.terms: defaultdict[tuple[ChargeKind, str, Decimal, datetime | None], Quantities] = defaultdict(dict)
        self.tokens: defaultdict[tuple[ChargeKind, datetime | None], Counter[Owner]] = defaultdict(Counter)
        self.measured: Counter[Owner] = Counter()
        followers: defaultdict[str, Counter[Owner]] = defaultdict(Counter)
        for attempt, part in attempts:
            if part.requests and part.engine:
                followers[part.adapter][attempt] += part.requests
        known = set()
        for row in rows:
            quarter = row.quarter
            known.add(quarter.key)
            own = parts.get(quarter.key, [])
            for attempt, part in own:
                self.measured[attempt] += (part.base_ns + part.adapter_ns) * row.gpu_count
            if quarter.status == COLD:
                self._give(ChargeKind.COLD, row, row.t_cold_gpu_hours, followers[quarter.adapter], NO_FOLLOWER)
            elif quarter.status in charged and quarter.key not in unpaid:
                self._time(row, own)
                self._count(row, own)
        if strange := next((one for one in attempts if one.quarter.key not in known), None):
            of = strange.quarter
            raise ExplanationInvalid(
                f"could not explain attempt {strange.attempt.request_id}: there is no cost row of {of.adapter} on "
                f"{of.engine}, {of.status}, quarter {of.start_ns}"
            )

    def _time(self, row: TenantCost, own: Sequence[AttemptQuarter]) -> None:
        pots = (
            (ChargeKind.BASE, row.base_gpu_hours, "base_ns"),
            (ChargeKind.LORA, row.adapter_gpu_hours, "adapter_ns"),
            (ChargeKind.BASE, row.kv_saved_base_gpu_hours, "kv_saved_base_ns"),
            (ChargeKind.LORA, row.kv_saved_adapter_gpu_hours, "kv_saved_adapter_ns"),
            (ChargeKind.CACHE, negated(row.kv_saved_base_gpu_hours), "kv_saved_base_ns"),
            (ChargeKind.CACHE, negated(row.kv_saved_adapter_gpu_hours), "kv_saved_adapter_ns"),
        )
        for kind, quantity, name in pots:
            weights: Counter[Owner] = Counter()
            for attempt, part in own:
                weights[attempt] += getattr(part, name)
            weights[NO_ATTEMPT] = _rest(row, name, getattr(row.quarter, name), weights.total())
            self._give(kind, row, quantity, weights, NO_ATTEMPT)

    def _give(
        self, kind: ChargeKind, row: TenantCost, quantity: Decimal, weights: Mapping[Owner, int], nobody: str
    ) -> None:
        pot = self.terms[kind, row.gpu_type, trimmed(row.price), self._cut(row.quarter.start_ns)]
        _add(pot, _split(quantity, weights, nobody, GPU_HOUR_QUANTUM))

    def _count(self, row: TenantCost, own: Sequence[AttemptQuarter]) -> None:
        for kind in TOKEN_KINDS:
            counts = self.tokens[kind, self._cut(row.quarter.start_ns)]
            for attempt, part in own:
                counts[attempt] += tokens(part, kind)
            whole = tokens(row.quarter, kind)
            counts[NO_ATTEMPT] += _rest(row, kind.value, whole, sum(tokens(part, kind) for _, part in own))


def _rest(row: TenantCost, what: str, whole: int, parts: int) -> int:
    if parts > whole:
        raise ExplanationInvalid(
            f"could not explain {what} of {row.quarter.adapter} on {row.quarter.engine}, quarter {row.quarter.start_ns}: "
            f"its row has {whole}, its attempts {parts}"
        )
    return whole - parts


def _open(line: Line, dealt: _Dealt, before: Sequence[tuple[Line, Quantities]], invoice: Invoice) -> Quantities:
    """Who has how much of the line's quantity; what the rows do not account for is LATER's."""
    found: Quantities
    if line.kind in TERM_KINDS:
        found = dict(dealt.terms[line.kind, line.gpu_type or "", line.unit_price, line.since])
    elif line.kind in TOKEN_KINDS:
        found = {owner: Decimal(count).scaleb(-6) for owner, count in dealt.tokens[line.kind, line.since].items()}
    elif line.kind is ChargeKind.IDLE:
        by_time = idle_policy(invoice.idle, line.gpu_type, line.quantity, invoice.idle_policy) == "usage"
        found = _split(line.quantity, dealt.measured if by_time else Counter[Owner](), MEMORY, GPU_HOUR_QUANTUM)
    elif line.kind is ChargeKind.MARGIN:
        found = {}
        for cost, quantities in before:
            if cost.since != line.since:
                continue
            _add(found, {owner: product(quantity, cost.unit_price) for owner, quantity in quantities.items()})
    elif line.kind in _SHARED:
        usage: Quantities = {}
        for used, quantities in before:
            if used.kind not in _SHARED and used.kind not in _NOBODY:
                _add(usage, {owner: _worth(used, quantity) for owner, quantity in quantities.items()})
        found = _split(line.quantity, {o: max(w, Decimal(0)) for o, w in usage.items()}, AGREED, COST_QUANTUM)
    else:
        found = {_NOBODY[line.kind]: line.quantity}
    if missing := total((line.quantity, negated(total(found.values())))):
        _add(found, {LATER: missing})
    return {owner: quantity for owner, quantity in found.items() if quantity}


def _explained(line: Line, quantities: Quantities) -> Explained:
    shares = tuple(
        Share(None, owner, quantity, _worth(line, quantity))
        if isinstance(owner, str)
        else Share(owner, None, quantity, _worth(line, quantity))
        for owner, quantity in sorted(quantities.items(), key=lambda item: _rank(item[0]))
    )
    return Explained(line, shares, total((line.amount, negated(total(share.amount for share in shares)))))


def _worth(line: Line, quantity: Decimal) -> Decimal:
    exact = product(quantity, line.unit_price)
    return trimmed(exact if line.exchange_rate is None else product(exact, line.exchange_rate))


def _split(
    quantity: Decimal, weights: Mapping[Owner, int] | Mapping[Owner, Decimal], nobody: str, quantum: Decimal
) -> Quantities:
    """Dealt by weight, exactly; all of it to `nobody` when there is no weight."""
    owners = sorted((owner for owner, weight in weights.items() if weight), key=_rank)
    if not owners:
        return {nobody: quantity} if quantity else {}
    return dict(zip(owners, allocate(quantity, [weights[owner] for owner in owners], quantum), strict=True))


def _rank(owner: Owner) -> tuple[bool, Owner]:
    """Attempts in the order of their identity, then what belongs to none."""
    return isinstance(owner, str), owner


def _add(pot: dict[Owner, Decimal], more: Mapping[Owner, Decimal]) -> None:
    for owner, quantity in more.items():
        pot[owner] = total((pot.get(owner, Decimal(0)), quantity))

"""October 2026 of three tenants, reckoned twice: by the ledger's functions, and by fractions that share no code with them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from billing.attribution import TenantCost, price_engine_hour
from billing.corrections import correction_lines, difference, proposed_credit_notes
from billing.credit import CreditNote, draft_credit_note, issue_credit_note, spread
from billing.explain import AttemptId, AttemptQuarter, explain_invoice, explain_request
from billing.facts import HOUR_NS, EngineMinute, TenantQuarter
from billing.invoice import Invoice, Reconciliation, draft_invoice, issue_invoice
from billing.periods import BillingMonth, hour_start, quarter_start, to_ns
from billing.postings import FIRST, Posting, balance, broken_postings, credit_note_postings, invoice_postings, owed
from billing.prices import gpu_price
from billing.rating import rate_tenant
from catalog.model import PriceBook, Seller, Tenant
from telemetry.usage import QUARTER_NS

D, F = Decimal, Fraction
GPUS = 2
CLOSE, LATER = datetime(2026, 11, 3, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """E{id,t,tenant,adapter,in,cached,out,gpu_ms,status}; times in ms of engine time, `known` when we heard of it."""

    id: str
    at: str
    tenant: str
    adapter: str
    base: int
    lora: int
    kv: int
    tokens: tuple[int, int, int]
    status: str = "ok"
    known: datetime = CLOSE


EVENTS = [
    Event("c1", "2026-09-30T21:59", "clinic", "icd", 400_000, 90_000, 9_000, (100, 0, 50)),  # Berlin: still September
    Event("c2", "2026-09-30T22:00", "clinic", "icd", 123_456, 7_893, 1_800, (9_000, 100, 5_000)),
    Event("c3", "2026-10-15T23:50", "clinic", "icd", 200_007, 15_003, 27_000, (7_000, 900, 4_000)),
    Event("c4", "2026-10-16T00:05", "clinic", "base", 300_009, 0, 36_000, (8_000, 800, 3_000)),  # the dearer price
    Event(
        "c5", "2026-10-25T00:30", "clinic", "icd", 50_001, 2_001, 0, (500, 0, 20), "client_abort"
    ),  # the hour that comes twice
    Event("c6", "2026-10-25T01:30", "clinic", "icd", 60_003, 3_003, 0, (600, 0, 0), "server_error"),
    Event("c7", "2026-10-31T22:50", "clinic", "base", 111_111, 0, 9_000, (900, 90, 700)),
    Event("c8", "2026-10-31T22:55", "clinic", "icd", 70_002, 6_003, 0, (800, 0, 900), known=LATER),  # late
    Event("f1", "2026-09-30T18:30", "forge", "code", 500_004, 250_002, 0, (4_000, 0, 9_000)),
    Event("f2", "2026-10-20T10:00", "forge", "code", 333_333, 99_999, 3_600, (3_000, 300, 8_000)),
    Event("f3", "2026-10-20T10:01", "forge", "code", 222_222, 66_666, 0, (2_000, 0, 7_000)),  # disputed: it failed
    Event("f4", "2026-10-31T18:45", "forge", "code", 900_000, 10_000, 0, (1_000, 0, 1_000)),  # Kolkata: November
    Event("s1", "2026-10-10T12:00", "shop", "voice", 100_000, 20_000, 5_000, (2_345_678, 345_678, 1_234_567)),
    Event("s2", "2026-10-10T12:01", "shop", "voice", 1_000, 100, 0, (50_000, 0, 777), "timeout"),
]
AFTER = [replace(event, status="server_error") if event.id == "f3" else event for event in EVENTS]

# The oracle: fractions, months as written on the calendar, no function of the ledger.

MONTHS = {
    "clinic": ("2026-09-30T22:00", "2026-10-31T23:00"),
    "forge": ("2026-09-30T18:30", "2026-10-31T18:30"),
    "shop": ("2026-09-30T22:00", "2026-10-31T23:00"),
}
PAID = {"ok", "client_abort"}


def cents(amount: Fraction) -> Fraction:
    """Half away from zero, to the cent."""
    scaled = abs(amount) * 100
    whole = scaled.numerator * 2 // scaled.denominator
    return F((whole + 1) // 2 * (1 if amount >= 0 else -1), 100)


def price_at(at: str) -> Fraction:
    return F("420") if at >= "2026-10-16T00:00" else F("360")


def paid(events: list[Event], tenant: str, known: datetime) -> list[Event]:
    start, end = MONTHS[tenant]
    return [e for e in events if e.tenant == tenant and start <= e.at < end and e.status in PAID and e.known <= known]


def cost_plus_lines(events: list[Event], rate: Fraction) -> list[Fraction]:
    """Rounded lines in the order of the invoice: four terms for each price, then the margin of a quarter on all."""
    lines, cost = [], F(0)
    for price in sorted({price_at(e.at) for e in events}):
        part = [e for e in events if price_at(e.at) == price]
        for ms in (
            sum(e.base + e.kv for e in part),
            sum(e.lora for e in part),
            -sum(e.kv for e in part),
            0,
        ):
            amount = F(ms * GPUS, 3_600_000) * price
            cost += amount
            lines.append(cents(amount * rate))
    return [*lines, cents(cost / 4 * rate)]


def shop_lines(events: list[Event]) -> list[Fraction]:
    cached, out = sum(e.tokens[1] for e in events), sum(e.tokens[2] for e in events)
    fresh = sum(e.tokens[0] for e in events) - cached
    usage = [cents(F(n, 1_000_000) * F(p)) for n, p in ((fresh, "0.61"), (cached, "0.07"), (out, "2.43"))]
    return [*usage, -cents((sum(usage) - 1) * F("0.15"))]


def oracle(events: list[Event], known: datetime) -> dict[str, tuple[list[Fraction], Fraction]]:
    """Lines and gross amount by tenant."""
    found = {}
    for tenant, rate, tax in (("clinic", F(1), F("0.19")), ("forge", F("1.0842"), F(0)), ("shop", F(1), F("0.21"))):
        mine = paid(events, tenant, known)
        lines = shop_lines(mine) if tenant == "shop" else cost_plus_lines(mine, rate)
        found[tenant] = lines, sum(lines) + cents(sum(lines) * tax)
    return found


# The ledger's side.


@pytest.fixture(scope="module")
def golden_book() -> PriceBook:
    return PriceBook.model_validate(
        {
            "version": "golden",
            "gpu_hours": [
                {"gpu_type": "h200", "start": "2026-01-01T00:00:00Z", "per_hour": "360"},
                {"gpu_type": "h200", "start": "2026-10-16T00:00:00Z", "per_hour": "420"},
            ],
            "fx": [
                {"currency": "USD", "day": "2026-09-30", "rate": "1.2", "source": "ECB"},
                {"currency": "USD", "day": "2026-10-30", "rate": "1.0842", "source": "ECB"},
                {"currency": "USD", "day": "2026-11-02", "rate": "1.3", "source": "ECB"},
            ],
        }
    )


@pytest.fixture(scope="module")
def golden_tenants(clinic: Tenant, shop: Tenant) -> dict[str, Tenant]:
    plan = shop.plan.model_copy(
        update={"input": D("0.61"), "cached_input": D("0.07"), "output": D("2.43"), "minimum": D(0)}
    )
    forge = {
        "id": "forge", "name": "Forge Labs", "address": ("12 MG Road", "IN"), "time_zone": "Asia/Kolkata", "currency": "USD",
        "tax_treatment": "export", "slo": {"p99_seconds": "2"}, "plan": {"kind": "cost_plus", "margin": "0.25"},
    }  # fmt: skip
    discount = {"id": "volume", "fraction": "0.15", "above": "1"}
    discounted = Tenant.model_validate(shop.model_dump() | {"plan": plan.model_dump(), "discounts": [discount]})
    return {"clinic": clinic, "forge": Tenant.model_validate(forge), "shop": discounted}


def cost_rows(events: list[Event], known: datetime, book: PriceBook) -> list[TenantCost]:
    """What the ledger would hold: attempts summed by quarter hour, each engine-hour priced with its idle time."""
    quarters: defaultdict[tuple[str, str, str, int], list[Event]] = defaultdict(list)
    for event in events:
        if event.known <= known:
            quarters[event.tenant, event.adapter, event.status, quarter_start(ns_of(event))].append(event)
    rows = [
        TenantQuarter(
            tenant, adapter, "e0", status, start,
            base_ns=sum(e.base for e in part) * 10**6, adapter_ns=sum(e.lora for e in part) * 10**6,
            kv_saved_base_ns=sum(e.kv for e in part) * 10**6, requests=len(part),
            input_tokens=sum(e.tokens[0] for e in part), cached_tokens=sum(e.tokens[1] for e in part),
            output_tokens=sum(e.tokens[2] for e in part),
        )
        for (tenant, adapter, status, start), part in sorted(quarters.items())
    ]  # fmt: skip
    costs: list[TenantCost] = []
    for hour in sorted({hour_start(row.start_ns) for row in rows}):
        here = [row for row in rows if hour_start(row.start_ns) == hour]
        minutes = []
        for start in range(hour, hour + HOUR_NS, QUARTER_NS):
            busy = sum(row.measured_ns for row in here if row.start_ns == start)
            minutes.append(
                EngineMinute("e0", start, 2 * QUARTER_NS, 2 * QUARTER_NS - busy, busy, 0, 0, 0, 0, 0, "h200", GPUS)
            )
        costs += price_engine_hour(minutes, here, gpu_price(book, "h200", hour)).tenants
    return costs


def ns_of(event: Event) -> int:
    return to_ns(datetime.fromisoformat(f"{event.at}:00+00:00"))


def month_rows(costs: list[TenantCost], tenant: Tenant) -> list[TenantCost]:
    month = BillingMonth("2026-10", tenant.time_zone)
    return [row for row in costs if row.quarter.tenant == tenant.id and month.holds(row.quarter.start_ns)]


def october(
    events: list[Event], known: datetime, tenant: Tenant, book: PriceBook, seller: Seller
) -> tuple[Invoice, list[TenantCost]]:
    rows = month_rows(cost_rows(events, known, book), tenant)
    measured = sum(row.quarter.measured_ns * row.gpu_count for row in rows)
    draft = draft_invoice(
        rate_tenant(tenant, rows, book), tenant, seller, book, BillingMonth("2026-10", tenant.time_zone), cutoff=known,
        method="engine-step/1", profiles=[], reconciliation=Reconciliation(measured, 0, 0, 0, 0, 0, 0, 0, measured),
    )  # fmt: skip
    return draft, rows


@pytest.fixture(scope="module")
def issued(golden_tenants: dict[str, Tenant], golden_book: PriceBook, seller: Seller) -> dict[str, Invoice]:
    return {
        name: issue_invoice(october(EVENTS, CLOSE, tenant, golden_book, seller)[0], "LL", rank, date(2026, 11, 4))
        for rank, (name, tenant) in enumerate(golden_tenants.items(), start=1)
    }


def test_every_line_and_total_is_the_oracles_to_the_cent(issued: dict[str, Invoice]) -> None:
    for tenant, (lines, gross) in oracle(EVENTS, CLOSE).items():
        assert [F(line.amount) for line in issued[tenant].lines] == lines
        assert F(issued[tenant].gross) == gross
    assert {name: str(invoice.gross) for name, invoice in issued.items()} == {
        "clinic": "263.78",
        "forge": "431.67",
        "shop": "4.54",
    }


def test_another_currency_is_converted_line_by_line_at_the_last_rate_of_the_month(issued: dict[str, Invoice]) -> None:
    forge = issued["forge"]
    assert forge.exchange is not None
    assert (forge.currency, forge.price_currency, forge.exchange.rate, forge.exchange.day) == (
        "USD", "EUR", D("1.0842"), date(2026, 10, 30),
    )  # fmt: skip
    assert {line.price_currency for line in forge.lines} == {"EUR"}
    for line in forge.lines:
        assert abs(line.amount - line.converted) <= D("0.005")


def test_late_usage_and_a_dispute_bring_both_invoices_to_what_is_now_known(
    issued: dict[str, Invoice], golden_tenants: dict[str, Tenant], golden_book: PriceBook, seller: Seller
) -> None:
    now = oracle(AFTER, LATER)
    drafts = {n: october(AFTER, LATER, t, golden_book, seller)[0] for n, t in golden_tenants.items()}
    assert {n: F(draft.gross) for n, draft in drafts.items()} == {n: gross for n, (_, gross) in now.items()}
    found = {name: difference(issued[name], drafts[name]) for name in issued}
    assert {name: one.outcome for name, one in found.items()} == {
        "clinic": "correction",
        "forge": "credit",
        "shop": "none",
    }
    raised = correction_lines(found["clinic"])
    assert F(sum(line.amount for line in raised)) == sum(now["clinic"][0]) - F(issued["clinic"].net)
    assert {line.corrects.month for line in raised if line.corrects} == {"2026-10"}
    (note,) = proposed_credit_notes(found["forge"], "dispute", "Request f3 failed on our side.")
    assert F(note.gross) == F(issued["forge"].gross) - now["forge"][1]
    assert F(note.remaining_gross) == now["forge"][1]
    assert (note.currency, str(note.gross)) == ("USD", "91.35")


def test_every_cent_opens_to_attempts_and_back(
    issued: dict[str, Invoice], golden_tenants: dict[str, Tenant], golden_book: PriceBook, seller: Seller
) -> None:
    for name, tenant in golden_tenants.items():
        draft, rows = october(EVENTS, CLOSE, tenant, golden_book, seller)
        mine = [
            e
            for e in EVENTS
            if e.tenant == name and BillingMonth("2026-10", tenant.time_zone).holds(ns_of(e)) and e.known <= CLOSE
        ]
        explained = explain_invoice(issued[name], rows, [attempt(event) for event in mine])
        assert draft.lines == issued[name].lines
        for one in explained:
            assert {share.why for share in one.shares} == {None} or not one.shares
            assert sum(F(share.amount) for share in one.shares) + F(one.rounding) == F(one.line.amount)
            assert abs(one.rounding) <= D("0.005")
    clinic = golden_tenants["clinic"]
    rows = october(EVENTS, CLOSE, clinic, golden_book, seller)[1]
    heard = [attempt(e) for e in EVENTS if e.tenant == "clinic" and e.id != "c1" and e.known <= CLOSE]
    explained = explain_invoice(issued["clinic"], rows, heard)
    back = explain_request(explained, "req-c3")
    assert [F(share.amount) for _, share in back] == [
        F(ms * GPUS, 3_600_000) * 360 for ms in (227_007, 15_003, -27_000)
    ] + [F(215_010 * GPUS, 3_600_000) * 360 / 4]
    assert explain_request(explained, "req-c6") == []
    assert len(explain_request(explained, "req-c5")) > 0


def attempt(event: Event) -> AttemptQuarter:
    tokens = dict(zip(("input_tokens", "cached_tokens", "output_tokens"), event.tokens, strict=True))
    return AttemptQuarter(
        AttemptId("gw", EVENTS.index(event), f"req-{event.id}"), event.adapter, "e0", event.status, quarter_start(ns_of(event)),
        event.base * 10**6, event.lora * 10**6, event.kv * 10**6, requests=1, **tokens,
    )  # fmt: skip


def test_the_ledger_of_the_month_balances_and_is_chained(issued: dict[str, Invoice]) -> None:
    forge = issued["forge"]
    notes: list[CreditNote] = []
    for rank, amount in enumerate((D("10.00"), D("20.01")), start=1):
        draft = draft_credit_note(forge, spread(forge, amount, notes), "goodwill", earlier=notes, cutoff=LATER)
        notes.append(issue_credit_note(draft, "CN", rank, date(2026, 11, 20)))
    ledger: list[Posting] = []
    for invoice in issued.values():
        ledger += invoice_postings(invoice, ledger[-1].hash if ledger else FIRST)
    for note in notes:
        ledger += credit_note_postings(note, ledger[-1].hash)
    assert broken_postings(ledger) == []
    assert balance(ledger) == {"EUR": 0, "USD": 0}
    assert owed(ledger) == {"EUR": issued["clinic"].gross + issued["shop"].gross, "USD": forge.gross - D("30.01")}
    assert owed(ledger, forge.number) == {"USD": forge.gross}
    changed = [*ledger[:3], replace(ledger[3], credit=ledger[3].credit + 1), *ledger[4:]]
    assert any("chain is broken" in problem for problem in broken_postings(changed))
    assert broken_postings([*ledger[:5], *ledger[6:]])

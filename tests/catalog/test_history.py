"""A tenant as its entries say: each holds from when it was known, whatever comes later, unless the past is restated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from catalog import tariff
from catalog.history import Entry, as_known
from catalog.months import to_ns
from catalog.tenants import Tenant

START = datetime(2026, 10, 1, tzinfo=UTC)
QUARTER = timedelta(minutes=15)


def tenant(margin: int, note: str | None, *terms: dict[str, Any]) -> Tenant:
    plan = {"kind": "cost_plus", "margin": margin}
    return Tenant.model_validate(
        {"id": "acme", "name": "Acme", "slo": {"p99_seconds": 1}, "plan": plan, "tax_note": note, "terms": terms}
    )


def said(one: Tenant) -> tuple[Decimal, str | None]:
    return one.plan.margin, one.tax_note  # type: ignore[union-attr]


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    known, found = START, []
    for _ in range(draw(st.integers(1, 4))):
        dates = sorted(draw(st.sets(st.integers(0, 40), max_size=3)))
        terms = []
        for date in dates:
            term: dict[str, Any] = {"effective_from": (START + date * QUARTER).isoformat()}
            if draw(st.booleans()):
                term["plan"] = {"kind": "cost_plus", "margin": draw(st.integers(0, 3))}
            if draw(st.booleans()):
                term["tax_note"] = draw(st.sampled_from(["a", "b", None]))
            terms.append(term)
        entry = tenant(draw(st.integers(0, 3)), draw(st.sampled_from(["a", "b", None])), *terms)
        found.append(Entry(known, entry, draw(st.booleans())))
        known += timedelta(seconds=draw(st.integers(1, 12_000)))
    return found


def margin_at(history: list[Entry], at: datetime) -> Decimal:
    """By the words of the rule: the newest entry that was known by then, or that says of then with a date and was restated."""
    for entry in reversed(history[1:]):
        dated = [term for term in entry.tenant.terms if term.effective_from <= at and "plan" in term.named]
        if entry.known_at <= at or (entry.restated and dated):
            return dated[-1].plan.margin if dated else entry.tenant.plan.margin  # type: ignore[union-attr]
    first = history[0].tenant
    dated = [term for term in first.terms if term.effective_from <= at and "plan" in term.named]
    return dated[-1].plan.margin if dated else first.plan.margin  # type: ignore[union-attr]


@given(entries(), st.integers(-5, 60))
def test_each_term_holds_from_when_it_was_known_or_restated(history: list[Entry], quarter: int) -> None:
    at = START + quarter * QUARTER
    assert said(tariff.terms_at(as_known(history).tenant, to_ns(at)))[0] == margin_at(history, at)


@given(entries())
def test_what_is_said_again_is_no_edit_and_what_was_restated_is_none_afterwards(history: list[Entry]) -> None:
    newest = history[-1]._replace(known_at=history[-1].known_at + timedelta(days=1), restated=True)
    assert not as_known([*history, newest]).edited
    later = newest._replace(known_at=newest.known_at + timedelta(days=1), restated=False)
    again = as_known([*history, newest, later])
    assert not again.edited
    at = to_ns(START + timedelta(days=3))
    assert said(tariff.terms_at(again.tenant, at)) == said(tariff.terms_at(newest.tenant, at))


def test_a_date_before_it_was_known_is_an_edit_and_changes_nothing() -> None:
    before = Entry(START, tenant(0, None))
    dated = {"effective_from": "2026-10-02", "plan": {"kind": "cost_plus", "margin": 1}, "time_zone": "Asia/Kolkata"}
    found = as_known([before, Entry(START + timedelta(days=9), tenant(0, None, dated))])
    assert [str(edit) for edit in found.edited] == [
        "plan changes from 2026-10-02T00:00:00+00:00 on, which is past: give it a date to come, or say --restate",
        "time_zone changes from 2026-10-02T00:00:00+00:00 on, which is past: give it a date to come",
    ]
    assert said(tariff.terms_at(found.tenant, to_ns(START + timedelta(days=8))))[0] == 0
    assert said(tariff.terms_at(found.tenant, to_ns(START + timedelta(days=9))))[0] == 1
    assert tariff.calendar(found.tenant).zones == (("", "UTC"), ("2026-11", "Asia/Kolkata"))

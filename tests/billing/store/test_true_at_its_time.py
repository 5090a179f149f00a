"""Random histories of terms, zones, tables, late facts and closes: what a tenant's documents come to is what a program of fractions says.

Prices and token counts are such that every line is whole cents, so no rounding stands between the two.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from billing.close.acceptance import Acceptance
from billing.documents.facturx import Document
from billing.documents.press import FORMS, Files, Press
from billing.exact.periods import to_ns
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice
from billing.store.catalog_history import known_catalog, remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window
from billing.store.intake.ingest import ingest
from billing.store.invoice.credits import issue_proposed
from billing.store.invoice.invoices import close_month
from billing.store.invoice.issuing import chain_after, document_text, issued_invoices
from catalog.model import Catalog, Tenant

QUARTER = timedelta(minutes=15)
ZONES = ("UTC", "Asia/Kolkata", "America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati", "Europe/Berlin")
SEEN = [datetime(2026, *day, 9, 7, tzinfo=UTC) for day in ((10, 20), (11, 3), (11, 25), (12, 20))]
END = datetime(2027, 1, 20, tzinfo=UTC)
EDGES = [
    datetime(2026, *at, tzinfo=UTC)
    for at in ((10, 31, 18), (11, 1, 3), (11, 30, 20), (12, 1, 1), (10, 16, 0), (11, 10, 5))
]
TABLE_CHANGES = datetime(2026, 11, 10, 5, tzinfo=UTC)


class Paperless(Press):
    """Keeps the text alone; documents on paper are judged elsewhere."""

    def files(self, document: Document) -> Files:
        text = document_text(document).encode()
        return {form: text if form == "json" else b"-" for form in FORMS}


@dataclass
class History:
    """One tenant's entries, (when known, entry, restated), and its facts: (finished, millions of tokens, status)."""

    entries: list[tuple[datetime, dict[str, Any], bool]] = field(default_factory=list)
    facts: list[tuple[datetime, Fraction, str]] = field(default_factory=list)

    def price(self, at: datetime) -> Fraction:
        """The newest entry that was known by then, or that was restated and says of then with a date."""
        for rank, (known, entry, restated) in reversed(list(enumerate(self.entries))):
            dated = [
                term["plan"]
                for term in entry["terms"]
                if datetime.fromisoformat(term["effective_from"]) <= at and "plan" in term
            ]
            if rank == 0 or known <= at or (restated and dated):
                return Fraction((dated or [entry["plan"]])[-1]["input"])
        raise AssertionError

    def owed(self) -> Fraction:
        """A timeout is the tenant's from the new table on."""
        return sum(
            (
                tokens * self.price(finished)
                for finished, tokens, status in self.facts
                if status == "ok" or finished >= TABLE_CHANGES
            ),
            Fraction(0),
        )


def plan(rng: random.Random) -> dict[str, Any]:
    return {"kind": "per_token", "input": str(rng.randint(1, 900)), "cached_input": "1", "output": "1"}


def entry(rng: random.Random, name: str, before: dict[str, Any] | None, now: datetime, past: bool) -> dict[str, Any]:
    """The next entry: something edited without a date, or dated to come, or, where the past may be restated, dated back."""
    made: dict[str, Any]
    if before is None:
        made = {
            "id": name,
            "name": name,
            "slo": {"p99_seconds": 1},
            "plan": plan(rng),
            "time_zone": rng.choice(ZONES),
            "terms": [],
        }
    else:
        made = {**before, "terms": list(before["terms"])}
    if rng.random() < 0.4:
        made["plan"] = plan(rng)
    if rng.random() < 0.3 and not any("time_zone" in term for term in made["terms"]):
        made["time_zone"] = rng.choice(ZONES)
    last = max(
        [datetime.fromisoformat(term["effective_from"]) for term in made["terms"]],
        default=datetime(2026, 9, 1, tzinfo=UTC),
    )
    for _ in range(rng.randint(0, 2)):
        back = past and rng.random() < 0.5
        first = last + QUARTER if back else max(now, last) + QUARTER
        at = first.replace(minute=first.minute // 15 * 15, second=0) + QUARTER * rng.randint(1, 2500)
        term: dict[str, Any] = {"effective_from": at.isoformat(), "plan": plan(rng)}
        if at > now and rng.random() < 0.5:
            term["time_zone"] = rng.choice(ZONES)
        made["terms"].append(term)
        last = at
    return made


def when_known(at: datetime) -> datetime:
    since = at - datetime(2026, 1, 1, tzinfo=UTC)
    return datetime(2026, 1, 1, tzinfo=UTC) - (-since // QUARTER) * QUARTER


class World:
    def __init__(self, ledger: Ledger, example: Catalog, directory: Path, seed: int) -> None:
        self.ledger, self.example, self.directory, self.rng = ledger, example, directory, random.Random(seed)
        self.tenants = {f"t{i:02d}": History() for i in range(16)}
        self.past, self.seq, self.now = bool(seed % 2), 0, SEEN[0]

    def catalog(self) -> Catalog:
        old = self.example.prices
        table = {**old.charged, "timeout": "tenant"}
        new = old.model_copy(update={"version": "new", "effective_from": TABLE_CHANGES, "charged": table})
        tenants = tuple(Tenant.model_validate(history.entries[-1][1]) for history in self.tenants.values())
        return self.example.model_copy(
            update={"tenants": tenants, "adapters": (), "prices": new, "earlier_prices": (old,)}
        )

    def learn(self, now: datetime) -> None:
        """A new catalog, and facts of any time before, ingested and derived; the past restated where this world does."""
        self.now = now
        for name, history in self.tenants.items():
            before = history.entries[-1][1] if history.entries else None
            made = entry(self.rng, name, before, now, self.past)
            history.entries.append((when_known(now), made, False))
        path = self.directory / f"{self.seq}.jsonl"
        path.write_text("".join(self.line(name) for name in self.tenants for _ in range(self.rng.randint(0, 3))))
        ingest(self.ledger, [path], self.catalog(), now)
        if self.past:
            self.now += timedelta(hours=1)
            remember_catalog(self.ledger, self.catalog(), self.now, restate=True)
            for history in self.tenants.values():
                history.entries.append((when_known(self.now), history.entries[-1][1], True))
        self.derive()

    def line(self, name: str) -> str:
        edges = [edge for edge in EDGES if edge < self.now]
        finished = self.rng.choice(edges) + self.rng.randint(-3, 3) * QUARTER
        tokens, status = self.rng.randint(1, 400) * 10_000, self.rng.choice(("ok", "ok", "timeout"))
        self.tenants[name].facts.append((finished, Fraction(tokens, 10**6), status))
        self.seq += 1
        return json.dumps(
            {
                "schema": "loraledger.usage/1", "emitter": "f", "seq": self.seq - 1, "request_id": f"r{self.seq}", "tenant": name,
                "arrival_ns": to_ns(finished), "finished_ns": to_ns(finished), "status": status, "input_tokens": tokens,
                "cached_tokens": 0, "output_tokens_computed": 0, "output_tokens_delivered": 0, "slices": [],
            }
        ) + "\n"  # fmt: skip

    def derive(self) -> None:
        known = known_catalog(self.ledger, self.catalog(), self.now).catalog
        windows = [month_window(month, known) for month in ("2026-10", "2027-01")]
        write_tenant_cost(self.ledger, windows[0][0], windows[1][1], self.catalog(), self.now)

    def close(self, month: str) -> None:
        self.now += timedelta(hours=1)
        closed = close_month(self.ledger, month, self.catalog(), self.now, grace_ns=0, press=Paperless())
        assert not closed.blocked, closed.blocked

    def settle(self) -> None:
        """What is charged too much is given back; what is charged too little is on the last invoices."""
        for one in issued_invoices(self.ledger):
            self.now += timedelta(minutes=1)
            issue_proposed(self.ledger, one.number, self.catalog(), self.now, "price_corrected", press=Paperless())


@pytest.mark.parametrize("seed", [0, 1])
def test_documents_come_to_what_facts_and_terms_of_each_instant_give(
    ledger: Ledger, example: Catalog, tmp_path: Path, seed: int
) -> None:
    world = World(ledger, example, tmp_path, seed)
    months = ["2026-10", "2026-11", "2026-12"]
    for now in SEEN:
        world.learn(now)
        over = [month for month in months if now >= month_end(month)]
        world.rng.shuffle(over)
        for month in over[: world.rng.randint(0, 2)]:
            world.close(month)
            months.remove(month)
    world.now = END
    world.derive()
    world.rng.shuffle(months)
    for month in months:
        world.close(month)
    world.now = END + timedelta(days=20)
    world.derive()
    for month in ("2026-10", "2026-11", "2026-12"):
        world.close(month)
    world.close("2027-01")
    world.settle()
    documents = [one.read() for one in chain_after(ledger, 0)]
    charged = {name: Fraction(0) for name in world.tenants}
    for document in documents:
        assert not isinstance(document, Acceptance)
        charged[document.tenant] += Fraction(document.net) * (1 if isinstance(document, Invoice) else -1)
    assert charged == {name: history.owed() for name, history in world.tenants.items()}
    lines = [line for document in documents if isinstance(document, Invoice) for line in document.lines if line.amount]
    assert any(line.since for line in lines), "prices changed within a month"
    assert any(line.corrects for line in lines), "something was learned late"
    assert not world.past or any(isinstance(document, CreditNote) for document in documents), "something became cheaper"
    for name in world.tenants:
        months_of = sorted((one.invoice() for one in issued_invoices(ledger, tenant=name)), key=lambda one: one.start)
        assert all(one.end <= other.start for one, other in pairwise(months_of))


def month_end(month: str) -> datetime:
    """When it is over in every zone."""
    year, number = map(int, month.split("-"))
    return datetime(year + number // 12, number % 12 + 1, 2, tzinfo=UTC)

"""Two months of three customers, from raw lines to documents: the same bytes, and sums that fractions alone give too."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction as F
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pypdf import PdfReader

from billing.close.postings import owed
from billing.cost.facts import NotConserved
from billing.exact.quantities import GPU_HOUR_QUANTUM
from billing.invoice.explain import explain_request
from billing.invoice.invoice import Invoice
from billing.invoice.plans import ChargeKind
from billing.store.close_report import close_report
from billing.store.finance import reconciliation
from billing.store.focus import focus_file
from billing.store.intake.quarantine import listed
from billing.store.invoice.corrections import as_known
from billing.store.invoice.drafting import Desk
from billing.store.invoice.explain import explain
from billing.store.invoice.settling import postings
from billing.store.invoice.verify import verify
from telemetry import engine_time
from telemetry.errors import LineInvalid
from telemetry.names import EventName
from telemetry.otlp_decode import parse_line
from tests.billing.focus.check import faults, read_csv

if TYPE_CHECKING:
    from tests.billing.golden_month.conftest import Golden

HERE = Path(__file__).parent
NEXT = datetime(2026, 12, 4, 6, tzinfo=UTC)
MONTHS = ("2026-10", "2026-11")
VALUES: dict[str, Any] = {
    EventName.OPENED: engine_time.Opened, EventName.WINDOW: engine_time.MeterWindow, EventName.LOAD: engine_time.AdapterLoad,
    EventName.SESSION: engine_time.EngineSession,
}  # fmt: skip


@pytest.fixture(scope="module")
def oracle(golden: Golden) -> dict[str, Any]:
    """What the fractions say; a process of its own that can import the standard library and nothing else."""
    command = [sys.executable, "-I", "-S", str(HERE / "oracle.py"), str(HERE / "spool")]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # type: ignore[no-any-return]


def rows(golden: Golden, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(golden.documents[name].decode())))


def invoices(golden: Golden) -> Iterator[tuple[str, Invoice]]:
    for invoice in (*golden.october, *golden.november):
        yield f"{invoice.month} {invoice.tenant}", invoice


def test_every_document_is_what_is_committed_to_the_byte(golden: Golden) -> None:
    pinned = {line.strip() for line in (HERE.parents[2] / "constraints.txt").read_text().splitlines()}
    assert f"typst=={version('typst')}" in pinned, "PDF bytes are those of the typst in constraints.txt"
    folder = HERE / "documents"
    if os.environ.get("GOLDEN_MONTH") == "write":
        for old in [path for path in folder.rglob("*") if path.is_file()]:
            old.unlink()
        for name, data in golden.documents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        pytest.fail(
            "the golden month is written anew: read what changed, look at the pages, run again without GOLDEN_MONTH"
        )
    committed = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    assert sorted(golden.documents) == sorted(committed)
    assert [name for name, path in committed.items() if path.read_bytes() != golden.documents[name]] == []


def test_the_raw_lines_are_what_the_generator_means(golden: Golden, tmp_path: Path) -> None:
    """By value: a spool that was written before a field was added reads as one written today."""
    subprocess.run([sys.executable, str(HERE / "generate.py"), str(tmp_path)], check=True)
    names = sorted(path.name for path in (HERE / "spool").glob("*.jsonl"))
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        was, now = ((folder / name).read_text().splitlines() for folder in (HERE / "spool", tmp_path))
        assert [meaning(line) for line in was] == [meaning(line) for line in now]


def meaning(line: str) -> Any:
    try:
        parsed = parse_line(line)
    except LineInvalid as error:
        return error.reason
    return parsed.spans, [(e.name, e.emitter, e.seq, VALUES[e.name].from_json(e.body)) for e in parsed.events]


def test_what_came_twice_torn_or_late_is_taken_once(golden: Golden, oracle: dict[str, Any]) -> None:
    assert [(name, report.records, report.duplicates, report.quarantined) for name, report in golden.reports.items()] == [
        ("october", 15, 3, 1), ("october-again", 0, 15, 0), ("late", 3, 2, 0), ("november", 2, 0, 0),
    ]  # fmt: skip
    (torn,) = golden.waited
    assert (torn.kind, torn.event_time, torn.source[:14]) == ("line", None, "october.jsonl,")
    assert golden.found == [f"1 in quarantine ({torn.source}): {torn.reason}"]
    assert (oracle["bad"], listed(golden.ledger)) == (1, [])
    (kept,) = listed(golden.ledger, resolved=True)
    assert kept.resolution == "released: Torn by a crash; the whole line follows."
    lost = golden.ledger.ask("SELECT request_id FROM usage WHERE status = 'lost'").rows
    assert lost == [("req-c10",)]


def test_every_line_and_total_is_the_oracles_to_the_cent(golden: Golden, oracle: dict[str, Any]) -> None:
    assert [name for name, _ in invoices(golden)] == [f"{m} {t}" for m in MONTHS for t in ("clinic", "forge", "shop")]
    for name, invoice in invoices(golden):
        said = oracle["invoices"][name]
        own = [line for line in invoice.lines if line.kind is not ChargeKind.CORRECTION]
        corrected = sum(F(line.amount) for line in invoice.lines if line.kind is ChargeKind.CORRECTION)
        assert [F(line.amount) for line in own] == [F(line) for line in said["lines"]], name
        assert corrected == F(said["corrections"]), name
        assert [F(getattr(invoice, part)) for part in ("net", "tax", "gross")] == [
            F(said[p]) for p in ("net", "tax", "gross")
        ]
        assert F(invoice.due) == F(invoice.gross)
    note = golden.disputed
    assert note is not None
    assert (note.reason, F(note.net), F(note.gross)) == ("dispute", F(oracle["disputed"]), F(oracle["disputed"]))


def test_what_stands_is_what_is_known_less_what_was_agreed(golden: Golden, oracle: dict[str, Any]) -> None:
    """The late spool is charged once and the disputed request not again, whatever is compared how often."""
    asked = "SELECT tenant, standing FROM finance_standing WHERE billing_month = '2026-10' ORDER BY tenant"
    stands = {tenant: F(amount) for tenant, amount in golden.ledger.ask(asked).rows}
    given = {"clinic": F(0), "forge": F(oracle["disputed"]), "shop": F(0)}
    assert stands == {tenant: F(known) - given[tenant] for tenant, known in oracle["known"].items()}
    desk = Desk.at(golden.ledger, golden.catalog, golden.november[0].cutoff)
    for invoice in golden.october:
        found = as_known(desk, invoice)
        assert (found.outcome, found.net) == ("none", found.nothing)


def test_invoices_postings_and_focus_say_the_same_to_the_cent(golden: Golden) -> None:
    note, ledger = golden.disputed, postings(golden.ledger)
    assert note is not None
    asked = {str(invoice.number): invoice.gross for _, invoice in invoices(golden)} | {str(note.number): -note.gross}
    assert {number: sum(owed(ledger, number).values()) for number in asked} == asked
    assert owed(ledger) == {
        "EUR": sum(i.gross for _, i in invoices(golden) if i.currency == "EUR"),
        "USD": sum(i.gross for _, i in invoices(golden) if i.currency == "USD") - note.gross,
    }
    for kind in ("1.4", "1.2"):
        billed: defaultdict[str, F] = defaultdict(F)
        for month in MONTHS:
            name = f"{month}/focus/cost-and-usage-{kind}.csv"
            assert faults(read_csv(golden.documents[name])) == []
            for row in rows(golden, name):
                billed[row["InvoiceId"]] += F(row["BilledCost"])
        assert billed == {number: F(gross) for number, gross in asked.items()}
    details: defaultdict[str, F] = defaultdict(F)
    for row in (row for month in MONTHS for row in rows(golden, f"{month}/focus/invoice-detail-1.4.csv")):
        details[row["InvoiceId"]] += F(row["BilledCost"])
    assert details == {number: F(gross) for number, gross in asked.items()}
    written = {
        data["number"]: F(data["gross"]) * (-1 if name.split("/")[1].startswith("forge-CN") else 1)
        for name, text in golden.documents.items()
        if name.endswith(".json")
        for data in [json.loads(text)]
    }
    assert written == {number: F(gross) for number, gross in asked.items()}
    assert verify(golden.ledger, files=True).faults == []


def test_a_tenants_file_is_its_own_rows_and_finances_file_is_no_tenants(golden: Golden) -> None:
    for month in MONTHS:
        whole = rows(golden, f"{month}/focus/cost-and-usage-1.4.csv")
        for tenant in ("clinic", "forge", "shop"):
            data = focus_file(golden.ledger, "cost-and-usage", "1.4", month, tenant, "csv").decode()
            own = list(csv.DictReader(io.StringIO(data)))
            assert own == [row for row in whole if row["SubAccountId"] == tenant] != []
        split = rows(golden, f"{month}/finance/gpu-split-1.4.csv")
        assert "x_Owner" in split[0].keys() - whole[0].keys()
        assert {row["InvoiceId"] for row in split}.isdisjoint(row["InvoiceId"] for row in whole)


def test_every_engine_hour_is_shared_to_the_last_digit_of_what_it_cost(golden: Golden, oracle: dict[str, Any]) -> None:
    asked = "SELECT engine, formatDateTime(hour, '%Y-%m-%dT%H:%i:%SZ') AS at, owner, price, sum(cost) AS cost FROM engine_cost GROUP BY engine, hour, owner, price"
    parts: defaultdict[str, dict[str, tuple[Decimal, Decimal]]] = defaultdict(dict)
    for engine, at, owner, price, cost in golden.ledger.ask(asked).rows:
        parts[f"{engine} {at}"][owner] = (cost, price)
    assert parts.keys() == oracle["engine_hours"].keys()
    for name, owners in parts.items():
        said = {owner: F(cost) for owner, cost in oracle["engine_hours"][name].items()}
        assert sum(F(cost) for cost, _ in owners.values()) == said.pop("rented"), name
        for owner, (cost, price) in owners.items():
            steps = 20 * F(GPU_HOUR_QUANTUM) * F(price)  # each of an owner's rows is dealt to a whole step
            assert abs(F(cost) - said.get(owner, F(0))) <= steps, (name, owner)
    split: defaultdict[str, F] = defaultdict(F)
    for row in (row for month in MONTHS for row in rows(golden, f"{month}/finance/gpu-split-1.4.csv")):
        split[f"{row['ResourceId']} {row['ChargePeriodStart']}"] += F(row["BilledCost"])
    for name, cost in split.items():
        assert cost == F(oracle["engine_hours"][name]["rented"]), name
    for month in golden.october[0], golden.november[0]:
        try:
            reconciliation(golden.ledger, month.start, month.end).check()
        except NotConserved as error:  # pragma: no cover
            pytest.fail(str(error))


def test_what_was_exported_at_the_close_is_exported_after_all_corrections(golden: Golden) -> None:
    assert golden.focus_at_close == {name: golden.documents[name] for name in golden.focus_at_close}
    note = golden.disputed
    corrections = {
        row["InvoiceId"]
        for row in rows(golden, "2026-11/focus/cost-and-usage-1.4.csv")
        if row["ChargeClass"] == "Correction"
    }
    assert note is not None
    assert corrections == {str(note.number), *(str(invoice.number) for invoice in golden.november)}


def test_every_cent_opens_to_requests_and_no_time_of_a_failed_one_is_charged(golden: Golden) -> None:
    for name, invoice in invoices(golden):
        lines = explain(golden.ledger, invoice)
        for one in lines:
            assert sum(F(share.amount) for share in one.shares) + F(one.rounding) == F(one.line.amount), name
        for failed in ("req-c6", "req-c10", "req-s2", "req-r1"):
            on = {line.kind for line, _ in explain_request(lines, failed)}
            assert on <= {ChargeKind.COLD, ChargeKind.MARGIN}, "loads are shared by requests, whatever became of them"
    (clinic,) = (one for one in golden.october if one.tenant == "clinic")
    opened = {s.attempt.request_id for one in explain(golden.ledger, clinic) for s in one.shares if s.attempt}
    assert {"req-c2", "req-c3", "req-c4", "req-c5", "req-c7", "req-c9"} <= opened
    assert "req-c1" not in opened


def test_pages_are_small_dated_and_bring_their_fonts(golden: Golden) -> None:
    pdfs = {name: data for name, data in golden.documents.items() if name.endswith(".pdf")}
    assert len(pdfs) == 7
    for name, data in pdfs.items():
        reader = PdfReader(io.BytesIO(data))
        dated = json.loads(golden.documents[name.replace(".pdf", ".json")])["issued_on"].replace("-", "")
        assert len(data) < 200_000, name
        assert reader.metadata is not None
        assert reader.metadata.get("/CreationDate") == f"D:{dated}000000Z", name
        assert "factur-x.xml" in reader.attachments, name
        fonts = [font.get_object() for page in reader.pages for font in page["/Resources"]["/Font"].values()]  # type: ignore[index]
        inner = [part.get_object() for font in fonts for part in font["/DescendantFonts"]]
        assert inner
        assert all({"/FontFile2", "/FontFile3"} & part["/FontDescriptor"].keys() for part in inner), name


def test_the_close_report_says_what_was_late_what_changed_and_who_is_gone(golden: Golden) -> None:
    report = close_report(golden.ledger, "2026-11", golden.catalog, NEXT)
    assert (report.status, report.last_month, report.changes, report.findings, report.waiting) == (
        "closed",
        "2026-10",
        (),
        (),
        {},
    )
    assert {bill.number: bill.net for bill in report.bills} == {one.number: one.net for one in golden.november}
    late = [(one.kind, one.invoice, one.number, str(one.amount)) for one in report.late]
    assert late == [
        ("correction", "LL-2026-0001", "LL-2026-0004", "0.88"),
        ("correction", "LL-2026-0002", "LL-2026-0005", "0.35"),
        ("correction", "LL-2026-0003", "LL-2026-0006", "1.68"),
        ("credit_note", "LL-2026-0002", "CN-2026-0001", "3.66"),
    ]
    clinic, forge, _ = golden.catalog.tenants
    dear = {"plan": clinic.plan.model_copy(update={"margin": Decimal("0.3")})}
    price = golden.catalog.prices.gpu_hours[-1].model_copy(update={"per_hour": Decimal("1.15")})
    book = {"gpu_hours": (*golden.catalog.prices.gpu_hours[:-1], price)}
    other = {
        "tenants": (clinic.model_copy(update=dear), forge),
        "prices": golden.catalog.prices.model_copy(update=book),
    }
    next_month = close_report(golden.ledger, "2026-12", golden.catalog.model_copy(update=other), NEXT)
    assert [(one.subject, one.term, one.before, one.after) for one in next_month.changes] == [
        ("tenant clinic", "plan.margin", "0.25", "0.3"),
        ("tenant shop", "", "was there", None),
        ("price of golden-2026 l40s from 2026-01-01T00:00:00Z", "per hour", "1.1", "1.15"),
    ]
    assert (next_month.status, next_month.bills, next_month.late) == ("open", (), ()), "all that was late is settled"
    gone = close_report(golden.ledger, "2026-11", golden.catalog.model_copy(update=other), NEXT).gone
    assert [(one.tenant, one.requests, str(one.cost), one.document) for one in gone] == [
        ("shop", 1, "0.672", "LL-2026-0006")
    ]

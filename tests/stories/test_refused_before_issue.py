"""What would make a document that cannot stand is refused in words, before anything has a number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from billing.store.clickhouse import Ledger
from billing.store.errors import SeriesInvalid
from billing.store.invoice.credits import Agreed, issue_agreed
from catalog.load import CatalogInvalid, load
from loraledger.books import Books
from loraledger.commands.catalog import check
from tests.fakes.plain_books import catalog, plain, run, settings

SERIES = "number_series: LL"
DEAR = ('input: "80", cached_input: "8", output: "300"', 'input: "{}", cached_input: "8", output: "300"')


def files(told: dict[str, list[str]]) -> list[str]:
    return [Path(file).name for file in told["files"]]


def test_a_year_has_one_series_and_a_series_one_kind_of_document(ns: Callable[..., int], tmp_path: Path) -> None:
    declared = catalog(tmp_path / "a.yaml")
    used = [("campus", ns(2026, month, 5)) for month in (8, 9, 10)]
    run(tmp_path, declared, "ingest", str(plain(tmp_path / "in" / "usage.jsonl", *used)))
    assert files(run(tmp_path, declared, "close", "2026-08")) == ["campus-LL-2026-0001.pdf"]

    for other, why in (
        ("AB", "documents of 2026 are numbered up to LL-2026-0001, series AB would be a second one; keep LL"),
        ("LL-2026", "documents of 2026 are numbered up to LL-2026-0001, series LL-2026 would be a second one"),
    ):
        changed = catalog(tmp_path / "b.yaml", (SERIES, f"number_series: {other}"))
        assert f"could not issue anything: {why}" in run(tmp_path, changed, "close", "2026-09", code=3)
        with pytest.raises(CatalogInvalid, match=f"seller.number_series: {why}"):
            check(changed, against_ledger=True, home=tmp_path)
    swapped = catalog(tmp_path / "c.yaml", (SERIES, "number_series: AB\n  credit_series: LL"))
    books = Books(settings(tmp_path, swapped), load(swapped))
    with books.open() as ledger, pytest.raises(SeriesInvalid, match="numbers documents of another kind, LL-2026-0001"):
        issue_agreed(ledger, "LL-2026-0001", Agreed(None, "void"), books.catalog, books.clock())
    assert run(tmp_path, declared, "verify")["documents"] == 1, "nothing was issued"

    assert files(run(tmp_path, declared, "close", "2026-09")) == ["campus-LL-2026-0002.pdf"]
    changed = catalog(tmp_path / "b.yaml", (SERIES, "number_series: AB"))
    assert files(run(tmp_path, changed, "close", "2026-09")) == ["campus-LL-2026-0002.pdf"], "nothing is to number"


def test_a_sum_that_no_export_holds_keeps_its_tenant_alone_from_an_invoice(
    ns: Callable[..., int], tmp_path: Path
) -> None:
    declared = catalog(tmp_path / "a.yaml", (DEAR[0], DEAR[1].format(10**12)))
    at = ns(2026, 10, 5)
    lines = plain(tmp_path / "in" / "1.jsonl", *[("freeride", at)] * 100, tokens=10**9)
    run(tmp_path, declared, "ingest", str(lines), str(plain(tmp_path / "in" / "2.jsonl", ("campus", at), first=100)))
    drafted = run(tmp_path, declared, "invoice", "2026-10", code=3)
    assert (files(drafted), drafted["waiting"]) == (["campus-draft.pdf"], ["freeride"])
    closed = run(tmp_path, declared, "close", "2026-10", code=3)
    assert (files(closed), closed["waiting"]) == (["campus-LL-2026-0001.pdf"], ["freeride"])
    (block,) = closed["blocks"]
    assert block["what"].startswith(
        f"could not draft an invoice for freeride, 2026-10: {120 * 10**15}.00 is on it, and it must stay below {10**12}"
    )

    right = "{" + f"kind: per_token, {DEAR[0]}" + "}"
    dated = f"{right}\n    terms:\n      - {{effective_from: 2026-10-01, plan: {right}}}"
    mended = catalog(tmp_path / "b.yaml", (right, dated))
    books = Books(settings(tmp_path, mended), load(mended))
    assert [str(edit.at) for edit in books.edited()["freeride"]] == ["2026-09-30 22:00:00+00:00"]
    closed = run(tmp_path, mended, "close", "2026-10", code=3)
    assert "which is past: give it a date to come, or say --restate" in closed["blocks"][0]["what"]
    closed = run(tmp_path, mended, "close", "2026-10", "--restate")
    assert not books.edited()
    assert files(closed) == ["campus-LL-2026-0001.pdf", "freeride-LL-2026-0002.pdf"]
    assert json.loads(Path(closed["files"][1]).with_suffix(".json").read_text())["net"] == "8000000.00"


def test_a_month_that_comes_to_nothing_has_a_document_only_when_asked_for(
    ns: Callable[..., int], tmp_path: Path
) -> None:
    declared = catalog(tmp_path / "a.yaml")
    at = ns(2026, 10, 5)
    lines = plain(tmp_path / "in" / "1.jsonl", ("campus", at), tokens=1)
    run(tmp_path, declared, "ingest", str(lines), str(plain(tmp_path / "in" / "2.jsonl", ("freeride", at), first=1)))
    for _ in range(2):
        closed = run(tmp_path, declared, "close", "2026-10")
        assert (files(closed), closed["zero"], closed["waiting"]) == (["freeride-LL-2026-0001.pdf"], ["campus"], [])
    with Ledger.open(settings(tmp_path, declared).dsn) as ledger:
        assert ledger.ask("SELECT status FROM billing_periods").rows == [("closed",)]
        assert ledger.ask("SELECT count() FROM invoices WHERE status = 'draft'").rows == [(0,)]
    closed = run(tmp_path, declared, "close", "2026-10", "--zero-documents")
    assert (files(closed), closed["zero"]) == (["campus-LL-2026-0002.pdf", "freeride-LL-2026-0001.pdf"], [])
    document = json.loads((tmp_path / "invoices" / "2026-10" / "campus-LL-2026-0002.json").read_text())
    assert (document["net"], document["gross"], len(document["lines"])) == ("0.00", "0.00", 3)

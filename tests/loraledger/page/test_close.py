"""The close report as a page: what waits, what changed and who approved stands on it, in words."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

from billing.close.acceptance import accept
from billing.close.blocks import Block, Kind
from billing.close.report import Bill, Change, CloseReport, Gone, Late
from loraledger.page.close import TITLES, render_close

D = Decimal
AT = datetime(2026, 12, 4, tzinfo=UTC)
GAP = Block(
    Kind.RECORDS, ("s", "1", "2"), "2 missing of <s>", ("bank",), cost=D("1.5"), advice="ingest them", records=2
)
REPORT = CloseReport(
    month="2026-11", as_of=AT, status="partly closed", closed_at=AT, last_month="2026-10", last_close=AT.replace(month=11),
    currency="EUR", rented_ns=10**9, missing_ns=0, missing_cost=D(0), unmeasured_attempts=3,
    bills=(
        Bill("acme", "LL-2026-0004", "EUR", D("10"), D("1.9"), D("11.9"), D("0.5"), D("9"), D("8"), "EUR"),
        Bill("bank", None, "USD", D("7"), D(0), D("7"), D(0), None, D("6"), "EUR"),
    ),
    changes=(Change("tenant acme", "plan.margin", "0.25", "0.30"),),
    findings=(GAP,),
    late=(
        Late("correction", "acme", "LL-2026-0001", "2026-10", "LL-2026-0004", "EUR", D("0.5")),
        Late("credit_note", "bank", "LL-2026-0002", "2026-10", "CN-2026-0001", "EUR", D("3")),
        Late("due", "shop", "LL-2026-0003", "2026-10", None, "EUR", None),
    ),
    gone=(Gone("shop", 4, D("0.67"), None),),
    accepted=(accept(GAP, "2026-11", "EUR", "the disk was full", "Grace", AT),),
)  # fmt: skip


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html[html.index("<body>") :]).split())


def test_the_page_says_who_waits_what_changed_and_who_approved() -> None:
    said = text(render_close(REPORT))
    for words in (
        "Close of November 2026 partly closed",
        "10.00 EUR 7.00 USD Net, 1 issued, 1 in draft.",
        "1 tenant blocked bank",
        "1 changed term 3 late facts about earlier invoices, 1 tenant gone",
        "tenant acme, plan.margin 0.25 0.30",
        "2 missing of &lt;s&gt; bank ingest them 1.50 EUR at stake",
        "3 attempts without engine time",
        "LL-2026-0001 acme October 2026 correction on LL-2026-0004 +0.50 EUR",
        "LL-2026-0002 bank October 2026 credit note CN-2026-0001 −3.00 EUR",
        "LL-2026-0003 shop October 2026 nothing yet cannot be worked out",
        "shop 4 0.67 EUR none",
        f"the disk was full Grace {date(2026, 12, 4)} 1.50 EUR",
        REPORT.told()["hash"],
    ):
        assert words in said, words


def test_it_asks_for_nothing_else_and_every_kind_of_finding_has_a_title() -> None:
    html = render_close(REPORT, "light")
    assert not re.search(r"(src|href)=\"(?!#|data:)", html)
    assert 'data-theme="light"' in html
    assert TITLES.keys() == set(Kind)

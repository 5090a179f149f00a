"""The close report as a page: one file to read, print and sign. Pure but for the templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from billing.close.acceptance import Acceptance
from billing.close.blocks import Kind
from billing.close.report import Bill, Change, CloseReport, Gone, Late
from loraledger.page import words
from loraledger.page.render import HtmlTable, table, templates

TITLES: Final = {
    Kind.QUARANTINE: "In quarantine",
    Kind.RECORDS: "Gaps in the streams",
    Kind.COUNTERS: "Counters that do not fit",
    Kind.AGREEMENT: "Records against the meter",
    Kind.UNMEASURED: "Not measured, or only reported by the source",
    Kind.OPEN: "Attempts still open",
    Kind.PRICE: "Without a price",
    Kind.TIME: "Time without an owner",
    Kind.DRAFT: "Months that cannot be drafted",
    Kind.DOCUMENT: "Documents that cannot be made",
}


def render_close(report: CloseReport, theme: Literal["light", "dark"] | None = None) -> str:
    """The whole page; `theme` None follows the reader's setting."""
    environment, css = templates()
    kinds = list(dict.fromkeys(block.kind for block in report.findings))
    return environment.get_template("close.html.j2").render(
        report=report,
        told=report.told(),
        theme=theme,
        css=css,
        found=[(TITLES[kind], [block for block in report.findings if block.kind is kind]) for kind in kinds],
        tables={
            "bills": _bills(report),
            "changes": _changes(report),
            "late": _late(report),
            "gone": _gone(report),
            "accepted": _accepted(report),
        },
    )


def _bills(report: CloseReport) -> HtmlTable:
    columns: dict[str, Callable[[Bill], str]] = {
        "tenant": lambda row: row.tenant,
        "document": lambda row: row.number or "draft",
        "GPU cost": lambda row: f"{words.money(row.cost)} {row.price_currency}",
        "month before": lambda row: words.money(row.before),
        "net": lambda row: words.money(row.net),
        "of it corrections": lambda row: words.money(row.corrections) if row.corrections else "",
        "tax": lambda row: words.money(row.tax),
        "gross": lambda row: f"{words.money(row.gross)} {row.currency}",
    }
    return table(report.bills, columns)


def _changes(report: CloseReport) -> HtmlTable:
    columns: dict[str, Callable[[Change], str]] = {
        "what": lambda row: f"{row.subject}{', ' if row.term else ''}{row.term}",
        "at the last close": lambda row: row.before or words.DASH,
        "now": lambda row: row.after or words.DASH,
    }
    return table(report.changes, columns)


def _late(report: CloseReport) -> HtmlTable:
    columns: dict[str, Callable[[Late], str]] = {
        "invoice": lambda row: row.invoice,
        "tenant": lambda row: row.tenant,
        "month": lambda row: words.month(row.month),
        "settled by": lambda row: _settled(row),
        "net": lambda row: "cannot be worked out" if row.amount is None else f"{_sign(row)} {row.currency}",
    }
    return table(report.late, columns)


def _settled(row: Late) -> str:
    match row.kind:
        case "correction":
            return f"correction on {row.number or 'the draft'}"
        case "credit_note":
            return f"credit note {row.number}"
        case "due":
            return "nothing yet"


def _sign(row: Late) -> str:
    assert row.amount is not None
    return words.signed(-row.amount if row.kind == "credit_note" else row.amount)


def _gone(report: CloseReport) -> HtmlTable:
    columns: dict[str, Callable[[Gone], str]] = {
        "tenant": lambda row: row.tenant,
        "requests": lambda row: f"{row.requests:,}",
        "GPU cost": lambda row: f"{words.money(row.cost)} {report.currency}",
        "document": lambda row: row.document or "none",
    }
    return table(report.gone, columns)


def _accepted(report: CloseReport) -> HtmlTable:
    columns: dict[str, Callable[[Acceptance], str]] = {
        "number": lambda row: row.number,
        "what": lambda row: row.what,
        "reason": lambda row: row.reason,
        "approved by": lambda row: row.accepted_by,
        "on": lambda row: row.issued_on.isoformat(),
        "carried": lambda row: f"{words.money(row.cost)} {row.currency}",
    }
    return table(report.accepted, columns)

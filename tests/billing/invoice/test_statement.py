"""A statement of account: what was invoiced and credited, in the order of issue, and what is open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal

from billing.close.postings import FIRST, RECEIVABLE, document_postings
from billing.invoice.credit import CreditNote, draft_credit_note, issue_credit_note, spread, whole
from billing.invoice.invoice import Invoice, issue_invoice
from billing.invoice.prices import Exchange
from billing.invoice.statement import TenantAccount, accounts
from catalog.model import Tenant

D = Decimal


def note(invoice: Invoice, sequence: int, day: date, net: Decimal | None, earlier: list[CreditNote]) -> CreditNote:
    lines = whole(invoice, earlier) if net is None else spread(invoice, net)
    draft = draft_credit_note(invoice, lines, "dispute", earlier=earlier, cutoff=invoice.cutoff)
    return issue_credit_note(draft, "CN", sequence, day)


def row(account: TenantAccount, position: int) -> tuple[str, Decimal, Decimal, Decimal | None]:
    one = account.entries[position]
    return one.number, one.amount, one.balance, one.open


def test_the_balance_runs_over_invoices_and_credit_notes_and_is_what_the_postings_say(
    cost_plus: Invoice, draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    second = issue_invoice(draft(clinic), "LL", 8, date(2026, 11, 20))
    part = note(cost_plus, 1, date(2026, 12, 1), D("20"), [])
    rest = note(second, 2, date(2026, 12, 20), None, [])
    documents: list[Invoice | CreditNote] = [cost_plus, second, part, rest]
    (account,) = accounts("clinic", documents, date(2026, 12, 31))
    assert [row(account, at) for at in range(4)] == [
        ("LL-2026-0007", D("213.56"), D("213.56"), D("189.76")),
        ("LL-2026-0008", D("213.56"), D("427.12"), D("0.00")),
        ("CN-2026-0001", D("-23.80"), D("403.32"), None),
        ("CN-2026-0002", D("-213.56"), D("189.76"), None),
    ]
    sums = (account.invoiced, account.credited, account.open, account.overdue)
    assert sums == (D("427.12"), D("237.36"), D("189.76"), D("189.76"))
    posted = [p.amount for one in documents for p in document_postings(one, FIRST) if p.account == RECEIVABLE]
    assert sum(posted) == account.open


def test_a_statement_knows_nothing_of_later_days_and_what_is_not_due_is_not_overdue(cost_plus: Invoice) -> None:
    later = note(cost_plus, 1, date(2026, 12, 1), None, [])
    (account,) = accounts("clinic", [cost_plus, later], date(2026, 11, 30))
    assert (len(account.entries), account.open, account.overdue) == (1, D("213.56"), D("0"))
    assert accounts("clinic", [cost_plus], date(2026, 11, 3)) == ()


def test_each_currency_has_an_account_of_its_own(
    cost_plus: Invoice, draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    rate = Exchange("EUR", "USD", D("1.0842"), date(2026, 10, 30), "ECB")
    dollars = replace(draft(clinic), exchange=rate, currency="USD", tax_in_price_currency=D("31.45"))
    found = accounts("clinic", [cost_plus, issue_invoice(dollars, "LL", 8, date(2026, 11, 20))], date(2026, 12, 1))
    assert [(one.currency, one.open) for one in found] == [("EUR", D("213.56")), ("USD", D("213.56"))]

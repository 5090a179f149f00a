"""What a reader sees: numbers grouped for people, nothing that a customer must not see."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import date
from decimal import Decimal

import pytest

from billing.documents.view import invoice_view
from billing.invoice.invoice import Invoice, Reconciliation
from billing.invoice.prices import Exchange
from catalog.model import Tenant

D = Decimal


def test_numbers_are_grouped_and_minus_is_a_minus(cost_plus: Invoice) -> None:
    view = invoice_view(replace(cost_plus, due=D("1234567.80"), net=D("-1234.50")))
    assert view["due"]["amount"] == "EUR 1,234,567.80"
    assert view["totals"][0] == ["Net amount", "−1,234.50"]


def test_amounts_have_the_currencys_own_decimals(cost_plus: Invoice) -> None:
    assert invoice_view(replace(cost_plus, currency="JPY", due=D("1235")))["due"]["amount"] == "JPY 1,235"
    assert invoice_view(replace(cost_plus, currency="KWD", due=D("1.5")))["due"]["amount"] == "KWD 1.500"


def test_prices_and_costs_stay_in_their_currency_where_the_invoice_is_in_another(cost_plus: Invoice) -> None:
    rate = Exchange("EUR", "USD", D("1.0842"), date(2026, 10, 30), "ECB")
    lines = tuple(replace(line, exchange_rate=rate.rate) for line in cost_plus.lines)
    foreign = replace(cost_plus, currency="USD", exchange=rate, lines=lines, tax_in_price_currency=D("31.45"))
    view = invoice_view(foreign)
    assert view["lines"][0]["price"] == "EUR 360.00"
    assert (view["lines"][4]["quantity"], view["lines"][4]["unit"], view["lines"][4]["price"]) == (
        "143.56",
        "EUR",
        "25 %",
    )
    assert ["Exchange rate", "EUR 1 = USD 1.0842"] in view["facts"]
    assert view["terms"][0] == "Converted at EUR 1 = USD 1.0842, ECB, 30 October 2026."
    assert ["Tax in EUR, for information", "31.45"] in view["totals"]
    assert (view["currency"], view["cost_currency"], view["due"]["amount"]) == ("USD", "EUR", "USD 213.56")
    assert [card["value"][:3] for card in view["highlights"][:2]] == ["USD", "EUR"]


def test_lines_of_several_gpu_prices_stand_in_named_groups(cost_plus: Invoice) -> None:
    assert {row["group"] for row in invoice_view(cost_plus)["lines"]} == {""}
    *terms, margin = cost_plus.lines
    dearer = [replace(line, unit_price=D("420.5"), gpu_type="h300") for line in terms]
    rows = invoice_view(replace(cost_plus, lines=(*terms, *dearer, margin)))["lines"]
    assert [(row["group"], row["note"]) for row in rows if row["group"] or row["note"]] == [
        ("h200 at EUR 360.00 per GPU-hour", None), ("h300 at EUR 420.50 per GPU-hour", None),
    ]  # fmt: skip
    assert (rows[0]["group"], rows[len(terms)]["group"], rows[-1]["group"]) == (
        rows[0]["group"],
        "h300 at EUR 420.50 per GPU-hour",
        "",
    )


def test_why_no_tax_is_charged_stands_on_the_first_page(draft: Callable[..., Invoice], clinic: Tenant) -> None:
    reverse = clinic.model_copy(update={"tax_treatment": "reverse_charge", "tax_rate": D(0)})
    assert "Reverse charge: the customer owes the tax." in invoice_view(draft(reverse))["terms"]
    noted = clinic.model_copy(update={"tax_treatment": "exempt", "tax_rate": D(0), "tax_note": "Exempt, section 4."})
    assert "Exempt, section 4." in invoice_view(draft(noted))["terms"]
    abroad = draft(clinic.model_copy(update={"tax_treatment": "export", "tax_rate": D(0)}))
    assert invoice_view(abroad)["totals"] == [["Net amount", "179.46"], ["Tax (not subject to VAT) on 179.46", "0.00"]]


def test_the_cost_statement_shows_the_credit_with_its_sign(cost_plus: Invoice) -> None:
    statement = invoice_view(cost_plus)["statement"]
    assert statement["t_kv"][1:] == ["−304,000,000,168", "−0.084444", "−30.40"]
    assert statement["measured"][1] == "1,447,641,974,430"


def test_the_share_of_lora_stands_on_the_summary_of_both_plans(cost_plus: Invoice, per_token: Invoice) -> None:
    for invoice, share in ((cost_plus, "12.35 %"), (per_token, "20.81 %")):
        cards = {card["label"]: card["value"] for card in invoice_view(invoice)["highlights"]}
        assert cards["LoRA routing overhead"] == share


def test_unknown_is_said_not_shown_as_zero(cost_plus: Invoice) -> None:
    cards = invoice_view(replace(cost_plus, unit_cost=None, unit_price=None, lora_share=None))["highlights"]
    assert [card["value"] for card in cards[:3]] == ["none delivered", "none delivered", "not known"]


def test_the_month_before_is_compared(draft: Callable[..., Invoice], clinic: Tenant, cost_plus: Invoice) -> None:
    before = replace(cost_plus, month="2026-09", net=D("200.00"))
    card = invoice_view(draft(clinic, previous=before))["highlights"][-1]
    assert (card["label"], card["value"]) == ("September 2026", "EUR 200.00")
    assert card["note"].startswith("−10.3 % since then; EUR 43.99 per 1M tokens")


def test_only_an_issued_invoice_asks_for_payment(cost_plus: Invoice, per_token: Invoice) -> None:
    assert (
        invoice_view(cost_plus)["due"]["how"]
        == "Please transfer to DE02 1203 0000 0000 2020 51, reference LL-2026-0007"
    )
    assert "not a request for payment" in invoice_view(per_token)["due"]["how"]
    assert invoice_view(replace(cost_plus, due=D(0)))["due"]["how"] == "Nothing to pay."


@pytest.mark.parametrize(
    ("policy", "says"), [("usage", "shared by measured time"), ("residency", "shared by adapter memory")]
)
def test_the_reconciliation_says_who_carries_idle(
    cost_plus: Invoice, per_token: Invoice, policy: str, says: str
) -> None:
    def idle_row(invoice: Invoice) -> str:
        changed = replace(invoice, idle_policy=policy)  # type: ignore[arg-type]
        names = [str(row[0]) for row in invoice_view(changed)["reconciliation"]["rows"]]
        return next(name for name in names if name.startswith("Idle"))

    assert idle_row(cost_plus) == f"Idle ({says})"
    assert idle_row(per_token) == "Idle (not charged)"


def test_other_customers_are_shown_in_one_sum_unless_the_provider_shows_them(cost_plus: Invoice) -> None:
    """Of two customers each would else read what the other used, loads included."""
    whole = cost_plus.reconciliation
    assert isinstance(whole, Reconciliation)
    summed = whole.summed()
    assert summed.together == whole.other_tenants + whole.cold + whole.system + whole.idle
    assert sum(getattr(summed, part.name) for part in fields(summed)) == 2 * whole.rented == 2 * summed.rented
    shown = invoice_view(replace(cost_plus, reconciliation=summed))["reconciliation"]
    assert [row[0] for row in shown["rows"]] == [
        "Your requests (T_B + T_A - T_kv)",
        "Other customers, adapter loading, engine overhead and idle, together (idle: not charged)",
        "Work repeated after preemption (not charged)",
        "Not attributed (not charged)",
        "Rented but not serving (not charged)",
    ]
    assert shown["note"].endswith("ns of the second row.")
    text = json.dumps(shown).replace(",", "")
    hidden = (whole.other_tenants, whole.cold, whole.system, whole.idle)
    assert not any(str(number) in text for number in hidden if number > 10**6)


def test_the_view_names_no_other_tenant(cost_plus: Invoice) -> None:
    text = json.dumps(invoice_view(cost_plus))
    assert not any(name in text for name in ("shop", "Papaya", "brand-voice"))


def test_who_pays_for_which_outcome_is_said_in_the_words_of_the_plan(cost_plus: Invoice, per_token: Invoice) -> None:
    rows = {row[0]: row[-1] for row in invoice_view(cost_plus)["statuses"]}
    assert rows == {
        "Completed": "yes",
        "Cancelled by the client": "yes",
        "Failed on our side": "no",
        "Adapter loading (shared)": "yes",
    }
    rows = {row[0]: row[-1] for row in invoice_view(per_token)["statuses"]}
    assert rows == {"Completed": "per token", "Adapter loading (shared)": "no"}

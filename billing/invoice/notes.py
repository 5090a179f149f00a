"""What an invoice says in words: how it was reckoned, what is not charged, and why no tax is. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from billing.invoice.lines import Line
from billing.invoice.prices import Exchange
from billing.invoice.rating import RatedTenant
from catalog.model import Tenant


def notes(rated: RatedTenant, tenant: Tenant, rate: Exchange | None, corrections: Sequence[Line]) -> tuple[str, ...]:
    """The notes under an invoice, in their order."""
    idle = {
        "provider": "Idle GPU time is carried by the provider and is not charged.",
        "usage": "Idle GPU time of the UTC month is shared among customers by measured time.",
        "residency": "Idle GPU time of the UTC month is shared among customers by the adapter memory they hold.",
    }[rated.idle_policy]
    unpaid = [status.status for status in rated.statuses if status.payer == "provider"]
    said = [
        "Each line is quantity × unit price, rounded once, half up; tax is computed per rate on the sum of the rounded lines.",
        "T_kv is an estimate: the GPU time that would have been spent with prefix caching off. It is added to T_B and T_A and taken off again, so it never changes the sum.",
        idle if rated.plan == "cost_plus" else "Token prices include GPU time; the cost statement is for information.",
        "Not charged by the price book: " + ", ".join(unpaid).replace("_", " ") + "." if unpaid else "",
        f"Prices and costs are in {rate.base}. Amounts are converted line by line at {rate.base} 1 = {rate.quote} {rate.rate:f} "
        f"({rate.source}, {rate.day.isoformat()}), the last rate of the billing month."
        if rate
        else "",
        "Corrections are usage of earlier months that became known after their invoices were issued, at the prices and rates of those months."
        if corrections
        else "",
        tax_legend(tenant),
        "What becomes known after the usage cut-off appears as a correction on a later document; an issued invoice never changes.",
    ]
    return tuple(note for note in said if note)


def tax_legend(tenant: Tenant) -> str:
    """Why no tax is charged, in the words that the law asks for; empty where tax is."""
    if tenant.tax_note:
        return tenant.tax_note
    legends = {
        "standard": "" if tenant.tax_rate else "No tax is charged on this invoice.",
        "reverse_charge": "Reverse charge: the customer owes the tax.",
        "export": "Not taxable here: the customer is established outside the European Union.",
        "exempt": "Exempt from tax.",
    }
    return legends[tenant.tax_treatment]

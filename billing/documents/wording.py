"""The fixed words of printed documents: what plans, outcomes, terms, owners of GPU time and reasons are called for a customer."""

from __future__ import annotations

from typing import Final, NamedTuple

from catalog.owners import TimeOwner
from catalog.tenants import TaxTreatment

PLANS: Final = {"cost_plus": "GPU cost plus margin", "per_token": "Price per token"}
STATUSES: Final = {
    "ok": "Completed",
    "client_abort": "Cancelled by the client",
    "bad_request": "Refused: bad request",
    "rejected": "Refused: quota or capacity",
    "server_error": "Failed on our side",
    "timeout": "Timed out",
    "lost": "Record lost",
    "cold": "Adapter loading (shared)",
}
RANK: Final = {status: rank for rank, status in enumerate(STATUSES)}
TERMS: Final = {
    "t_b": "Base model time, as if no prefix had been cached",
    "t_a": "LoRA routing overhead, as if no prefix had been cached",
    "t_kv": "Saved by cached prefixes (estimated)",
    "t_cold": "Share of adapter loading",
}
GLOSSARY: Final = {
    "T_B": "Base model time: how long the GPUs worked on your requests with the shared base model.",
    "T_A": "LoRA routing overhead: the extra time because your requests use adapters, and for moving an adapter into place.",
    "T_kv": "Prefix cache credit: prompt beginnings seen before are not computed again. T_B and T_A count them as if they "
    "were, this credit takes that off again. It is an estimate; the sum is measured.",
    "T_cold": "Adapter loading: reading adapters into the engine, shared among their users by requests in the month.",
}
OWNERS: Final[dict[str, str]] = {
    "this_tenant": "Your requests (T_B + T_A - T_kv)",
    "other_tenants": "Other customers' requests",
    TimeOwner.COLD: "Adapter loading, all customers",
    TimeOwner.RECOMPUTE: "Work repeated after preemption (not charged)",
    TimeOwner.SYSTEM: "Engine overhead and stalls (not charged)",
    TimeOwner.IDLE: "Idle",
    TimeOwner.UNATTRIBUTED: "Not attributed (not charged)",
    TimeOwner.DOWN: "Rented but not serving (not charged)",
}
SUMMED: Final[dict[str, str]] = {
    "this_tenant": OWNERS["this_tenant"],
    "together": "Other customers, adapter loading, engine overhead and idle, together",
    **{name.value: OWNERS[name] for name in (TimeOwner.RECOMPUTE, TimeOwner.UNATTRIBUTED, TimeOwner.DOWN)},
}
"""What an invoice says of the rented time where the provider does not show what other customers used."""
REASONS: Final = {
    "usage_corrected": "Usage was corrected after the invoice was issued",
    "price_corrected": "A price on the invoice was wrong",
    "duplicate": "The same usage was charged twice",
    "dispute": "You disputed the invoice, and we agree",
    "goodwill": "A gesture of goodwill",
    "void": "The invoice is withdrawn in full",
}


class Untaxed(NamedTuple):
    """Why no tax is charged, as EN 16931 says it: category (BT-151, BT-118; UNTDID 5305), reason code (BT-121) and text (BT-120)."""

    category: str
    code: str | None
    reason: str

    @property
    def outside(self) -> bool:
        """Whether the service is outside the scope of the tax: then there is no rate (BR-O-05), and no VAT id of anybody (BR-O-02)."""
        return self.category == "O"


NOT_SUBJECT: Final = "not subject to VAT"
UNTAXED: Final[dict[TaxTreatment, Untaxed]] = {
    # A service to a business in another member state is taxed where that is, and it owes the tax (Directive 2006/112/EC, articles 44 and 196).
    # BR-AE-02: with the VAT id of both; BR-AE-05, -09: rate and tax are 0; BR-AE-10: "Reverse charge" is the reason. K is for goods only.
    "reverse_charge": Untaxed("AE", "VATEX-EU-AE", "Reverse charge"),
    # A service to a business outside the Union is outside the scope of its tax (article 44). G is for goods that leave the Union.
    # BR-O-02, -05: no VAT id, no rate; BR-O-09: tax is 0; BR-O-10: the reason; BR-O-11, -12: nothing else on the same invoice.
    "export": Untaxed("O", "VATEX-EU-O", "Not subject to VAT"),
    # BR-E-02: with a tax id of the seller; BR-E-05, -09: rate and tax are 0; BR-E-10: the reason, here in the words of the law that exempts.
    "exempt": Untaxed("E", None, "Exempt from tax"),
}
"""What a service without tax is called. Taxed ones are S, and Z where the rate is 0 (BR-S-05, BR-Z-05), without a reason (BR-S-10, BR-Z-10)."""

"""The fixed words of printed documents: what plans, outcomes, terms, owners of GPU time and reasons are called for a customer."""

from __future__ import annotations

from typing import Final

from catalog.owners import TimeOwner

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
REASONS: Final = {
    "usage_corrected": "Usage was corrected after the invoice was issued",
    "price_corrected": "A price on the invoice was wrong",
    "duplicate": "The same usage was charged twice",
    "dispute": "You disputed the invoice, and we agree",
    "goodwill": "A gesture of goodwill",
    "void": "The invoice is withdrawn in full",
}

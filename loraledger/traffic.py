"""The demo's traffic: what each tenant asks, decided beforehand from a seed, so that every cost term appears.

Prompts share a prefix inside each tenant; the clinic and the bank also start with the very same text, which must not be
shared between them. All eight adapters are used on two device slots.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

HOUSE_RULES: Final = (
    "You answer for a regulated business. Quote the rule you rely on. Never guess a figure. If a document is missing, say which one. "
    "Keep names and account numbers out of the answer. Use short sentences and plain words. State dates as year, month, day. "
    "When two rules conflict, name both and stop. Answer in the language of the question. "
)
SYSTEM: Final = {
    "clinic": HOUSE_RULES,
    "bank": HOUSE_RULES,
    "shop": "You speak for Papaya Shop: warm, brief, never pushy. Offer one product, one reason, one link. Returns are free for thirty days. Parcels leave by four. "
    "If a parcel is late, say sorry once, then give the next step and the day it will be solved. Do not promise a discount that is not listed below. ",
    "forge": "Complete the code in the style of the file. Keep names. Prefer the standard library. Add no comments that repeat the code. Handle the empty case first. "
    "def parse(line: str) -> dict[str, str]: parts = line.split(';'); return dict(part.split('=', 1) for part in parts if '=' in part) ",
    "campus": "You are a patient tutor. Ask one question back before you explain. Use an example from daily life. Do not solve the homework itself. ",
    "freeride": "Write a long and lively text for the sports magazine. Vary the rhythm. Use many adjectives, many scenes, many voices. Do not stop early. ",
}
TOPICS: Final = {
    "clinic": (
        "Code this visit: sore throat, J02.9, seen before.",
        "Patient with type 2 diabetes E11.9, what to record?",
        "Explain the discharge letter in kind words.",
    ),
    "bank": (
        "Summarise the liquidity note for the board.",
        "Which limit does this exposure break?",
        "Rewrite the risk paragraph for the regulator.",
    ),
    "shop": ("Where is my parcel?", "The cup arrived broken, what now?", "Write a product line for a blue lamp."),
    "forge": ("complete: def total(rows):", "complete: class Cache:", "review: for i in range(len(xs)): print(xs[i])"),
    "campus": ("Why does the moon change its shape?", "How do I start an essay on rivers?", "What is a prime number?"),
    "freeride": (
        "The descent at dawn, in powder.",
        "Six days on the glacier with friends.",
        "The final of the slopestyle cup.",
    ),
}
MODELS: Final = {
    "clinic": ("auto", "icd10-coder", "clinic-tone"),
    "bank": ("auto", "ledger-lingo", "risk-notes"),
    "shop": ("auto", "brand-voice", "support-macros"),
    "forge": ("auto", "code-complete", "code-review"),
    "campus": ("tiny-llama",),
    "freeride": ("brand-voice", "tiny-llama"),
}
OUTPUT: Final = {"clinic": 24, "bank": 28, "shop": 20, "forge": 32, "campus": 16, "freeride": 96}
WEIGHT: Final = {"clinic": 5, "bank": 5, "shop": 5, "forge": 4, "campus": 3, "freeride": 4}


@dataclass(frozen=True, slots=True)
class TrafficCall:
    """One request of the demo. `hang_up_after` closes the connection after that many stream chunks."""

    tenant: str
    key: str
    path: str
    body: dict[str, object]
    hang_up_after: int | None = None

    @property
    def stream(self) -> bool:
        """Whether the reply is asked for as a stream."""
        return bool(self.body.get("stream"))


def calls(seed: int, count: int) -> list[TrafficCall]:
    """`count` ordinary requests in a fixed order for a seed, and between them one hang-up, one bad request, one unknown key."""
    rng = random.Random(seed)
    tenants = list(SYSTEM)
    plan = [_ordinary(rng, rng.choices(tenants, [WEIGHT[t] for t in tenants])[0], number) for number in range(count)]
    long = _ordinary(rng, "freeride", count)
    plan.insert(
        count // 3,
        TrafficCall(
            long.tenant, long.key, long.path, {**long.body, "stream": True, "max_tokens": 400}, hang_up_after=5
        ),
    )
    plan.insert(
        count // 2,
        TrafficCall(
            "campus", "demo-key-campus", "/v1/chat/completions", {"model": "tiny-llama", "messages": "not a list"}
        ),
    )
    plan.insert(count // 2 + 1, TrafficCall("nobody", "stolen-key", "/v1/chat/completions", dict(long.body)))
    return plan


def _ordinary(rng: random.Random, tenant: str, number: int) -> TrafficCall:
    question = f"{rng.choice(TOPICS[tenant])} Case {number}."
    body: dict[str, object] = {
        "model": rng.choice(MODELS[tenant]),
        "max_tokens": OUTPUT[tenant],
        "temperature": 0.8,
        "seed": number,
        "ignore_eos": True,
    }
    if rng.random() < 0.5:
        body["stream"] = True
    if rng.random() < 0.15:
        return TrafficCall(
            tenant, f"demo-key-{tenant}", "/v1/completions", {**body, "prompt": SYSTEM[tenant] + question}
        )
    body["messages"] = [{"role": "system", "content": SYSTEM[tenant]}, {"role": "user", "content": question}]
    return TrafficCall(tenant, f"demo-key-{tenant}", "/v1/chat/completions", body)

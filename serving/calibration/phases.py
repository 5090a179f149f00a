"""Random load to learn a step profile from: phases of like load, between them everything that a step's cost depends on varies.

Concurrency, prompt and answer lengths are drawn log-uniformly, and in two of five phases some prompts begin alike, so that the
prefix cache is hit. Who shares a batch is not left to chance: the phases take turns through `MIXES`, so that the corners are
covered that random draws hardly meet (one LoRA row among base rows, one base row among those of an adapter).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

VOCABULARY: Final = range(6, 2000)
"""Token ids that every model here has and none treats specially."""
SHARING: Final = 0.4
MOST_AT_ONCE: Final = 16
LONGEST_PROMPT: Final = 700
LONGEST_OUTPUT: Final = 32
MIXES: Final = ("base", "one", "lone LoRA", "lone base", "one and base", "two", "drawn")
"""Who is in the batches of a phase; an odd number, so that those who learn from every other phase still meet them all."""


@dataclass(frozen=True, slots=True)
class CalibrationCall:
    """One request: `tokens` in, exactly `output` tokens out; it arrives once the engine was busy for `arrival_ns` in its run.

    `adapter` is a name that the engine knows; `tenant` keeps prefix caches apart.
    """

    key: str
    tenant: str
    tokens: tuple[int, ...]
    output: int
    adapter: str | None = None
    arrival_ns: int = 0


@dataclass(frozen=True, slots=True)
class Phase:
    """Calls to run with at most `at_once` in the engine."""

    at_once: int
    calls: tuple[CalibrationCall, ...]


def draw_tokens(random: Random, count: int) -> tuple[int, ...]:
    """So many token ids."""
    return tuple(random.choices(VOCABULARY, k=count))


def phases(
    random: Random, count: int, adapters: Sequence[str], slots: int, max_tokens: int, most_at_once: int = MOST_AT_ONCE
) -> Iterator[Phase]:
    """`count` phases over these adapters, at most `slots` of them in one phase; no call is longer than `max_tokens`."""
    for number in range(count):
        mix = MIXES[number % len(MIXES)]
        at_once = _between(random, min(2 if mix.startswith("lone") else 1, most_at_once), most_at_once)
        chosen = list(random.sample(adapters, min(slots, len(adapters), _ADAPTERS.get(mix, random.randint(0, slots)))))
        shared = draw_tokens(random, _between(random, 32, 256)) if random.random() < SHARING else ()
        base = mix in ("one and base", "lone LoRA") or random.random() < 0.5
        calls = []
        for n in range(2 * at_once):
            output = _between(random, 4, LONGEST_OUTPUT)
            head = shared if random.random() < 0.5 else ()
            body = _between(random, 16, LONGEST_PROMPT)
            tokens = (head + draw_tokens(random, body))[: max_tokens - output]
            calls.append(
                CalibrationCall(f"call-{n}", "phase", tokens, output, _adapter(random, mix, chosen, base, n % at_once))
            )
        yield Phase(at_once, tuple(calls))


_ADAPTERS: Final = {"base": 0, "one": 1, "lone LoRA": 1, "lone base": 1, "one and base": 1, "two": 2}
"""How many adapters a mix has; the others draw it."""


def _adapter(random: Random, mix: str, chosen: Sequence[str], base: bool, place: int) -> str | None:
    """Whose call it is that stands at `place` among those at once; with `base` some of a drawn mix have no adapter."""
    if not chosen:
        return None
    if mix == "lone LoRA":
        return None if place else chosen[0]
    if mix == "lone base":
        return chosen[0] if place else None
    if mix in ("one", "two"):
        return random.choice(chosen)
    return random.choice([*chosen, None] if base else chosen)


def _between(random: Random, low: int, high: int) -> int:
    """Log-uniform."""
    return min(int(low * (high / low) ** random.random() + 0.5), high)

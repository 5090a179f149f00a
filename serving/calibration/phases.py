"""Random load to learn a step profile from: phases of like load, between them everything that a step's cost depends on varies.

Concurrency, prompt and answer lengths are drawn log-uniformly, adapters from none to as many as there are slots, and in two of
five phases some prompts begin alike, so that the prefix cache is hit.
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
    for _ in range(count):
        at_once = _between(random, 1, most_at_once)
        chosen: list[str | None] = list(random.sample(adapters, random.randint(0, min(slots, len(adapters)))))
        if not chosen or random.random() < 0.5:
            chosen.append(None)
        shared = draw_tokens(random, _between(random, 32, 256)) if random.random() < SHARING else ()
        calls = []
        for n in range(2 * at_once):
            output = _between(random, 4, LONGEST_OUTPUT)
            head = shared if random.random() < 0.5 else ()
            body = _between(random, 16, LONGEST_PROMPT)
            tokens = (head + draw_tokens(random, body))[: max_tokens - output]
            calls.append(CalibrationCall(f"call-{n}", "phase", tokens, output, random.choice(chosen)))
        yield Phase(at_once, tuple(calls))


def _between(random: Random, low: int, high: int) -> int:
    """Log-uniform."""
    return min(int(low * (high / low) ** random.random() + 0.5), high)

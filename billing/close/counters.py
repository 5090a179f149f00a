"""Holds three accounts of the same work against each other: the engine's own counters, the meter's, and the usage records.

Every gap between two of them is taken apart into named causes; what no cause covers is `unexplained` and must be 0. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.engine_time import EngineCounters

ABORT: Final = "abort"
"""Computed for a request that was given up: the engine's front end had stopped to listen (also after a stop string)."""
LATE: Final = "late"
"""Still in the engine when the counters were read."""
SEVERAL: Final = "n > 1"
"""Further choices of one prompt: the engine counts the prompt for each, what is cached of it included; the usage record once."""
UNCLAIMED: Final = "unclaimed"
"""Nobody asked the meter for it: it came past the gateway, or its record was closed without figures."""
RESTART: Final = "restart"
"""There is no last reading, since the process died (or still runs): its counters and the records stand at different moments."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the usage records of one engine process add up to; only attempts that carry the meter's figures."""

    attempts: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """`larger` counted `difference` more of `what` than `smaller`, in one engine process; `causes` say why, largest claim first.

    The process lived in [start_ns, end_ns), as far as it was heard of.
    """

    emitter: str
    engine: str
    start_ns: int
    end_ns: int
    what: str
    larger: str
    smaller: str
    counts: tuple[int, int]
    causes: Mapping[str, int]

    @property
    def difference(self) -> int:
        """Larger minus smaller; may be negative, which nothing explains."""
        return self.counts[0] - self.counts[1]

    @property
    def unexplained(self) -> int:
        """What no cause covers; 0 or somebody is woken."""
        return self.difference - sum(self.causes.values())


def explain(counters: EngineCounters, usage: Counted) -> list[Gap]:
    """The gaps of one engine process, by quantity: engine against meter, then meter against usage records."""
    meter = counters.meter
    who = (counters.emitter, counters.engine, counters.start_ns, counters.at_ns)
    rest = None if counters.final else RESTART
    gaps = []
    quantities = [
        ("prompt_tokens", counters.prompt_tokens, usage.prompt_tokens),
        ("output_tokens", counters.output_tokens, usage.output_tokens),
    ]
    if counters.cached_tokens is not None:
        quantities.append(("cached_tokens", counters.cached_tokens, usage.cached_tokens))
    for what, engine, recorded in quantities:
        late, aborted = meter[f"in_flight_{what}"], meter[f"aborted_{what}"]
        whole = meter[what] + late
        name = what.replace("_", " ")
        causes = _causes(whole - engine, [(LATE, 0, late), (ABORT, 0, aborted)], rest)
        gaps.append(Gap(*who, name, "meter", "engine", (whole, engine), causes))
        again = meter.get(f"again_{what}", 0)
        unclaimed = meter[what] - again - meter[f"claimed_{what}"]
        named = [(SEVERAL, again, again), (UNCLAIMED, unclaimed, unclaimed), (LATE, late, late)]
        causes = _causes(whole - recorded, named, rest)
        gaps.append(Gap(*who, name, "meter", "usage", (whole, recorded), causes))
    preemptions = meter["preemptions"]
    aborted = preemptions if meter["aborted_requests"] or meter["in_flight_requests"] else 0
    causes = _causes(preemptions - counters.preemptions, [(ABORT, 0, aborted)], rest)
    gaps.append(Gap(*who, "preemptions", "meter", "engine", (preemptions, counters.preemptions), causes))
    return gaps


def _causes(difference: int, named: Sequence[tuple[str, int, int]], rest: str | None) -> dict[str, int]:
    """What each cause takes of the difference, at least and at most so much; `rest`, if there is such a cause, takes all that is left."""
    causes: dict[str, int] = {}
    for name, least, most in named:
        taken = min(max(difference, least), most)
        difference -= taken
        if taken:
            causes[name] = taken
    if rest is not None and difference:
        causes[rest] = difference
    return causes

"""Missing numbers in the ledger's streams, and gaps between the engine's own counters, the meter's and the usage records.

Accepted ones are no gaps any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from billing.close.blocks import Numbers, covered
from billing.close.counters import Counted, Gap, explain
from billing.cost.attempts import gaps
from billing.store.clickhouse import Ledger
from billing.store.close.accepted import accepted_tokens
from billing.store.invoice.issuing import accepted_gaps
from telemetry.engine_time import EngineCounters
from telemetry.names import EventName

_NAMES: Final = {
    "window": EventName.WINDOW,
    "session": EventName.SESSION,
    "load": EventName.LOAD,
    "left": EventName.LEFT,
    "reshare": EventName.RESHARE,
    "opened": EventName.OPENED,
}
ATTEMPTS: Final = "attempts"
"""How the name of a gateway's stream of attempts begins; others begin with the name of their events."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A run of missing numbers of one emitter; it lies in [start_ns, end_ns), between its neighbours. `engine` as they name it."""

    numbers: Numbers
    emitter: str
    engine: str | None
    start_ns: int
    end_ns: int

    @property
    def count(self) -> int:
        """How many are missing."""
        return self.numbers.last - self.numbers.first + 1

    @property
    def stream(self) -> str:
        """What the stream holds: `attempts`, or the name of its events."""
        return self.numbers.stream.split(" ", 1)[0]


def missing_numbers(ledger: Ledger, start_ns: int, end_ns: int) -> list[Missing]:
    """Runs of missing numbers that touch the window, by stream; not those that were accepted."""
    rows = ledger.read("stream_gaps", {"start_ns": start_ns, "end_ns": end_ns, **_NAMES})
    streams = list(gaps({row["stream"]: (row["highest"], row["seen"]) for row in rows}))
    if not streams:
        return []
    accepted = [one.numbers for one in accepted_gaps(ledger) if one.numbers is not None]
    found = []
    for row in ledger.read("stream_gap_ranges", {"streams": streams, "opened": EventName.OPENED}):
        until_ns = row["until_ns"]
        since_ns = min(row["born_ns"] or until_ns, until_ns) if row["after_ns"] is None else row["after_ns"]
        numbers = Numbers(row["stream"], row["first"], row["last"])
        touches = min(since_ns, until_ns) < end_ns and until_ns >= start_ns
        if touches and not covered(numbers, accepted):
            found.append(Missing(numbers, row["emitter"], row["engine"] or None, min(since_ns, until_ns), until_ns))
    return found


def stream_gaps(ledger: Ledger, start_ns: int, end_ns: int) -> dict[str, int]:
    """How many numbers are missing in the window, by stream."""
    found = Counter[str]()
    for one in missing_numbers(ledger, start_ns, end_ns):
        found[one.numbers.stream] += one.count
    return found


def engine_gaps(ledger: Ledger, start_ns: int, end_ns: int) -> list[Gap]:
    """The gaps of every engine process that read its counters in [start_ns, end_ns), as of its last reading in it."""
    window = {"counters": EventName.COUNTERS, "start_ns": start_ns, "end_ns": end_ns}
    found: list[Gap] = []
    for row in ledger.read("engine_counters", window):
        counters = EngineCounters.from_json(row["body"])
        life = {"engine": counters.engine, "start_ns": counters.start_ns, "end_ns": counters.at_ns}
        found += explain(counters, Counted(**ledger.read("counted_usage", life)[0]))
    return found


def unexplained(ledger: Ledger, start_ns: int, end_ns: int) -> list[str]:
    """The gaps that no cause covers and nobody accepted, in words."""
    accepted = accepted_tokens(accepted_gaps(ledger))
    return [
        f"{left} {gap.what} of {gap.emitter} between {gap.larger} and {gap.smaller}"
        for gap in engine_gaps(ledger, start_ns, end_ns)
        if (left := gap.unexplained - accepted.get((gap.emitter, gap.what, gap.larger, gap.smaller), 0))
    ]

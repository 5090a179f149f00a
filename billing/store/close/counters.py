"""The engine's own counters in the ledger, held against the meter's and the usage records."""

from __future__ import annotations

from billing.close.counters import Counted, Gap, explain
from billing.store.clickhouse import Ledger
from billing.store.close.accepted import accepted_tokens
from billing.store.invoice.issuing import accepted_gaps
from telemetry.engine_time import EngineCounters
from telemetry.names import EventName


def engine_gaps(ledger: Ledger, start_ns: int, end_ns: int) -> list[Gap]:
    """The gaps of every engine process that read its counters in [start_ns, end_ns), as of its last reading in it."""
    window = {"counters": EventName.COUNTERS, "start_ns": start_ns, "end_ns": end_ns}
    gaps: list[Gap] = []
    for row in ledger.read("engine_counters", window):
        counters = EngineCounters.from_json(row["body"])
        life = {"engine": counters.engine, "start_ns": counters.start_ns, "end_ns": counters.at_ns}
        counted = ledger.read("counted_usage", life)[0]
        usage = Counted(
            counted["attempts"], counted["prompt_tokens"], counted["output_tokens"], counted["cached_tokens"]
        )
        gaps += explain(counters, usage)
    return gaps


def unexplained(ledger: Ledger, start_ns: int, end_ns: int) -> list[str]:
    """The gaps that no cause covers and nobody accepted, in words."""
    accepted = accepted_tokens(accepted_gaps(ledger))
    return [
        f"{left} {gap.what} of {gap.emitter} between {gap.larger} and {gap.smaller}"
        for gap in engine_gaps(ledger, start_ns, end_ns)
        if (left := gap.unexplained - accepted.get((gap.emitter, gap.what, gap.larger, gap.smaller), 0))
    ]

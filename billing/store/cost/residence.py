"""Whose adapters were in the engines, and for how many bytes how long: the weights of idle time under `residency`."""

from __future__ import annotations

from collections import Counter

from billing.cost.residence import Move, byte_ns
from billing.store.clickhouse import Ledger
from catalog.model import Catalog
from telemetry.names import EventName


def residence_weights(ledger: Ledger, catalog: Catalog, start_ns: int, end_ns: int) -> Counter[str]:
    """Byte-nanoseconds in [start_ns, end_ns) by owner, as measured; where no load was, the memory budgets that are declared.

    A load whose size was not measured counts with the adapter's declared budget. What adapters of nobody weigh is under "".
    """
    declared = {adapter.name: adapter for adapter in catalog.adapters}
    budgets = Counter({name: adapter.memory_budget_bytes for name, adapter in declared.items()})
    window = {"window": EventName.WINDOW, "start_ns": start_ns, "end_ns": end_ns}
    asked = {"load": EventName.LOAD, "left": EventName.LEFT, **window}
    moves = [
        Move(row["emitter"], name := row["adapter_name"], row["at_ns"], row["came"], row["bytes"] or budgets[name])
        for row in ledger.read("residence_moves", asked)
    ]
    ends = {row["emitter"]: row["last_ns"] for row in ledger.read("residence_ends", window)}
    weights = Counter[str]()
    for name, weight in (byte_ns(moves, ends, start_ns, end_ns) or budgets).items():
        weights[(declared[name].owner if name in declared else None) or ""] += weight
    return weights

"""What could not be booked, and why. An entry is there once, however often the same thing comes again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Literal

from billing.exact.canonical import text_hash
from billing.exact.periods import to_ns
from billing.store.clickhouse import Ledger
from billing.store.errors import EntryMissing, ReasonMissing

ACCEPTED: Final = "accepted by a later run"
RELEASED: Final = "released: "
"""How the resolution of a released entry begins; the reason follows."""
_MAX_CONTENT: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that was not booked. `kind` is `usage` for a whole usage record that may be booked later, `share` for engine time
    of which it is in doubt whose it was, else `line`."""

    kind: Literal["line", "usage", "share"]
    source: str
    reason: str
    content: str
    event_ns: int | None = None
    tenant: str = ""
    emitter: str = ""
    seq: int = -1

    @property
    def id(self) -> str:
        """Identity: kind and content."""
        return text_hash(f"{self.kind}\n{self.content}")


@dataclass(frozen=True, slots=True)
class Waiting:
    """An entry as people see it. `resolution` is empty while it is open; `event_time` None touches every month."""

    id: str
    kind: str
    at: datetime
    event_time: datetime | None
    tenant: str
    emitter: str
    seq: int
    source: str
    reason: str
    resolution: str


def put(ledger: Ledger, entries: Iterable[Entry], now: datetime) -> int:
    """Add entries that are not there yet; how many were new. A resolved one stays resolved."""
    by_id = {entry.id: entry for entry in entries}
    if not by_id:
        return 0
    known = {row["id"] for row in ledger.read("quarantine_known", {"ids": list(by_id)})}
    return ledger.insert("quarantine_versions", [_row(key, e, now) for key, e in by_id.items() if key not in known])


def resolve(ledger: Ledger, resolutions: Mapping[str, str], now: datetime) -> int:
    """Close open entries by id, each with why; how many were open."""
    rows = ledger.read("quarantine_entries", {"ids": list(resolutions)}) if resolutions else []
    open_rows = [row for row in rows if not row["resolution"]]
    return ledger.insert(
        "quarantine_versions",
        [row | {"version": to_ns(now), "resolution": resolutions[row["id"]]} for row in open_rows],
    )


def listed(ledger: Ledger, *, resolved: bool = False) -> list[Waiting]:
    """Open entries, oldest first; with `resolved` all that ever were."""
    return [Waiting(**row) for row in ledger.read("quarantine_listed", {"all": resolved})]


def chosen(ledger: Ledger, ids: Sequence[str]) -> list[Waiting]:
    """The entries of these ids, or of the only id that begins so, open or not. EntryMissing for none or several."""
    everything = listed(ledger, resolved=True)
    found = []
    for wanted in ids:
        matching = [entry for entry in everything if wanted and entry.id.startswith(wanted)]
        if len(matching) != 1:
            raise EntryMissing(wanted, len(matching))
        found += matching
    return list(dict.fromkeys(found))


def release(ledger: Ledger, ids: Sequence[str], reason: str, now: datetime) -> list[Waiting]:
    """Give open entries up for good; those that were released now. One that was resolved before stays as it is.

    They are kept, with the reason, and block nobody any more; the same thing ingested again does not open them again.
    ReasonMissing without a reason; EntryMissing as in `chosen`, and then none is released.
    """
    if not reason.strip():
        raise ReasonMissing
    entries = [entry for entry in chosen(ledger, ids) if not entry.resolution]
    resolve(ledger, {entry.id: RELEASED + reason.strip() for entry in entries}, now)
    return entries


def _row(key: str, entry: Entry, now: datetime) -> dict[str, Any]:
    row = asdict(entry) | {"id": key, "version": to_ns(now), "at": now, "event_time": entry.event_ns}
    del row["event_ns"]
    return row | {"content": entry.content[:_MAX_CONTENT], "resolution": ""}

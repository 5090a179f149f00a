"""What keeps a tenant's month from its invoice: found facts that cannot be trusted yet, whom they touch, and what to do. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from billing.exact.canonical import text_hash
from catalog.months import to_datetime

_ID_DIGITS: Final = 12


class Kind(StrEnum):
    """What is wrong."""

    QUARANTINE = "quarantine"
    """Something that could not be booked waits there."""
    RECORDS = "records"
    """Numbers are missing in a stream of attempts, windows or other facts."""
    COUNTERS = "counters"
    """An engine's own counters, its meter and the usage records do not fit, and no cause says why."""
    AGREEMENT = "agreement"
    """Records say another engine time than the meter."""
    UNMEASURED = "unmeasured"
    """Attempts that the tenant pays for, of which nobody knows the tokens or the time that its plan charges."""
    OPEN = "open"
    """Attempts that neither closed nor are old enough to be lost."""
    PRICE = "price"
    """Rented engine-hours have no cost."""
    TIME = "time"
    """Engine time has no owner, or was measured and could not be placed."""
    DRAFT = "draft"
    """The tenant's month cannot be rated or drafted."""
    DOCUMENT = "document"
    """The tenant's document cannot be made."""


ACCEPTABLE: Final = frozenset(
    {Kind.QUARANTINE, Kind.RECORDS, Kind.COUNTERS, Kind.AGREEMENT, Kind.UNMEASURED, Kind.PRICE, Kind.TIME}
)
"""Others pass by themselves, or need the catalog mended."""


class Numbers(NamedTuple):
    """Missing numbers of a stream, both ends included."""

    stream: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Block:
    """One finding. `id` is the same whenever the same facts are found again, and another when more is missing.

    It blocks `tenants`; none means that it touches nobody's invoice. [`start_ns`, `end_ns`) is where it lies in UTC
    nanoseconds. `records`, `tokens` and `engine_ns` say how much it is about, `cost` what is at stake in the price book's
    currency; null is not known. `key` tells findings of one kind apart.
    """

    kind: Kind
    key: tuple[str, ...]
    what: str
    tenants: tuple[str, ...] = ()
    engine: str | None = None
    emitter: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    records: int | None = None
    tokens: int | None = None
    engine_ns: int | None = None
    cost: Decimal | None = None
    advice: str = ""
    numbers: Numbers | None = None

    @property
    def id(self) -> str:
        """Stable identity, short enough to type."""
        return text_hash("\n".join((self.kind, *self.key)))[:_ID_DIGITS]

    @property
    def acceptable(self) -> bool:
        """Whether the provider can take it on with `--accept`, or `--accept-gap`."""
        return self.kind in ACCEPTABLE


def missing(stream: str, first: int, last: int) -> tuple[str, ...]:
    """The key of missing numbers."""
    return (stream, str(first), str(last))


def covered(numbers: Numbers, accepted: Iterable[Numbers]) -> bool:
    """Whether all of these missing numbers were accepted, maybe as a part of more."""
    return any(
        one.stream == numbers.stream and one.first <= numbers.first and numbers.last <= one.last for one in accepted
    )


def blocked(blocks: Sequence[Block], issued: Iterable[str] = ()) -> dict[str, list[Block]]:
    """By tenant, what it is blocked by; who has an invoice already is not blocked any more."""
    done = set(issued)
    found: dict[str, list[Block]] = {}
    for block in blocks:
        for tenant in block.tenants:
            if tenant not in done:
                found.setdefault(tenant, []).append(block)
    return dict(sorted(found.items()))


def told(block: Block) -> dict[str, Any]:
    """A finding as programs read it: plain values, null where something is not known."""
    return {
        "id": block.id,
        "kind": block.kind.value,
        "what": block.what,
        "tenants": list(block.tenants),
        "engine": block.engine,
        "emitter": block.emitter,
        "start": None if block.start_ns is None else to_datetime(block.start_ns).isoformat(),
        "end": None if block.end_ns is None else to_datetime(block.end_ns).isoformat(),
        "records": block.records,
        "tokens": block.tokens,
        "engine_ns": block.engine_ns,
        "cost": None if block.cost is None else f"{block.cost:f}",
        "acceptable": block.acceptable,
        "advice": block.advice,
    }

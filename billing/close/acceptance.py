"""A gap that the provider takes on: a document of the chain like any other, so never changed and never there twice. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from pydantic import TypeAdapter, ValidationError

from billing.close.blocks import Block, Kind, Numbers
from billing.cost.facts import PROVIDER
from billing.errors import AcceptanceInvalid
from catalog.months import to_datetime
from catalog.prices import GAP_SERIES

SCHEMA: Final = "loraledger.acceptance/1"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Who took on which gap of which month, when and why; `cost` is what the provider carries for it, 0 when nobody knows.

    `number` is `GAP-` and the gap's id, `tenant` always the provider, `month` the one that was being closed.
    """

    schema: str
    number: str
    tenant: str
    month: str
    gap: str
    kind: Kind
    key: tuple[str, ...]
    what: str
    tenants: tuple[str, ...]
    engine: str | None
    emitter: str | None
    start: datetime | None
    end: datetime | None
    records: int | None
    tokens: int | None
    engine_ns: int | None
    cost: Decimal
    currency: str
    reason: str
    accepted_by: str
    issued_on: date
    cutoff: datetime

    @property
    def numbers(self) -> Numbers | None:
        """The missing numbers that were accepted, if it is about such."""
        return Numbers(self.key[0], int(self.key[1]), int(self.key[2])) if self.kind is Kind.RECORDS else None


def accept(block: Block, month: str, currency: str, reason: str, by: str, now: datetime) -> Acceptance:
    """The acceptance of a gap. AcceptanceInvalid when there is no reason, or nothing that a provider could carry."""
    if not reason.strip():
        raise AcceptanceInvalid(f"could not accept gap {block.id}: the reason is empty; say why with --reason")
    if not block.acceptable:
        raise AcceptanceInvalid(f"could not accept {block.id}: {block.what}; {block.advice}")
    return Acceptance(
        schema=SCHEMA,
        number=number_of(block.id),
        tenant=PROVIDER,
        month=month,
        gap=block.id,
        kind=block.kind,
        key=block.key,
        what=block.what,
        tenants=block.tenants,
        engine=block.engine,
        emitter=block.emitter,
        start=None if block.start_ns is None else to_datetime(block.start_ns),
        end=None if block.end_ns is None else to_datetime(block.end_ns),
        records=block.records,
        tokens=block.tokens,
        engine_ns=block.engine_ns,
        cost=block.cost or Decimal(0),
        currency=currency,
        reason=reason.strip(),
        accepted_by=by,
        issued_on=now.date(),
        cutoff=now,
    )


def number_of(gap: str) -> str:
    """The document number of a gap's acceptance."""
    return f"{GAP_SERIES}-{gap}"


def read_acceptance(data: bytes) -> Acceptance:
    """What `canonical.written` wrote; AcceptanceInvalid when it is something else."""
    try:
        return TypeAdapter(Acceptance).validate_json(data)
    except ValidationError as error:
        raise AcceptanceInvalid(f"could not read an accepted gap: {error}") from error

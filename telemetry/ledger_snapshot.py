"""What the ledger last published for the gateways: costs and charges of the month, and what is wrong in the books. No I/O."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta, field, to_builtins

from telemetry.values import Int64, Value

Instant = Annotated[datetime, Meta(tz=True)]


class TenantFigures(Value, frozen=True, forbid_unknown_fields=False):
    """Currency amounts of one tenant, to date of its billing `month` (2026-10); None is what the ledger does not know.

    `charged` is what counts against its budget. ValueError for an amount that is no number.
    """

    cost_per_million_tokens: Decimal | None = None
    memory_cost_per_hour: Decimal | None = None
    cost: Decimal | None = None
    revenue: Decimal | None = None
    month: str | None = None
    charged: Decimal | None = None

    def __post_init__(self) -> None:
        amounts = (self.cost_per_million_tokens, self.memory_cost_per_hour, self.cost, self.revenue, self.charged)
        if not all(amount.is_finite() for amount in amounts if amount is not None):
            raise ValueError("an amount is not a number")


class Standing(Value, frozen=True, forbid_unknown_fields=False):
    """What should be 0: entries in quarantine, records known to be missing, how late a close is, rented time without a price."""

    quarantine_records: Int64 | None = None
    record_gaps: Int64 | None = None
    close_overdue_ns: Int64 | None = None
    price_missing_ns: Int64 | None = None


class LedgerSnapshot(Value, frozen=True, forbid_unknown_fields=False):
    """The ledger's figures as of `published_at`, by tenant.

    `counted` says, by gateway process, which attempts are in `charged`: ranges [first, last] of their numbers, ascending; those that
    ended before `charged_until` should be. Fields of a later version are passed over: ledger and gateways need not be of one.
    """

    published_at: Instant
    tenants: dict[str, TenantFigures]
    ledger: Standing = Standing()
    counted: dict[str, tuple[tuple[Int64, Int64], ...]] = field(default_factory=dict)
    charged_until: Instant | None = None

    def to_json(self) -> str:
        """JSON by lines, keys in alphabetical order: people look into it as well."""
        plain = to_builtins(self, builtin_types=(datetime, Decimal))
        return json.dumps(plain, default=_text, indent=1, sort_keys=True)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else format(value, "f")

"""What the ledger last published for the gateways: costs and charges of the month, and what is wrong in the books. No I/O."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final

from msgspec import Meta, field, to_builtins

from telemetry.values import Value

Instant = Annotated[datetime, Meta(tz=True)]
Month = Annotated[str, Meta(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$")]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_MOST: Final = Decimal(10**20)
_DECIMALS: Final = 18
"""What a Decimal(38, 18) of the ledger holds; an exponent of a billion would keep the gateway busy for ever."""


class TenantFigures(Value, frozen=True, forbid_unknown_fields=False):
    """Currency amounts of one tenant, to date of its billing `month` (2026-10); None is what the ledger does not know.

    `charged` is what counts against its budget. ValueError for an amount that is none: no number, below 0, or larger or finer
    than the ledger's.
    """

    cost_per_million_tokens: Decimal | None = None
    memory_cost_per_hour: Decimal | None = None
    cost: Decimal | None = None
    revenue: Decimal | None = None
    month: Month | None = None
    charged: Decimal | None = None

    def __post_init__(self) -> None:
        amounts = (self.cost_per_million_tokens, self.memory_cost_per_hour, self.cost, self.revenue, self.charged)
        for amount in amounts:
            if amount is None:
                continue
            exponent = amount.as_tuple().exponent
            if not isinstance(exponent, int):
                raise ValueError("an amount is not a number")
            if amount < 0:
                raise ValueError("an amount is below 0")
            if amount >= _MOST or exponent < -_DECIMALS:
                raise ValueError(f"an amount is not below 10^20 with at most {_DECIMALS} decimals")


class Standing(Value, frozen=True, forbid_unknown_fields=False):
    """What should be 0: entries in quarantine, records known to be missing, how late a close is, rented time without a price."""

    quarantine_records: Count | None = None
    record_gaps: Count | None = None
    close_overdue_ns: Count | None = None
    price_missing_ns: Count | None = None


class LedgerSnapshot(Value, frozen=True, forbid_unknown_fields=False):
    """The ledger's figures as of `published_at`, by tenant.

    `counted` says, by gateway process, which attempts are in `charged`: ranges [first, last] of their numbers, ascending; those that
    ended before `charged_until` should be; ValueError when they do not ascend. Fields of a later version are passed over: ledger and gateways need not be of one.
    """

    published_at: Instant
    tenants: dict[str, TenantFigures]
    ledger: Standing = Standing()
    counted: dict[str, tuple[tuple[Count, Count], ...]] = field(default_factory=dict)
    charged_until: Instant | None = None

    def __post_init__(self) -> None:
        for ranges in self.counted.values():
            bounds = [bound for span in ranges for bound in span]
            if bounds != sorted(bounds):
                raise ValueError("ranges of counted attempts are not ascending")

    def to_json(self) -> str:
        """JSON by lines, keys in alphabetical order: people look into it as well."""
        plain = to_builtins(self, builtin_types=(datetime, Decimal))
        return json.dumps(plain, default=_text, indent=1, sort_keys=True)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else format(value, "f")

"""Compares what was rented with who owns it, and what the meter measured with what the records say. No I/O, no tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from billing.cost.facts import NotConserved
from catalog.owners import TimeOwner


@dataclass(frozen=True, slots=True)
class ZoneMonth:
    """A billing month as one time zone cuts it, [start_ns, end_ns): what was rented then, and what of it was its `tenants`'.

    GPU nanoseconds; the tenants' without adapter loads, as on their documents, their cost with them.
    """

    zone: str
    start_ns: int
    end_ns: int
    tenants: tuple[str, ...]
    rented_ns: int
    tenants_ns: int
    cost: Decimal


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """[start_ns, end_ns): GPU nanoseconds (engine wall nanoseconds x GPUs) by owner beside what was rented, and the same in money.

    `usage_ns` are the slices of the usage records, `meter_ns` the shares of the same attempts in the meter's windows,
    both in engine nanoseconds; `uneven_attempts` counts attempts in which the two differ. `unmeasured_attempts` closed
    without the meter's figures.
    """

    start_ns: int
    end_ns: int
    owners: Mapping[TimeOwner, int]
    rented_ns: int
    costs: Mapping[TimeOwner, Decimal]
    attributed_cost: Decimal
    currency: str
    usage_ns: int
    meter_ns: int
    uneven_attempts: int
    unmeasured_attempts: int

    @property
    def missing_ns(self) -> int:
        """Rented minus owned; 0 or the ledger is wrong."""
        return self.rented_ns - sum(self.owners[owner] for owner in TimeOwner)

    @property
    def missing_cost(self) -> Decimal:
        """Cost of tenants' and cold time minus the cost rows of tenants; 0 or the ledger is wrong."""
        return self.costs[TimeOwner.TENANTS] + self.costs[TimeOwner.COLD] - self.attributed_cost

    @property
    def record_difference_ns(self) -> int:
        """Records minus meter, over closed attempts."""
        return self.usage_ns - self.meter_ns

    def share(self, owner: TimeOwner) -> Decimal | None:
        """The owner's part of rented time; None when nothing was rented."""
        return Decimal(self.owners[owner]) / self.rented_ns if self.rented_ns else None

    def check(self) -> None:
        """Raise NotConserved unless every nanosecond and every unit of money has an owner."""
        if self.missing_ns or self.missing_cost:
            raise NotConserved(f"rented time of [{self.start_ns}, {self.end_ns})", self.missing_ns)

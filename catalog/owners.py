"""Whose a nanosecond of rented engine time is: the one vocabulary of meter, ledger, metrics and reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TimeOwner(StrEnum):
    """Each nanosecond has one; the parts of all owners sum to the rented time."""

    TENANTS = "tenants"
    """Requests: base model and adapters, each tenant its own."""
    COLD = "cold"
    """Loads of adapters, which the tenants that used them share."""
    RECOMPUTE = "recompute"
    """Work done again after a preemption."""
    SYSTEM = "system"
    """Requests were there, and the time is nobody's; the meter knows the cause."""
    IDLE = "idle"
    """The engine had no request."""
    UNATTRIBUTED = "unattributed"
    """Time passed, and no cause was seen."""
    DOWN = "down"
    """Rented, but no engine was up."""


MEASURED: Final = tuple(owner for owner in TimeOwner if owner is not TimeOwner.DOWN)
"""What the meter of an engine that is up can see."""
BUSY: Final = tuple(owner for owner in MEASURED if owner is not TimeOwner.IDLE)
NO_TENANTS: Final = tuple(owner for owner in TimeOwner if owner not in (TimeOwner.TENANTS, TimeOwner.COLD))
"""What no tenant has a part of, in the order in which quantities are dealt."""

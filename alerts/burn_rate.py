"""Multi-window burn rates in exact numbers: how fast an error budget is used up, and when that is worth a page.

The four rows used by default are those of Google's SRE workbook, chapter "Alerting on SLOs", for a 30-day budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Severity = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True)
class BurnWindow:
    """One burn-rate alert: the budget burns `factor` times too fast over the last `long` seconds and over the last `short`.

    The alert fires when both have been true for `for_` seconds.
    """

    severity: Severity
    factor: Decimal
    long: int
    short: int
    for_: int

    def threshold(self, budget: Decimal) -> Decimal:
        """Share of bad requests at which a budget of `budget` (a share) burns `factor` times too fast."""
        return self.factor * budget

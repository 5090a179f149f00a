"""Rules as rows: one row is one rule with its thresholds still open; `rendered` fills them in from the promises. No I/O.

To add a rule, add a row to the group whose rows are about the same thing. An alert also needs a runbook of its name in
`alerts/runbooks`; its board is one of `alerts.links`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from alerts.burn_rate import Severity
from alerts.links import Board
from alerts.model import Alert, Group, Recording
from alerts.promises import Promises

T = TypeVar("T", str, int)
Text = str | Callable[[Promises], str]
"""Words or PromQL: as they stand, or made from the thresholds."""
Seconds = int | Callable[[Promises], int]


class Row(Protocol):
    """What a group holds."""

    def rules(self, promises: Promises) -> tuple[Recording | Alert, ...]:
        """The rules of this row under these promises, in order."""


@dataclass(frozen=True, slots=True)
class RecordingRow:
    """One recording rule: the series that it records, and what it is computed from."""

    record: str
    expr: Text

    def rules(self, promises: Promises) -> tuple[Recording, ...]:
        """The one rule."""
        return (Recording(self.record, _filled(self.expr, promises)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """One alerting rule. The fields are those of `alerts.model.Alert`."""

    name: str
    promise: str
    severity: Severity
    expr: Text
    for_: Seconds = 0
    summary: Text
    description: Text
    board: Board
    variable: str | None = None
    labels: dict[str, str] = field(default_factory=dict)

    def rules(self, promises: Promises) -> tuple[Alert, ...]:
        """The one rule."""
        alert = Alert(
            name=self.name,
            promise=self.promise,
            severity=self.severity,
            expr=_filled(self.expr, promises),
            for_=_filled(self.for_, promises),
            summary=_filled(self.summary, promises),
            description=_filled(self.description, promises),
            board=self.board,
            variable=self.variable,
            labels=self.labels,
        )
        return (alert,)


@dataclass(frozen=True, slots=True)
class GroupRows:
    """A rule group as rows, in the order in which Prometheus evaluates them."""

    name: str
    rows: tuple[Row, ...]


def rendered(group: GroupRows, promises: Promises) -> Group:
    """The group with every threshold filled in."""
    return Group(group.name, tuple(rule for row in group.rows for rule in row.rules(promises)))


def _filled(value: T | Callable[[Promises], T], promises: Promises) -> T:
    return value(promises) if callable(value) else value

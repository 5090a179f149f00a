"""The values a rule file is made of: recordings, alerts and the groups that hold them in order. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from alerts.links import Board
from alerts.promises import Severity


@dataclass(frozen=True, slots=True)
class Recording:
    """A series computed by Prometheus at every evaluation; alerts and boards read it by name."""

    record: str
    expr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert, with a runbook of its name in `alerts/runbooks`. `name` is also the name of its runbook; `promise` names what is broken: a critical alert silences the
    warnings of the same promise.

    `variable` is the label of the alert that fills the board's variable of the same name. `for_` is in seconds.
    Values appear in `summary` and `description` only: a value in a label would make every evaluation a new alert.
    """

    name: str
    promise: str
    severity: Severity = "warning"
    expr: str
    for_: int = 0
    summary: str
    description: str
    board: Board
    variable: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Rules evaluated one after the other, so that an alert sees what was recorded above it in the same round."""

    name: str
    rules: tuple[Recording | Alert, ...]

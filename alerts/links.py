"""Where an alert points: its runbook and its board. Board ids are decided here, so that alerts and boards cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Board:
    """One Grafana board: a stable uid (at most 40 characters), its title, and the slug of its address."""

    uid: str
    title: str

    @property
    def slug(self) -> str:
        """The title as the last part of the board's address."""
        return self.title.lower().replace(": ", "-").replace(" ", "-")


TENANTS: Final = Board("loraledger-tenants", "loraledger: tenants")
FLEET: Final = Board("loraledger-fleet", "loraledger: fleet")
ROUTING: Final = Board("loraledger-routing", "loraledger: routing and cold starts")
MONEY: Final = Board("loraledger-money", "loraledger: money")
PIPELINE: Final = Board("loraledger-pipeline", "loraledger: pipeline health")
BOARDS: Final = (TENANTS, FLEET, ROUTING, MONEY, PIPELINE)


@dataclass(frozen=True, slots=True)
class Links:
    """Prefixes of the addresses in annotations; both end in a slash."""

    runbooks: str = "https://runbooks.example.com/loraledger/"
    boards: str = "https://grafana.example.com/d/"

    def runbook(self, alert: str) -> str:
        """Address of the runbook of an alert."""
        return f"{self.runbooks}{alert}"

    def board(self, board: Board, variable: str | None = None) -> str:
        """Address of a board; `variable` names the alert label that fills the board's variable of the same name."""
        address = f"{self.boards}{board.uid}/{quote(board.slug)}"
        return f"{address}?var-{variable}={{{{ $labels.{variable} | urlquery }}}}" if variable else address


DEFAULT_LINKS: Final = Links()

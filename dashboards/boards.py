"""Every board, in the order of `alerts.links.BOARDS`."""

from __future__ import annotations

from typing import Final

from dashboards.fleet import FLEET_BOARD
from dashboards.model import Dashboard
from dashboards.money import MONEY_BOARD
from dashboards.pipeline import PIPELINE_BOARD
from dashboards.routing import ROUTING_BOARD
from dashboards.tenants import TENANTS_BOARD

DASHBOARDS: Final[tuple[Dashboard, ...]] = (TENANTS_BOARD, FLEET_BOARD, ROUTING_BOARD, MONEY_BOARD, PIPELINE_BOARD)

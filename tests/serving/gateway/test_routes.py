"""The table of routes is what the documentation prints, and every path has one place in it."""

from __future__ import annotations

import pytest

from serving.gateway.routes import PAGE, ROUTES, Served, page, route_of
from serving.protocol.operations import OPERATIONS


def test_the_documentation_prints_the_table() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run `python -m serving.gateway.routes`"


def test_every_path_has_one_row_and_operations_are_what_is_metered() -> None:
    assert len({route.path for route in ROUTES}) == len(ROUTES)
    assert {route.path for route in ROUTES if route.served is Served.METERED} == set(OPERATIONS)


@pytest.mark.parametrize(
    ("path", "served"),
    [
        ("/v1/responses", Served.METERED),
        ("/v1/responses/resp_1", Served.CLOSED),
        ("/v1/responses/resp_1/cancel", Served.CLOSED),
        ("/v1/responses/resp_1/cancel/x", None),
        ("/v1/models/org/name", Served.OWN),
        ("/v1/models/", None),
        ("/tokenize", Served.PASSED),
        ("/tokenize/", None),
        ("/V1/messages", None),
        ("//v1/messages", None),
        ("", None),
    ],
)
def test_a_path_comes_where_its_row_says_and_no_other_spelling_does(path: str, served: Served | None) -> None:
    route = route_of(path)
    assert (route.served if route is not None else None) == served

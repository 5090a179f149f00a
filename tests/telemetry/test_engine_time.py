from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.engine_time import (
    AdapterLeft,
    AdapterLoad,
    EngineSession,
    LoadCause,
    MeterWindow,
    NotConserved,
    Opened,
    PrefixMove,
    PrefixReshare,
    SessionEvent,
    Share,
)

NS = st.integers(0, 10**12)
TEXT = st.text(min_size=1, max_size=8)
SHARES = st.builds(Share, TEXT, TEXT, st.none() | TEXT, NS, NS, NS, NS, NS, NS, NS)
PARTS = st.dictionaries(TEXT, NS, max_size=3)


@st.composite
def conserved_windows(draw: st.DrawFn) -> MeterWindow:
    shares = tuple(draw(st.lists(SHARES, max_size=4)))
    system, cold = draw(PARTS), draw(PARTS)
    idle, unattributed, start = draw(NS), draw(NS), draw(NS)
    length = idle + unattributed + sum(system.values()) + sum(cold.values())
    length += sum(share.base_ns + share.adapter_ns + share.recompute_ns for share in shares)
    end = start + length
    return MeterWindow("m-1", draw(NS), "e1", start, end, draw(NS), idle, system, cold, unattributed, shares, draw(NS))


@given(conserved_windows(), st.integers(-1000, 1000).filter(bool))
def test_a_window_is_whole_to_the_nanosecond(window: MeterWindow, stray: int) -> None:
    window.check()
    with pytest.raises(NotConserved, match=f"parts miss {stray} ns"):
        replace(window, end_ns=window.end_ns + stray).check()


def test_savings_are_estimates_and_no_part_of_the_window() -> None:
    share = Share("gw-1:0", "acme", None, 5, 3, 2, 1, 1, kv_saved_base_ns=99, kv_saved_adapter_ns=99)
    MeterWindow("m-1", 0, "e1", 0, 10, 1, 0, shares=(share,)).check()


@given(st.lists(st.tuples(TEXT, NS), max_size=4), st.integers(-1000, 1000).filter(bool))
def test_a_reshare_makes_and_loses_nothing(parts: list[tuple[str, int]], stray: int) -> None:
    moves = tuple(PrefixMove(name, sign * ns) for name, ns in parts for sign in (1, -1))
    line = PrefixReshare("m-1", 0, "e1", 5, "acme", None, moves)
    line.check()
    with pytest.raises(NotConserved, match=f"moves leave {stray} ns"):
        replace(line, moves=(*moves, PrefixMove("gw-1:9", stray))).check()


@given(conserved_windows())
def test_a_window_comes_back_as_it_was(window: MeterWindow) -> None:
    assert MeterWindow.from_json(window.to_json()) == window


@pytest.mark.parametrize(
    "value",
    [
        AdapterLoad("m-1", 0, "e1", "legal", "ab" * 32, LoadCause.WARM, 5, 7, None, 3, 4, 99, ("gw-1:0", "gw-1:1")),
        AdapterLoad("m-1", 1, "e1", "legal", None, LoadCause.REQUEST, 5, 7),
        AdapterLeft("m-1", 0, "e1", "legal", 5),
        PrefixReshare("m-1", 0, "e1", 5, "acme", "legal", (PrefixMove("gw-1:0", -7), PrefixMove("gw-1:1", 7))),
        EngineSession("m-1", 0, "e1", "s1", SessionEvent.UP, 5, "H100", 2),
        Opened("gw-1", 0, "r1", "acme", 5, "ab" * 16, "legal", "e1"),
        Opened("gw-1", 1, "r2", "acme", 6),
    ],
)
def test_events_come_back_as_they_were(value: Any) -> None:
    assert type(value).from_json(value.to_json()) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (MeterWindow, "{"),
        (MeterWindow, "[]"),
        (MeterWindow, '{"emitter":"m-1"}'),
        (AdapterLoad, "{}"),
        (AdapterLoad, '{"cause":"whim","stalled":[]}'),
        (PrefixReshare, '{"emitter":"m-1","seq":0,"engine":"e1","at_ns":5,"tenant":"acme","adapter":null}'),
        (
            PrefixReshare,
            '{"emitter":"m-1","seq":0,"engine":"e1","at_ns":5,"tenant":"acme","adapter":null,"moves":[["a",1]]}',
        ),
        (EngineSession, '{"event":"asleep"}'),
        (Opened, '{"emitter":"gw-1"}'),
        (Opened, "7"),
        (Opened, '{"emitter":"gw-1","seq":1.5,"request_id":"r","tenant":"t","arrival_ns":1}'),
        (EngineSession, "[" * 100_000),
    ],
)
def test_what_is_not_one_is_refused(kind: Any, text: str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        kind.from_json(text)

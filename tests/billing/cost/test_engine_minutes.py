from __future__ import annotations

import pytest

from billing.cost.attempts import Life
from billing.cost.engine_minutes import Extent, Session, engine_minutes, lives, rentals
from billing.cost.facts import MeasuredMinute, NotConserved
from billing.errors import EngineHourInvalid
from catalog.durations import MINUTE_NS
from catalog.load import parse
from catalog.model import Catalog

S = 1_000_000_000
T0 = 1_790_000_040_000_000_000
CPU = ("demo-cpu", 1)


def life(start: int, end: int, gpu: tuple[str, int] = CPU) -> Life:
    return Life("cpu-0", T0 + start * S, T0 + end * S, True, *gpu)


def idle(minute: int, wall: int) -> MeasuredMinute:
    return MeasuredMinute("cpu-0", T0 + minute * MINUTE_NS, wall, wall, 0, 0, 0, 0, 0)


def session(name: str, first: int, last: int, stopped: bool = False) -> Session:
    return Session("cpu-0", name, name, T0 + first * S, T0 + last * S, stopped, *CPU)


def test_down_is_rented_time_that_nobody_measured_minute_by_minute() -> None:
    found = engine_minutes([idle(0, 40 * S), idle(1, MINUTE_NS)], [life(10, 150)], T0, T0 + 10 * MINUTE_NS)
    assert [(m.wall_ns, m.down_ns, m.rented_ns) for m in found] == [
        (40 * S, 10 * S, 50 * S),
        (60 * S, 0, 60 * S),
        (0, 30 * S, 30 * S),
    ]


def test_only_the_asked_window_is_answered() -> None:
    found = engine_minutes([], [life(-500, 500)], T0, T0 + 2 * MINUTE_NS)
    assert [m.down_ns for m in found] == [MINUTE_NS, MINUTE_NS]


@pytest.mark.parametrize(
    ("paid", "missing"),
    [
        pytest.param([life(0, 30)], -10 * S, id="more measured than rented"),
        pytest.param([], -40 * S, id="measured and not rented at all"),
    ],
)
def test_measured_time_beyond_the_rent_is_an_error_never_a_clamp(paid: list[Life], missing: int) -> None:
    with pytest.raises(NotConserved) as error:
        engine_minutes([idle(0, 40 * S)], paid, T0, T0 + MINUTE_NS)
    assert error.value.missing_ns == missing


def test_parts_that_do_not_sum_are_an_error() -> None:
    with pytest.raises(NotConserved):
        engine_minutes([MeasuredMinute("cpu-0", T0, 10, 4, 5, 0, 0, 0, 0)], [life(0, 60)], T0, T0 + MINUTE_NS)


def test_a_minute_in_which_the_hardware_changed_is_one_for_each() -> None:
    lifes = [life(0, 20), life(30, 90, ("h200", 2)), life(90, 100, ("h200", 2)), life(100, 110)]
    found = engine_minutes([], lifes, T0, T0 + 2 * MINUTE_NS)
    assert [((m.start_ns - T0) // S, m.down_ns // S, m.gpu_type, m.gpu_count) for m in found] == [
        (0, 20, *CPU), (30, 30, "h200", 2), (60, 40, "h200", 2), (100, 10, *CPU)
    ]  # fmt: skip


def test_hardware_that_changes_back_and_forth_at_once_is_an_error() -> None:
    lifes = [life(0, 60), life(0, 60, ("h200", 2)), life(0, 60)]
    with pytest.raises(EngineHourInvalid):
        engine_minutes([], lifes, T0, T0 + MINUTE_NS)


def test_a_run_lasts_from_the_first_to_the_last_sign_of_life(example: Catalog) -> None:
    extent = Extent("cpu-0", "a", T0 - 1, T0 + 99 * S)
    (found,) = lives([session("a", 0, 60, stopped=True)], [extent], example)
    assert (found.start_ns, found.end_ns, found.over) == (T0 - 1, T0 + 99 * S, True)


def test_a_run_is_over_once_a_later_one_began(example: Catalog) -> None:
    found = lives([session("b", 100, 160), session("a", 0, 60)], [], example)
    assert [(run.start_ns, run.over) for run in found] == [(T0, True), (T0 + 100 * S, False)]


def test_windows_go_to_the_run_they_name_else_to_the_latest_that_began_before(example: Catalog) -> None:
    sessions = [session("a", 0, 60), session("b", 100, 160)]
    named = lives(sessions, [Extent("cpu-0", "a", T0 + 101 * S, T0 + 200 * S)], example)
    unnamed = lives(sessions, [Extent("cpu-0", "x", T0 + 101 * S, T0 + 200 * S)], example)
    assert [run.end_ns for run in named] == [T0 + 200 * S, T0 + 160 * S]
    assert [run.end_ns for run in unnamed] == [T0 + 60 * S, T0 + 200 * S]


def test_windows_without_any_session_event_are_a_run_with_the_catalogs_hardware(example: Catalog) -> None:
    (found,) = lives([], [Extent("cpu-0", "x", T0, T0 + S)], example)
    assert (found.start_ns, found.end_ns, found.gpu_type, found.gpu_count) == (T0, T0 + S, "demo-cpu", 1)
    with pytest.raises(EngineHourInvalid, match="gpu-9 has no session events and is not in the catalog"):
        lives([], [Extent("gpu-9", "x", T0, T0 + S)], example)


def test_listed_rentals_are_paid_whatever_ran(example: Catalog) -> None:
    fixed = "[{start: 2026-10-01T00:00:00Z, until: 2026-10-02T00:00:00Z}, {start: 2026-10-05T00:00:00Z}]"
    text = example.model_dump_json()
    catalog = parse(text.replace('"rented":"on_demand"', f'"rented":{fixed}'), "test")
    end_ns = T0 + 7 * 86400 * S
    paid = rentals([life(0, 60)], catalog, end_ns)
    assert [(p.end_ns - p.start_ns) // S for p in paid] == [86400, (end_ns - paid[1].start_ns) // S]
    assert rentals([life(0, 60)], example, end_ns) == [life(0, 60)]

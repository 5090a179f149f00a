from __future__ import annotations

from typing import Any

from loraledger.page.residency import MAX_LANES, timeline
from loraledger.page.view import Stay


def load(adapter: str, start_ns: int, emitter: str = "eng-1", engine: str = "e") -> dict[str, Any]:
    return {"adapter": adapter, "engine": engine, "emitter": emitter, "start_ns": start_ns, "engine_ns": 5}


def use(adapter: str, first_ns: int, last_ns: int, engine: str = "e", attempts: int = 1) -> dict[str, Any]:
    return {
        "adapter_name": adapter,
        "engine_id": engine,
        "first_ns": first_ns,
        "last_ns": last_ns,
        "attempts": attempts,
    }


PROCESS = [{"emitter": "eng-1", "last_ns": 1000}]


def test_an_adapter_is_surely_there_from_its_load_to_its_last_use_and_perhaps_until_the_next_load_or_the_end() -> None:
    found = timeline(
        (0, 1000),
        [load("legal", 100), load("legal", 500)],
        [use("legal", 110, 180), use("legal", 200, 240), use("legal", 510, 700)],
        PROCESS,
        ["legal"],
    )
    (lane,) = found.lanes
    assert lane.stays == (Stay(100, 240, 500), Stay(500, 700, 1000))
    assert lane.loads_ns == (100, 500)


def test_a_stay_that_began_before_the_picture_is_cut_and_one_that_ended_before_is_left_out() -> None:
    found = timeline(
        (300, 1000),
        [load("legal", 100), load("legal", 500), load("tone", 50, "eng-0")],
        [use("legal", 350, 420)],
        [*PROCESS, {"emitter": "eng-0", "last_ns": 200}],
        [],
    )
    stays = {lane.adapter: lane.stays for lane in found.lanes}
    assert stays == {"legal": (Stay(300, 420, 500), Stay(500, 500, 1000)), "tone": ()}
    assert {lane.adapter: lane.loads_ns for lane in found.lanes} == {"legal": (500,), "tone": ()}


def test_a_use_that_began_before_a_reload_counts_on_both_sides_of_it() -> None:
    found = timeline((0, 1000), [load("legal", 100), load("legal", 500)], [use("legal", 400, 600)], PROCESS, [])
    assert found.lanes[0].stays == (Stay(100, 500, 500), Stay(500, 600, 1000))


def test_lanes_follow_the_catalog_and_the_least_used_are_counted_not_drawn() -> None:
    adapters = [f"a{n:02}" for n in range(MAX_LANES + 3)]
    uses = [use(adapter, 10, 20, attempts=n + 1) for n, adapter in enumerate(adapters)]
    found = timeline((0, 1000), [], uses, [], list(reversed(adapters)))
    assert found.hidden == 3
    assert [lane.adapter for lane in found.lanes] == list(reversed(adapters[3:]))

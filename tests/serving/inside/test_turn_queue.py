"""Turns on vLLM's real scheduler, step by step without an engine: a clock of our own, rows that come, go, and are preempted."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("vllm")

from serving.engine.door import AdapterFiles
from serving.engine.tiny_model import TinyModel
from serving.policy import turns
from serving.policy.turns import PATIENCE, Rules
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.channel import Receiver
from tests.serving.inside.test_scheduler import Driver

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

STEP_NS = 10_000_000
QUANTUM_NS = 200_000_000
RULES = Rules(2, QUANTUM_NS)


def whose(request: Any) -> Any:
    from serving.inside.turn_queue import Whose

    adapter = request.lora_request
    return Whose(request.sampling_params.extra_args["ll_tenant"], adapter.lora_name if adapter is not None else None, 1)


class Day(Driver):
    """A driver that knows when each request came, began and ended, and how many tokens it was given."""

    def __init__(self, tiny: TinyModel, address: str, blocks: int, fair: bool = True) -> None:
        super().__init__(tiny, address, blocks)
        from serving.inside.turn_queue import TurnQueue

        self.now_ns = 10**12
        if fair:
            self.queue = TurnQueue(RULES, DEFAULT_PROFILE, whose, lambda: self.now_ns)
            self.scheduler.take_turns(self.queue)
        self.came: dict[str, int] = {}
        self.began: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        self.flow: dict[str, tuple[str, str]] = {}
        self.passed: dict[tuple[str, str], int] = {}
        self.given_up: set[str] = set()
        self.longest_ns = 0
        self.preempted = 0

    def ask(self, name: str, tenant: str, adapter: AdapterFiles | None, tokens: int, answer: int) -> None:
        self.flow[name] = (tenant, adapter.name if adapter else "base")
        self.came[name] = self.now_ns
        self.add(name, tokens, adapter, tenant, max_tokens=answer, first=len(self.came) % 1500, salt=name)

    def waits(self) -> set[tuple[str, str]]:
        return {self.flow[name] for name in self.came.keys() - self.began.keys() - self.gone.keys()}

    def step(self) -> None:
        """One step, a clock's tick, and who of the flows is passed over since when."""
        for flow in self.waits():
            self.passed.setdefault(flow, self.now_ns)
        if len(self.in_flight) < 2 and self.scheduler.has_requests():
            self.schedule()
            step, _ = self.in_flight[-1]
            self.preempted += len(step.preempted_req_ids or ())
            for name in step.num_scheduled_tokens:
                if self.began.setdefault(name, self.now_ns) == self.now_ns:
                    self.longest_ns = max(self.longest_ns, self.now_ns - self.passed.pop(self.flow[name], self.now_ns))
        if self.in_flight and (len(self.in_flight) == 2 or not self.scheduler.has_requests()):
            self.answer()
        for name in self.ended:
            self.gone.setdefault(name, self.now_ns)
        self.passed = {flow: since for flow, since in self.passed.items() if flow in self.waits()}
        self.now_ns += STEP_NS

    def give_up(self, name: str) -> None:
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests([name], RequestStatus.FINISHED_ABORTED)
        self.gone[name] = self.now_ns
        self.given_up.add(name)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[str]:
    address = f"ipc://{tmp_path}/m"
    receiver = Receiver(address)
    yield address
    receiver.close()


@pytest.mark.parametrize("seed", range(3))
def test_no_flow_waits_longer_than_its_bound_and_no_request_is_lost_or_runs_twice(
    tiny: TinyModel, receiver: str, adapters: list[AdapterFiles], seed: int
) -> None:
    from serving.inside.turn_queue import LOOK_EVERY_NS

    random = Random(seed)
    day = Day(tiny, receiver, 14)
    flows = [(f"tenant-{n % 3}", (*adapters[:5], None)[n % 6]) for n in range(8)]
    answers: dict[str, int] = {}
    for tick in range(900):
        for _ in range(random.choice((0, 0, 0, 0, 1, 1, 4)) if tick < 600 else 0):
            name = f"r{len(answers)}"
            answers[name] = random.choice((1, 5, 20, 60))
            day.ask(name, *flows[int(len(flows) * random.random() ** 2)], random.choice((5, 40, 90)), answers[name])
        inside = sorted(day.came.keys() - day.gone.keys())
        if inside and random.random() < 0.05:
            day.give_up(random.choice(inside))
        day.step()
    while day.scheduler.has_requests() or day.in_flight:
        day.step()
    day.stop()
    assert day.queue.faults == 0
    assert (len(day.queue), bool(day.queue)) == (0, False)
    assert day.preempted, "the KV blocks were enough for everybody"
    assert day.ended.keys() | day.given_up == answers.keys()
    assert day.ended.keys() & day.given_up == set()
    for name, answer in answers.items():
        assert day.tokens[name] == answer or (name in day.given_up and day.tokens[name] < answer)
    seat_ns = max(day.gone[name] - began for name, began in day.began.items())
    bound_ns = PATIENCE * QUANTUM_NS + len(flows) * (QUANTUM_NS + seat_ns + LOOK_EVERY_NS + STEP_NS)
    assert 0 < day.longest_ns <= bound_ns


def crowd(day: Day, adapters: list[AdapterFiles]) -> None:
    """Three adapters on two slots, each asked again before its last answer ends: a slot that is had is never free."""
    for tick in range(600):
        for flow in range(3) if tick % 20 == 0 else ():
            day.ask(f"c{flow}-{tick}", f"tenant-{flow}", adapters[flow], 20, 30)
        day.step()
    day.stop()


def tokens_by_flow(day: Day) -> Counter[str]:
    had: Counter[str] = Counter()
    for name, count in day.tokens.items():
        had[day.flow[name][0]] += count
    return had


def test_an_adapter_that_others_would_keep_out_gets_its_turn(
    tiny: TinyModel, receiver: str, adapters: list[AdapterFiles]
) -> None:
    day = Day(tiny, receiver, 200)
    crowd(day, adapters)
    had = tokens_by_flow(day)
    assert len(had) == 3
    assert max(had.values()) <= 1.25 * min(had.values())
    assert day.longest_ns <= 2 * (QUANTUM_NS + 30 * STEP_NS)


def test_first_come_first_served_keeps_it_out(tiny: TinyModel, receiver: str, adapters: list[AdapterFiles]) -> None:
    day = Day(tiny, receiver, 200, fair=False)
    crowd(day, adapters)
    assert set(tokens_by_flow(day)) == {"tenant-0", "tenant-1"}, "the third got a slot"


def test_the_settings_choose_turns_and_their_quantum(tiny: TinyModel, receiver: str) -> None:
    fair = Driver(tiny, receiver, 200, turns="fair", turn_ms=250)
    plain = Driver(tiny, receiver, 200, turns="fcfs", turn_ms=250)
    assert fair.scheduler.waiting is fair.scheduler.turns
    assert fair.scheduler.turns.rules == Rules(2, 250_000_000)
    assert plain.scheduler.turns is None
    for driver in (fair, plain):
        driver.add("r", 20)
        driver.run()
        assert driver.tokens == {"r": 3}
        driver.stop()


def test_a_fault_in_the_turns_makes_it_first_come_first_served_and_loses_nobody(
    tiny: TinyModel,
    receiver: str,
    adapters: list[AdapterFiles],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "vllm")
    day = Day(tiny, receiver, 200)
    for n in range(8):
        day.ask(f"r{n}", f"tenant-{n % 2}", adapters[n % 3], 20, 5)
    day.step()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(turns, "rank", broken)
    for n in range(8, 12):
        day.ask(f"r{n}", "tenant-0", adapters[n % 3], 20, 5)
    while day.scheduler.has_requests() or day.in_flight:
        day.step()
    day.stop()
    assert day.queue.faults == 1
    assert day.tokens == {f"r{n}": 5 for n in range(12)}

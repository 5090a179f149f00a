"""Random lives of an engine: whatever happens, every nanosecond has one owner and attempts add up."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.durations import MINUTE_NS, QUARTER_NS
from catalog.owners import TimeOwner
from serving.metering.accounting import Accountant, EventRefused
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.events import Aborted, Bye, EngineStep, Entered, Event, Hello, Loaded, LoadSpan, Mark, StepRow, Woke
from telemetry.engine_time import MeterWindow, SystemCause

MONO = 123_456_789_012
ADAPTERS = (None, "law", "med")
OPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "step", "step", "step", "step", "abort", "load", "wait", "preempt"]),
        st.integers(0, 2**16),
        st.one_of(st.integers(0, 50_000_000), st.integers(0, 20_000_000_000)),
    ),
    min_size=12,
    max_size=60,
)


@dataclass
class Life:
    """One engine as its scheduler sees it; `events` come with the monotonic time at which they were sent."""

    now: int = MONO
    seq: int = 0
    born: int = 0
    awake: bool = False
    live: dict[str, dict[str, int]] = field(default_factory=dict)
    adapters: dict[str, str | None] = field(default_factory=dict)
    preempted: set[str] = field(default_factory=set)
    resident: set[str] = field(default_factory=set)
    late: list[StepRow] = field(default_factory=list)
    events: list[tuple[int, Event]] = field(default_factory=list)
    outputs: Counter[str] = field(default_factory=Counter)

    def send(self, event: Event) -> None:
        self.events.append((self.now, event))

    def enter(self, pick: int, ns: int) -> None:
        self.now += ns % 1000
        if not self.awake:
            self.awake = True
            self.send(Woke(self.now))
        attempt = f"gw-1:{self.born}"
        adapter = ADAPTERS[pick % 3]
        for child in range(1 + pick % 2):
            rid = f"{child}_req{self.born}"
            prompt = 1 + pick % 700
            hit = (pick // 7) % prompt if pick % 5 == 0 else 0
            self.live[rid] = {"prompt": prompt, "have": hit, "max": 1 + pick % 9, "out": 0, "first": 1}
            self.adapters[rid] = adapter
            self.send(Entered(rid, attempt, f"t{pick % 4}", adapter, prompt, self.now))
        self.born += 1

    def step(self, pick: int, ns: int) -> None:
        if not self.live:
            return self.wait(pick, ns)
        causes = (SystemCause.METER, SystemCause.INTAKE, SystemCause.UTILITY)[: pick % 4]
        marks = tuple(Mark(cause, self.now + 70_000 * n, self.now + 70_000 * (n + 1)) for n, cause in enumerate(causes))
        self.now += (pick % 4) * 70_000 + pick % 100
        start = self.now
        rows, cached, finished, loads = [], [], [], []
        for rid, state in list(self.live.items())[: 1 + pick % 6]:
            adapter = self.adapters[rid]
            if adapter is not None and (adapter not in self.resident or (pick + self.seq) % 11 == 0):
                first = adapter not in self.resident
                if first:
                    loads.append(self.span(adapter, "read", ns // 3))
                loads.append(self.span(adapter, "activate", ns // 5, first=first))
                self.resident.add(adapter)
            want = state["prompt"] + state["out"] - state["have"]
            tokens = min(want, 256)
            rows.append(StepRow(rid, tokens, state["have"]))
            if state["first"]:
                cached.append((rid, state["have"]))
                state["first"] = 0
            state["have"] += tokens
            if tokens == want:
                state["out"] += 1
                self.outputs[rid] += 1
            if state["out"] >= state["max"]:
                finished.append(rid)
                del self.live[rid]
        rows += self.late
        self.late = (
            [StepRow(rows[0].request, 1, rows[0].before + rows[0].tokens)]
            if rows[0].request in finished[pick % 5 :]
            else []
        )
        self.now += ns
        preempted, self.preempted = tuple(self.preempted), set()
        self.awake = bool(self.live)
        step = EngineStep(
            self.seq,
            start,
            self.now,
            tuple(rows),
            tuple(cached),
            tuple(finished),
            preempted,
            tuple(loads),
            self.awake,
            marks,
        )
        self.seq += 1
        self.send(step)
        if finished and pick % 2:
            self.now += 1000
            self.send(EngineStep(self.seq, self.now - 500, self.now, (), (), (), (), (), self.awake))
            self.seq += 1
        return None

    def span(self, adapter: str, kind: str, ns: int, first: bool = False) -> LoadSpan:
        start = self.now
        self.now += ns
        return LoadSpan(adapter, kind, start, self.now, first, 99)

    def abort(self, pick: int, ns: int) -> None:
        self.now += ns % 100_000
        if self.live:
            gone = list(self.live)[pick % len(self.live)]
            del self.live[gone]
            self.preempted.discard(gone)
            self.awake = bool(self.live)
            self.send(Aborted((gone,), self.now, self.awake))

    def load(self, pick: int, ns: int) -> None:
        adapter = ADAPTERS[1 + pick % 2]
        spans = [self.span(str(adapter), "read", ns % 3_000_000_000)]
        if pick % 3:
            spans.append(self.span(str(adapter), "activate", ns % 1_000_000, first=True))
        self.resident.add(str(adapter))
        self.send(Loaded(tuple(spans)))

    def preempt(self, pick: int, ns: int) -> None:
        for rid in list(self.live)[: pick % 3]:
            if not self.live[rid]["first"]:
                self.live[rid]["have"] = min(self.live[rid]["have"], 16 * (ns % 3))
                self.preempted.add(rid)

    def wait(self, pick: int, ns: int) -> None:
        self.now += ns * (1 + pick % 3)


def live(ops: list[tuple[str, int, int]]) -> Life:
    life = Life()
    for name, pick, ns in ops:
        getattr(life, name)(pick, ns)
    if life.live:
        life.now += 5
        life.send(Aborted(tuple(life.live), life.now, False))
    life.now += 7
    life.send(Bye(life.now))
    return life


def check_windows(windows: list[MeterWindow], start_ns: int, end_ns: int) -> None:
    assert [window.seq for window in windows] == list(range(len(windows)))
    at = start_ns
    for window in windows:
        assert window.start_ns == at
        window.check()
        parts = [window.idle_ns, window.unattributed_ns, *window.system_ns.values(), *window.cold_ns.values()]
        parts += [part for s in window.shares for part in (s.base_ns, s.adapter_ns, s.recompute_ns)]
        assert min(parts) >= 0
        assert window.start_ns // MINUTE_NS == max(window.end_ns - 1, window.start_ns) // MINUTE_NS
        at = window.end_ns
    assert at == end_ns


def check_attempts(meter: Accountant, windows: list[MeterWindow], attempts: set[str]) -> None:
    by_quarter: dict[str, dict[int, Counter[str]]] = {}
    for window in windows:
        for share in window.shares:
            quarter = by_quarter.setdefault(share.attempt, {}).setdefault(
                window.start_ns // QUARTER_NS * QUARTER_NS, Counter()
            )
            for name in ("base_ns", "adapter_ns", "recompute_ns", "kv_saved_base_ns", "kv_saved_adapter_ns"):
                quarter[name] += getattr(share, name)
    for key in attempts:
        measured = meter.measured(key)
        assert measured is not None
        slices = {part.start_ns: part for part in measured.slices}
        assert set(slices) == set(by_quarter.get(key, {}))
        for start, parts in by_quarter.get(key, {}).items():
            assert all(getattr(slices[start], name) == ns for name, ns in parts.items())


def check_life(ops: list[tuple[str, int, int]], start: str, lose: int) -> None:
    utc_ns = int(datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp()) * 10**9 + 987_654_321
    life = live(ops)
    meter = Accountant(DEFAULT_PROFILE, "gpu-a")
    meter.take(Hello("eng-1", "gpu-a", MONO, utc_ns))
    windows: list[MeterWindow] = []
    attempts: set[str] = set()
    computed: Counter[str] = Counter()
    refused = 0
    for i, (sent, event) in enumerate(life.events):
        if lose and i % lose == lose - 1 and not isinstance(event, Bye | Entered):
            continue
        if lose and i % 3 == 0:
            windows += meter.windows(sent)
        try:
            meter.take(event)
        except EventRefused:
            refused += 1
        if isinstance(event, Entered):
            attempts.add(event.attempt)
            computed[event.attempt] += life.outputs[event.request]
        if not lose:
            windows += meter.windows(sent)
    meter.finish(life.now)
    windows += meter.windows(life.now)

    check_windows(windows, utc_ns, utc_ns + life.now - MONO)
    check_attempts(meter, windows, attempts)
    cold: Counter[str] = Counter()
    for window in windows:
        cold.update(window.cold_ns)
    for load in meter.loads():
        cold[load.adapter] -= load.engine_ns
    assert not any(cold.values())
    owners = Counter(meter.totals.owners)
    assert sum(owners.values()) == life.now - MONO
    assert owners[TimeOwner.IDLE] == sum(window.idle_ns for window in windows)
    assert owners[TimeOwner.TENANTS] == sum(s.base_ns + s.adapter_ns for window in windows for s in window.shares)
    assert owners[TimeOwner.TENANTS] == sum(meter.totals.tenant_ns.values())
    if not lose:
        assert refused == meter.gaps == owners[TimeOwner.UNATTRIBUTED] == 0
        assert {key: m.output_tokens for key in attempts if (m := meter.measured(key))} == dict(computed)


LIVES = given(OPS, st.sampled_from(["2026-10-05T12:14:50", "2026-10-31T23:59:59", "2026-10-05T12:00:00"]))


@LIVES
@settings(max_examples=100, deadline=None)
def test_every_nanosecond_has_one_owner_and_attempts_add_up(ops: list[tuple[str, int, int]], start: str) -> None:
    check_life(ops, start, lose=0)


@LIVES
@settings(max_examples=60, deadline=None)
def test_lost_and_refused_events_break_no_sum(ops: list[tuple[str, int, int]], start: str) -> None:
    for lose in (2, 5):
        check_life(ops, start, lose)


@pytest.mark.nightly
@LIVES
@settings(max_examples=5_000, deadline=None)
def test_every_nanosecond_has_one_owner_at_length(ops: list[tuple[str, int, int]], start: str) -> None:
    check_life(ops, start, lose=0)
    check_life(ops, start, lose=3)

"""Stories: what the meter says of small, hand-made stretches of engine time."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from catalog.owners import TimeOwner
from serving.metering.accounting import Accountant, EventRefused
from serving.step_model.profile import Profile, RowWork
from serving.wire.events import Aborted, Bye, EngineStep, Entered, Event, Hello, Loaded, LoadSpan, Mark, StepRow, Woke
from telemetry.engine_time import AdapterLoad, LoadCause, MeterWindow, SystemCause

MS = 1_000_000
MONO = 77_000_000_000
PROFILE = Profile(
    a=10 * 10**9,
    b_p=10**9,
    b_d=10**9,
    c_p=0,
    c_d=0,
    any_lora=2 * 10**9,
    per_adapter=4 * 10**9,
    lora_token=10**9,
)
"""Step 10 ms, token 1 ms, any LoRA 2 ms, adapter 4 ms, LoRA token 1 ms."""


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


class Engine:
    """An engine process told by hand: times are milliseconds after its meter came up."""

    def __init__(self, start: str = "2026-10-05T12:00:10", model: Profile = PROFILE) -> None:
        self.start_ns = utc(start)
        self.meter = Accountant(model, "gpu-a")
        self.seq = 0
        self.seen: list[MeterWindow] = []
        self.take(Hello("eng-1", "gpu-a", MONO, self.start_ns))

    def take(self, event: Event) -> None:
        self.meter.take(event)

    def woke(self, at: int) -> None:
        self.take(Woke(MONO + at * MS))

    def enter(
        self,
        request: str,
        tenant: str = "acme",
        adapter: str | None = None,
        prompt: int = 4,
        attempt: str | None = None,
        at: int = 0,
    ) -> None:
        key = f"gw-1:{request}" if attempt is None else attempt
        self.take(Entered(request, key, tenant, adapter, prompt, MONO + at * MS))

    def step(
        self,
        start: int,
        end: int,
        *rows: tuple[str, int, int],
        finished: Sequence[str] = (),
        preempted: Sequence[str] = (),
        loads: Sequence[LoadSpan] = (),
        cached: Sequence[tuple[str, int]] = (),
        left: bool = True,
        seq: int | None = None,
        marks: Sequence[tuple[SystemCause, int, int]] = (),
    ) -> None:
        self.seq = self.seq if seq is None else seq
        self.take(
            EngineStep(
                seq=self.seq,
                start_ns=MONO + start * MS,
                end_ns=MONO + end * MS,
                rows=tuple(StepRow(*row) for row in rows),
                cached=tuple(cached),
                finished=tuple(finished),
                preempted=tuple(preempted),
                loads=tuple(loads),
                work_left=left,
                marks=tuple(Mark(cause, MONO + since * MS, MONO + until * MS) for cause, since, until in marks),
            )
        )
        self.seq += 1

    def finish(self, at: int) -> list[MeterWindow]:
        self.meter.finish(MONO + at * MS)
        return self.windows(at)

    def windows(self, at: int) -> list[MeterWindow]:
        new = self.meter.windows(MONO + at * MS)
        self.seen += new
        return new


def span(adapter: str, kind: str, start: int, end: int, first: bool = False, size: int = 0) -> LoadSpan:
    return LoadSpan(adapter, kind, MONO + start * MS, MONO + end * MS, first, size)


def test_time_is_idle_loop_step_and_empty_step_and_nothing_else() -> None:
    engine = Engine()
    engine.woke(100)
    engine.enter("r", at=100)
    engine.step(105, 119, ("r", 4, 0))
    engine.step(120, 131, ("r", 1, 4), finished=["r"])
    engine.step(132, 134, left=False)
    (window,) = engine.finish(400)
    assert window.idle_ns == (100 + 266) * MS
    assert window.system_ns == {"loop": (5 + 1 + 1) * MS, "empty_step": 2 * MS}
    assert window.unattributed_ns == 0
    assert window.steps == 3
    assert window.predicted_ns == (14 + 11) * MS
    (share,) = window.shares
    assert (share.attempt, share.tenant, share.adapter) == ("gw-1:r", "acme", None)
    assert (share.base_ns, share.prefill_tokens, share.decode_tokens) == (25 * MS, 4, 1)
    measured = engine.meter.measured("gw-1:r")
    assert measured is not None
    assert (measured.input_tokens, measured.cached_tokens, measured.output_tokens) == (4, 0, 2)
    assert measured.entered_ns == engine.start_ns + 100 * MS
    assert measured.first_scheduled_ns == engine.start_ns + 105 * MS
    assert (measured.method, measured.profile) == ("engine-step/1", PROFILE.hash)
    assert engine.meter.totals.owners == {
        TimeOwner.TENANTS: 25 * MS,
        TimeOwner.COLD: 0,
        TimeOwner.RECOMPUTE: 0,
        TimeOwner.SYSTEM: 9 * MS,
        TimeOwner.IDLE: 366 * MS,
        TimeOwner.UNATTRIBUTED: 0,
    }


def test_time_between_steps_has_the_cause_that_was_told_and_loads_and_idle_time_come_first() -> None:
    engine = Engine()
    engine.woke(100)
    engine.enter("r", at=100)
    engine.step(105, 119, ("r", 4, 0), marks=[(SystemCause.INTAKE, 98, 102)])
    engine.take(Loaded((span("law", "read", 123, 126),)))
    engine.step(
        130,
        141,
        ("r", 1, 4),
        finished=["r"],
        left=False,
        marks=[(SystemCause.METER, 119, 120), (SystemCause.UTILITY, 122, 128)],
    )
    (window,) = engine.finish(141)
    assert window.idle_ns == 100 * MS
    assert window.cold_ns == {"law": 3 * MS}
    assert window.system_ns == {
        "intake": 2 * MS,
        "meter": 1 * MS,
        "utility": 3 * MS,
        "loop": (3 + 2 + 2) * MS,
    }


def test_an_attempt_is_measured_when_its_last_request_left() -> None:
    engine = Engine()
    assert not engine.meter.knows("gw-1:7")
    assert engine.meter.measured("gw-1:7") is None
    engine.woke(0)
    engine.enter("0_r", prompt=6, attempt="gw-1:7")
    engine.enter("1_r", prompt=6, attempt="gw-1:7")
    engine.step(0, 16, ("0_r", 6, 0))
    engine.step(16, 29, ("0_r", 1, 6), ("1_r", 2, 4), cached=[("1_r", 4)], finished=["0_r"])
    assert engine.meter.measured("gw-1:7") is None
    engine.step(29, 40, ("1_r", 1, 6), finished=["1_r"], left=False)
    measured = engine.meter.measured("gw-1:7")
    assert measured is not None
    assert (measured.input_tokens, measured.cached_tokens, measured.output_tokens) == (6, 0, 2 + 2)
    (part,) = measured.slices
    assert part.base_ns == 40 * MS
    assert part.kv_saved_base_ns == 4 * MS
    engine.meter.forget("gw-1:7")
    assert not engine.meter.knows("gw-1:7")


def test_a_minute_cuts_a_step_and_each_piece_is_exact() -> None:
    engine = Engine("2026-10-05T12:00:59")
    engine.woke(990)
    engine.enter("a", tenant="acme")
    engine.enter("b", tenant="bolt", adapter="law", prompt=3)
    engine.step(993, 1014, ("a", 4, 0), ("b", 3, 0), finished=["a", "b"], left=False)
    first, second = engine.finish(1014)
    assert first.end_ns == second.start_ns == utc("2026-10-05T12:01:00")
    assert sum(share.base_ns + share.adapter_ns for share in first.shares) == 7 * MS
    assert sum(share.base_ns + share.adapter_ns for share in second.shares) == 14 * MS
    assert [window.steps for window in (first, second)] == [0, 1]
    assert [sum(share.prefill_tokens for share in w.shares) for w in (first, second)] == [0, 7]
    assert first.predicted_ns + second.predicted_ns == (10 + 7 + 2 + 4 + 3) * MS


@pytest.mark.parametrize("start", ["2026-10-05T12:14:59", "2026-09-30T23:59:59"])
def test_a_quarter_hour_and_the_midnight_of_a_month_cut_an_attempt(start: str) -> None:
    engine = Engine(start)
    engine.woke(990)
    engine.enter("r", adapter="law")
    engine.step(990, 1011, ("r", 4, 0), finished=["r"], left=False)
    before, after = engine.finish(1011)
    assert after.start_ns == engine.start_ns + 1000 * MS
    measured = engine.meter.measured("gw-1:r")
    assert measured is not None
    assert [part.start_ns for part in measured.slices] == [after.start_ns - 900 * 10**9, after.start_ns]
    assert [part.measured_ns for part in measured.slices] == [10 * MS, 11 * MS]
    assert [w.shares[0].base_ns for w in (before, after)] == [part.base_ns for part in measured.slices]


def test_an_abort_between_steps_ends_the_attempt_and_begins_idle_time() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("r", prompt=8)
    engine.step(0, 15, ("r", 5, 0))
    engine.take(Aborted(("r",), MONO + 20 * MS, False))
    measured = engine.meter.measured("gw-1:r")
    assert measured is not None
    assert measured.output_tokens == 0
    assert measured.slices[0].base_ns == 15 * MS
    (window,) = engine.finish(120)
    assert window.system_ns == {"loop": 5 * MS}
    assert window.idle_ns == 100 * MS


def test_a_request_that_never_got_into_a_step_has_no_time_and_no_cached_tokens() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("r", prompt=8)
    engine.take(Aborted(("r",), MONO + 3 * MS, False))
    measured = engine.meter.measured("gw-1:r")
    assert measured is not None
    assert (measured.slices, measured.cached_tokens, measured.first_scheduled_ns) == ((), None, None)


def test_work_done_again_after_a_preemption_is_nobodys() -> None:
    """The victim pays for 4 prompt tokens and 3 further ones, as if it had never been thrown out."""
    engine = Engine()
    engine.woke(0)
    engine.enter("victim")
    engine.enter("other", tenant="bolt", prompt=1)
    engine.step(0, 14, ("victim", 4, 0))
    engine.step(14, 25, ("victim", 1, 4))
    engine.step(25, 36, ("other", 1, 0), preempted=["victim"], finished=["other"])
    engine.step(36, 49, ("victim", 3, 0))
    engine.step(49, 62, ("victim", 3, 3))
    engine.step(62, 73, ("victim", 1, 6), finished=["victim"], left=False)
    (window,) = engine.finish(73)
    victim = next(share for share in window.shares if share.attempt == "gw-1:victim")
    assert victim.recompute_ns == (13 + 2) * MS
    assert victim.base_ns == (14 + 11 + 11 + 11) * MS
    assert (victim.prefill_tokens, victim.decode_tokens) == (4, 3)
    measured = engine.meter.measured("gw-1:victim")
    assert measured is not None
    assert (measured.preemptions, measured.output_tokens, measured.cached_tokens) == (1, 4, 0)
    assert engine.meter.totals.owners[TimeOwner.RECOMPUTE] == 15 * MS
    assert engine.meter.totals.tenant_ns == {"acme": 47 * MS, "bolt": 11 * MS}


def test_a_prefix_hit_saves_time_once_also_when_the_request_comes_back() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("r", adapter="law", prompt=9)
    engine.step(0, 44, ("r", 3, 6), cached=[("r", 6)])
    engine.step(44, 54, ("r", 3, 6), preempted=["r"], finished=["r"], left=False)
    measured = engine.meter.measured("gw-1:r")
    assert measured is not None
    (part,) = measured.slices
    # Twice 6 ms: the step took twice the 22 ms that were predicted, and its rows are charged that.
    assert (part.kv_saved_base_ns, part.kv_saved_adapter_ns) == (12 * MS, 12 * MS)
    assert (measured.cached_tokens, measured.output_tokens) == (6, 1)
    assert part.recompute_ns == 10 * MS


def test_a_load_inside_a_step_is_not_paid_by_those_it_held_up() -> None:
    calm, held = Engine(), Engine()
    for engine, late in ((calm, 0), (held, 30)):
        engine.woke(0)
        engine.enter("a")
        engine.enter("b", tenant="bolt", adapter="law", prompt=4)
        loads = [span("law", "read", 1, 25, size=4096), span("law", "activate", 25, 31, first=True)] if late else []
        engine.step(0, 30 + late, ("a", 4, 0), ("b", 4, 0), loads=loads, finished=["a", "b"], left=False)
    assert calm.finish(30)[0].shares == held.finish(60)[0].shares
    (window,) = held.seen
    assert window.cold_ns == {"law": 30 * MS}
    assert held.meter.loads() == [
        AdapterLoad(
            emitter="eng-1",
            seq=0,
            engine="gpu-a",
            adapter="law",
            adapter_hash=None,
            cause=LoadCause.REQUEST,
            start_ns=held.start_ns + 1 * MS,
            engine_ns=30 * MS,
            read_ns=24 * MS,
            activate_ns=6 * MS,
            size_bytes=4096,
            stalled=("gw-1:a", "gw-1:b"),
        )
    ]


def test_a_load_in_idle_time_is_cold_and_its_first_activation_may_come_later() -> None:
    engine = Engine()
    engine.meter.expect("law", LoadCause.WARM, adapter_hash="f00d", fetch_ns=5)
    engine.take(Loaded((span("law", "read", 10, 18, size=64),)))
    engine.meter.withdraw("law")
    assert engine.meter.loads() == []
    engine.woke(50)
    engine.enter("r", adapter="law", prompt=1)
    engine.step(50, 70, ("r", 1, 0), loads=[span("law", "activate", 51, 53, first=True)], finished=["r"], left=False)
    (window,) = engine.finish(70)
    assert (window.idle_ns, window.cold_ns) == (42 * MS, {"law": 10 * MS})
    (load,) = engine.meter.loads()
    assert (load.cause, load.adapter_hash, load.fetch_ns) == (LoadCause.WARM, "f00d", 5)
    assert (load.engine_ns, load.read_ns, load.activate_ns, load.stalled) == (10 * MS, 8 * MS, 2 * MS, ("gw-1:r",))


def test_a_load_never_activated_is_told_at_the_next_read_or_at_the_end() -> None:
    engine = Engine()
    engine.take(Loaded((span("law", "read", 1, 3),)))
    engine.take(Loaded((span("law", "read", 10, 14),)))
    engine.finish(20)
    assert [(load.seq, load.engine_ns, load.activate_ns) for load in engine.meter.loads()] == [
        (0, 2 * MS, None),
        (1, 4 * MS, None),
    ]


def test_moving_an_adapter_back_into_its_slot_is_paid_by_its_users() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("a")
    engine.enter("b", adapter="law")
    engine.enter("c", adapter="law")
    again = [span("law", "activate", 2, 8), span("med", "activate", 8, 9)]
    engine.step(0, 7 + 36, ("a", 4, 0), ("b", 4, 0), ("c", 4, 0), loads=again)
    (window,) = engine.finish(43)
    own = {share.attempt: share.adapter_ns for share in window.shares}
    assert own == {"gw-1:a": 0, "gw-1:b": (7 + 3) * MS, "gw-1:c": (7 + 3) * MS}
    assert window.cold_ns == {}
    assert window.system_ns == {"loop": 1 * MS}
    assert engine.meter.loads() == []


def test_what_lies_above_three_times_the_prediction_is_a_stall() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("r", prompt=5)
    engine.step(0, 1000, ("r", 5, 0), loads=[span("law", "read", 0, 100)], finished=["r"], left=False)
    (window,) = engine.finish(1000)
    assert window.cold_ns == {"law": 100 * MS}
    assert window.shares[0].base_ns == 45 * MS
    assert window.system_ns == {"stall": 855 * MS}


def test_lost_steps_leave_unattributed_time_and_are_counted() -> None:
    engine = Engine()
    engine.woke(10)
    engine.enter("r")
    engine.step(10, 20, ("r", 4, 0))
    engine.step(55, 65, ("r", 1, 6), seq=3, loads=[span("law", "read", 25, 30)])
    (window,) = engine.finish(65)
    assert engine.meter.gaps == 2
    assert window.unattributed_ns == 30 * MS
    assert window.cold_ns == {"law": 5 * MS}
    assert window.system_ns == {}


def test_rows_in_an_engine_that_never_woke_leave_the_time_before_them_unattributed() -> None:
    engine = Engine()
    engine.step(40, 50, ("stranger", 1, 7), finished=["stranger"], left=False)
    engine.step(60, 61, left=False)
    (window,) = engine.finish(100)
    assert (window.unattributed_ns, window.idle_ns) == (40 * MS, (10 + 39) * MS)
    assert [(s.attempt, s.tenant, s.decode_tokens) for s in window.shares] == [("stranger", "unknown", 1)]


def test_an_engine_that_wakes_without_having_been_empty_lost_something() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("r")
    engine.step(0, 14, ("r", 4, 0))
    engine.woke(30)
    engine.step(32, 43, ("r", 1, 4), finished=["r"], left=False)
    (window,) = engine.finish(43)
    assert window.unattributed_ns == 16 * MS
    assert window.system_ns == {"loop": 2 * MS}


def test_steps_in_flight_follow_without_a_gap_and_a_late_row_keeps_its_tenant() -> None:
    """With two steps in flight a request may stop in one and still have a row in the next."""
    engine = Engine()
    engine.woke(0)
    engine.enter("r", tenant="acme")
    engine.enter("s", tenant="bolt", prompt=1)
    engine.step(0, 20, ("r", 4, 0), ("s", 1, 0), finished=["r"])
    closed = engine.meter.measured("gw-1:r")
    engine.take(Aborted((), MONO + 25 * MS, True))
    engine.step(20, 32, ("r", 1, 4), ("s", 1, 1), finished=["s"], left=False)
    (window,) = engine.finish(32)
    assert window.system_ns == {}
    assert window.idle_ns == 0
    assert engine.meter.measured("gw-1:r") == closed
    assert closed is not None
    by_attempt = {share.attempt: share for share in window.shares}
    assert by_attempt["gw-1:r"].base_ns == closed.slices[0].base_ns
    assert (by_attempt["r"].tenant, by_attempt["r"].base_ns) == ("acme", 6 * MS)


def test_an_idle_engine_that_aborted_inside_a_step_is_not_idle_during_it() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("r")
    engine.take(Aborted(("r",), MONO + 5 * MS, False))
    engine.take(Woke(MONO + 9 * MS))
    engine.enter("s", prompt=1)
    engine.step(2, 20, ("r", 4, 0))
    engine.step(20, 31, ("s", 1, 0), finished=["s"], left=False)
    (window,) = engine.finish(31)
    assert (window.idle_ns, window.system_ns) == (0, {"loop": 2 * MS})


def test_a_request_past_the_gateway_goes_by_its_own_id() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("cmpl-9", tenant="", attempt="")
    engine.step(0, 14, ("cmpl-9", 4, 0), finished=["cmpl-9"], left=False)
    (window,) = engine.finish(14)
    assert (window.shares[0].attempt, window.shares[0].tenant) == ("cmpl-9", "unknown")


def test_windows_end_each_second_of_work_and_follow_an_open_idle_time() -> None:
    engine = Engine()
    engine.woke(100)
    engine.enter("r", prompt=1000)
    for i in range(30):
        engine.step(100 + 60 * i, 160 + 60 * i, ("r", 30, 30 * i))
    assert [(w.seq, (w.end_ns - w.start_ns) // MS) for w in engine.windows(1900)] == [(0, 1000)]
    engine.take(Aborted(("r",), MONO + 1900 * MS, False))
    assert engine.windows(2800) == []
    assert [(w.seq, w.idle_ns // MS) for w in engine.windows(3000)] == [(1, 100)]
    assert engine.windows(12_900) == []
    assert [(w.seq, w.idle_ns // MS) for w in engine.windows(13_100)] == [(2, 10_100)]
    engine.meter.expect("law", LoadCause.WARM)
    assert engine.windows(40_000) == []
    engine.meter.withdraw("law")
    assert [w.idle_ns // MS for w in engine.windows(40_000)] == [26_900]
    assert engine.meter.totals.owners[TimeOwner.IDLE] == (100 + 39_000 - 1900) * MS
    ends = [w.end_ns for w in engine.seen]
    assert [w.start_ns for w in engine.seen[1:]] == ends[:-1]


def test_events_that_go_backward_are_refused_and_their_time_is_seen_as_lost() -> None:
    engine = Engine()
    engine.woke(10)
    engine.enter("r")
    engine.step(10, 30, ("r", 4, 0))
    with pytest.raises(EventRefused, match="overlaps"):
        engine.step(29, 40, ("r", 1, 4))
    with pytest.raises(EventRefused, match="inside time that is already taken"):
        engine.take(Loaded((span("law", "read", 20, 31),)))
    with pytest.raises(EventRefused, match="ends after the step"):
        engine.step(40, 50, ("r", 1, 4), loads=[span("law", "read", 45, 51)])
    with pytest.raises(EventRefused, match="seq 0 came after seq 0"):
        engine.step(40, 50, ("r", 1, 4), seq=0)
    with pytest.raises(EventRefused, match="Woke"):
        engine.woke(29)
    with pytest.raises(EventRefused, match="Bye"):
        engine.take(Bye(MONO))
    engine.step(50, 60, ("r", 1, 5), seq=2)
    engine.take(Bye(MONO + 60 * MS))
    with pytest.raises(EventRefused, match="no Hello"):
        engine.woke(70)
    (window,) = engine.finish(100)
    assert window.unattributed_ns == 20 * MS
    assert window.end_ns == engine.start_ns + 60 * MS
    assert engine.meter.gaps == 1


def test_a_refused_step_leaves_an_announced_load_announced() -> None:
    engine = Engine()
    engine.meter.expect("law", LoadCause.WARM, adapter_hash="f00d")
    engine.woke(0)
    engine.enter("r")
    with pytest.raises(EventRefused, match="ends after the step"):
        engine.step(10, 20, ("r", 4, 0), loads=[span("law", "read", 12, 21)])
    engine.step(30, 50, ("r", 4, 0), loads=[span("law", "read", 30, 40), span("law", "activate", 40, 41, first=True)])
    (load,) = engine.meter.loads()
    assert (load.cause, load.adapter_hash, load.start_ns) == (LoadCause.WARM, "f00d", engine.start_ns + 30 * MS)


class Unsure(Profile):
    """A step model that fails for steps with a row of more than 100 tokens."""

    def predict_ns(self, rows: Iterable[RowWork]) -> int:
        works = list(rows)
        if any(row.prefill > 100 for row in works):
            raise ArithmeticError
        return super().predict_ns(works)


def test_a_step_that_cannot_be_split_is_nobodys_and_those_after_it_are_measured() -> None:
    engine = Engine("2026-10-05T12:00:59", model=Unsure(**asdict(PROFILE)))
    engine.woke(900)
    engine.enter("r", prompt=101)
    engine.enter("s")
    loads = [span("law", "read", 940, 960), span("law", "activate", 990, 1010, first=True)]
    with pytest.raises(ArithmeticError):
        engine.step(950, 1050, ("r", 101, 0), loads=loads, finished=["r"])
    engine.step(1050, 1064, ("s", 4, 0), finished=["s"], left=False, seq=1)
    before, after = engine.finish(1070)
    assert (before.idle_ns, before.system_ns, before.cold_ns) == (900 * MS, {"loop": 40 * MS}, {"law": 30 * MS})
    assert (before.unattributed_ns, after.unattributed_ns) == (30 * MS, 40 * MS)
    assert (after.cold_ns, after.idle_ns, [share.base_ns for share in after.shares]) == (
        {"law": 10 * MS},
        6 * MS,
        [14 * MS],
    )
    assert [load.engine_ns for load in engine.meter.loads()] == [40 * MS]
    measured = engine.meter.measured("gw-1:r")
    assert measured is not None
    assert measured.slices == ()
    assert engine.meter.gaps == 0


def test_a_load_without_length_is_told_and_is_in_no_window() -> None:
    engine = Engine()
    engine.take(Loaded((span("law", "read", 10, 10), span("law", "activate", 10, 10, first=True))))
    (window,) = engine.finish(20)
    assert (window.idle_ns, window.cold_ns) == (20 * MS, {})
    assert [(load.engine_ns, load.read_ns, load.activate_ns) for load in engine.meter.loads()] == [(0, 0, 0)]


def test_a_new_process_begins_its_own_windows_and_ends_what_the_old_one_held() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("r")
    engine.step(0, 14, ("r", 4, 0))
    engine.take(Hello("eng-2", "gpu-a", MONO + 500 * MS, engine.start_ns + 501 * MS))
    assert engine.meter.measured("gw-1:r") is not None
    old, new = engine.finish(600)
    assert (old.emitter, old.seq, old.end_ns) == ("eng-1", 0, engine.start_ns + 14 * MS)
    assert (new.emitter, new.seq, new.start_ns, new.idle_ns) == ("eng-2", 0, engine.start_ns + 501 * MS, 100 * MS)


def test_figures_nobody_asks_for_are_dropped_and_a_forgotten_attempt_keeps_its_name_while_it_runs() -> None:
    engine = Engine()
    engine.woke(0)
    engine.enter("r")
    engine.enter("s", prompt=9)
    engine.step(0, 18, ("r", 4, 0), ("s", 4, 0), finished=["r"])
    engine.meter.forget("gw-1:s")
    engine.step(18, 33, ("s", 5, 4), finished=["s"], left=False)
    assert not engine.meter.knows("gw-1:s")
    assert engine.meter.knows("gw-1:r")
    windows = engine.windows(600_100)
    assert not engine.meter.knows("gw-1:r")
    assert {share.attempt for share in windows[0].shares} == {"gw-1:r", "gw-1:s"}

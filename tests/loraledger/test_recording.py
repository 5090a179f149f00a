"""A recording moved in time is the same facts at another time, under other identities."""

from __future__ import annotations

from pathlib import Path

from catalog.durations import QUARTER_NS
from loraledger.recording import first_instant_ns, read_recording, shift, write_recording
from telemetry.engine_time import EngineSession, MeterWindow
from telemetry.names import Attr, EventName
from telemetry.otlp_decode import parse_line
from telemetry.usage import UsageRecord

RECORDED = Path(__file__).parents[2] / "examples" / "recorded-month.jsonl.gz"
START = 1_760_000_000_000_000_000


def _facts(lines: list[str]) -> tuple[list[UsageRecord], list[MeterWindow], list[EngineSession], set[str]]:
    records, windows, sessions, traces = [], [], [], set()
    for line in lines:
        batch = parse_line(line)
        for span in batch.spans:
            traces.add(span.trace_id)
            if text := span.span_attributes.get(Attr.USAGE_RECORD):
                records.append(UsageRecord.from_json(text))
        windows += [MeterWindow.from_json(e.body) for e in batch.events if e.name == EventName.WINDOW]
        sessions += [EngineSession.from_json(e.body) for e in batch.events if e.name == EventName.SESSION]
    return records, windows, sessions, traces


def test_only_times_and_identities_change() -> None:
    lines = read_recording(RECORDED)
    moved = list(shift(lines, START, "2025-10"))
    offset = first_instant_ns(moved) - first_instant_ns(lines)
    assert offset % QUARTER_NS == 0
    assert abs(first_instant_ns(moved) - START) < QUARTER_NS
    (old, old_windows, _, old_traces), (new, windows, sessions, traces) = _facts(lines), _facts(moved)
    assert len(old) == len(new) > 100
    assert traces.isdisjoint(old_traces)
    for before, after in zip(old, new, strict=True):
        assert after.problems() == []
        assert after.arrival_ns == before.arrival_ns + offset
        assert after.identity != before.identity
        assert after.request_id != before.request_id
        assert [s.measured_ns for s in after.slices or ()] == [s.measured_ns for s in before.slices or ()]
        assert (after.tenant, after.input_tokens, after.status) == (before.tenant, before.input_tokens, before.status)
    for before_window, window in zip(old_windows, windows, strict=True):
        window.check()
        assert window.start_ns == before_window.start_ns + offset
        assert window.emitter != before_window.emitter
    known = {record.attempt_key for record in new}
    assert {share.attempt for window in windows for share in window.shares} <= known
    assert len({session.session for session in sessions}) == 1


def test_two_months_of_one_recording_are_different_facts() -> None:
    lines = read_recording(RECORDED)[:200]
    one, two = (_facts(list(shift(lines, START, label))) for label in ("2025-10", "2025-11"))
    assert one[3].isdisjoint(two[3])
    assert {r.identity for r in one[0]}.isdisjoint({r.identity for r in two[0]})


def test_writing_the_same_lines_gives_the_same_bytes(tmp_path: Path) -> None:
    lines = read_recording(RECORDED)[:20]
    for name in ("a", "b"):
        write_recording(lines, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_recording(tmp_path / "a") == lines

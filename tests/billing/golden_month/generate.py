"""Writes the golden month's raw spool: `python generate.py DIRECTORY`. The same lines every time.

Each attempt here stands for hours of small ones, so that cents show. Times in ms are engine time of one engine.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from catalog.durations import MINUTE_NS, QUARTER_NS
from telemetry.engine_time import AdapterLoad, EngineSession, LoadCause, MeterWindow, Opened, SessionEvent, Share
from telemetry.names import Attr, EventName
from telemetry.otlp_encode import event_line, span_line
from telemetry.usage import ErrorType, Slice, Status, UsageRecord

MS = 1_000_000
S = 1000 * MS
START_UP_NS = 20 * S
GPUS = {"e0": ("h200", 8), "e1": ("l40s", 4)}
ERRORS = {Status.SERVER_ERROR: ErrorType.ENGINE_ERROR, Status.CLIENT_ABORT: ErrorType.CLIENT_ABORT}
METHOD = ("engine-step/1", "0123456789ab")
Kind = Literal["idle", "system", "cold", "base", "lora", "recompute"]


@dataclass(frozen=True)
class Attempt:
    """At `at` (UTC, 2026). `load`: the adapter is loaded first, which takes that long. `known`: the spool file of its record."""

    id: str
    at: str
    tenant: str
    adapter: str | None
    base: int
    lora: int
    kv: tuple[int, int]
    tokens: tuple[int, int, int]
    status: Status = Status.OK
    load: int = 0
    recompute: int = 0
    known: str = ""


@dataclass(frozen=True)
class Run:
    """One engine process, rented from `start` to `stop`, and what it worked on, one after the other."""

    engine: str
    start: str
    stop: str
    attempts: tuple[Attempt, ...]
    file: str = "october"


ICD, CODE, VOICE = "icd10-coder", "code-complete", "brand-voice"
RUNS = (
    Run("e0", "09-30T18:26", "09-30T18:50", (  # Kolkata's October begins at 18:30
        Attempt("f1", "09-30T18:30", "forge", CODE, 500_004, 250_002, (0, 0), (400_000, 0, 900_000)),)),
    Run("e0", "09-30T21:45", "09-30T22:15", (  # Berlin's at 22:00: c1 is September, c2 is cut in two
        Attempt("c1", "09-30T21:50", "clinic", ICD, 400_000, 90_000, (9_000, 0), (10_000, 0, 5_000)),
        Attempt("c2", "09-30T21:59:30", "clinic", ICD, 123_456, 7_893, (1_500, 300), (900_000, 10_000, 500_000)))),
    Run("e0", "10-10T11:57", "10-10T12:12", (
        Attempt("s1", "10-10T12:00", "shop", VOICE, 100_000, 20_000, (5_000, 0), (2_345_678, 345_678, 1_234_567), load=800),
        Attempt("s2", "10-10T12:01", "shop", VOICE, 1_000, 100, (0, 0), (50_000, 0, 777), Status.TIMEOUT))),
    Run("e0", "10-15T23:45", "10-16T00:15", (  # at midnight the GPU-hour becomes dearer
        Attempt("c3", "10-15T23:50", "clinic", ICD, 200_007, 15_003, (25_000, 2_000), (700_000, 90_000, 400_000), load=1_500),
        Attempt("c4", "10-16T00:05", "clinic", None, 300_009, 0, (36_000, 0), (800_000, 80_000, 300_000)))),
    Run("e0", "10-20T09:57", "10-20T10:21", (
        Attempt("f2", "10-20T10:00", "forge", CODE, 333_333, 99_999, (3_300, 300), (300_000, 30_000, 800_000), load=4_000, recompute=5_000),
        Attempt("f3", "10-20T10:01", "forge", CODE, 222_222, 66_666, (0, 0), (200_000, 0, 700_000)),  # disputed later
        Attempt("c9", "10-20T10:02", "clinic", CODE, 11_001, 2_002, (0, 0), (20_000, 0, 9_000)))),
    Run("e0", "10-25T00:25", "10-25T00:40", (  # the hour that comes twice in Berlin
        Attempt("c5", "10-25T00:30", "clinic", ICD, 50_001, 2_001, (0, 0), (50_000, 0, 2_000), Status.CLIENT_ABORT),)),
    Run("e0", "10-25T01:25", "10-25T01:40", (
        Attempt("c6", "10-25T01:30", "clinic", ICD, 60_003, 3_003, (0, 0), (60_000, 0, 0), Status.SERVER_ERROR),
        Attempt("c10", "10-25T01:35", "clinic", ICD, 20_000, 1_000, (0, 0), (0, 0, 0), Status.LOST))),
    Run("e0", "10-31T18:42", "10-31T19:15", (  # November in Kolkata, October elsewhere
        Attempt("f4", "10-31T18:45", "forge", CODE, 900_000, 10_000, (0, 0), (1_000_000, 0, 1_400_000)),)),
    Run("e0", "10-31T22:45", "10-31T23:09", (
        Attempt("c7", "10-31T22:50", "clinic", None, 111_111, 0, (9_000, 0), (90_000, 9_000, 70_000)),
        Attempt("c8", "10-31T22:55", "clinic", ICD, 70_002, 6_003, (0, 0), (80_000, 0, 90_000), known="late"),
        Attempt("r1", "10-31T22:58", "clinic", None, 0, 0, (0, 0), (0, 0, 0), Status.REJECTED))),
    Run("e1", "10-28T09:00", "10-28T09:21", (  # a second site, whose spool came three weeks late
        Attempt("f5", "10-28T09:01", "forge", CODE, 180_003, 30_003, (0, 0), (150_000, 0, 300_000)),
        Attempt("s3", "10-28T09:02", "shop", VOICE, 90_000, 9_000, (0, 0), (1_000_000, 200_000, 600_000))), "late"),
    Run("e0", "11-15T09:57", "11-15T10:21", (
        Attempt("n1", "11-15T10:00", "clinic", ICD, 240_000, 30_000, (12_000, 1_200), (600_000, 60_000, 350_000), load=1_200),
        Attempt("n2", "11-15T10:06", "shop", VOICE, 60_000, 12_000, (0, 0), (1_500_000, 0, 800_000))), "november"),
)  # fmt: skip


@dataclass
class Meter:
    """The stream of one engine process: what it did, piece by piece, written as windows cut at UTC minutes."""

    run: Run
    name: str
    at: int
    pieces: list[tuple[int, int, Kind, str, Attempt | None]] = field(default_factory=list)

    def spend(self, ns: int, kind: Kind, key: str = "", attempt: Attempt | None = None) -> None:
        while ns:
            cut = min(ns, MINUTE_NS - self.at % MINUTE_NS)
            self.pieces.append((self.at, cut, kind, key, attempt))
            self.at, ns = self.at + cut, ns - cut

    def windows(self) -> Iterator[MeterWindow]:
        minutes = sorted({start - start % MINUTE_NS for start, *_ in self.pieces})
        for seq, minute in enumerate(minutes):
            here = [piece for piece in self.pieces if minute <= piece[0] < minute + MINUTE_NS]
            spent = {kind: sum(p[1] for p in here if p[2] == kind) for kind in ("idle", "system")}
            cold = {str(p[4].adapter): 0 for p in here if p[2] == "cold" and p[4]}
            for _, ns, kind, _, attempt in here:
                if kind == "cold" and attempt:
                    cold[str(attempt.adapter)] += ns
            keys = {p[3]: p[4] for p in here if p[4] and p[2] in ("base", "lora", "recompute")}
            shares = tuple(self._share(key, one, here) for key, one in keys.items())
            yield MeterWindow(
                self.name, seq, self.run.engine, here[0][0], here[-1][0] + here[-1][1], 10 * len(shares), spent["idle"],
                {"loop": spent["system"]} if spent["system"] else {}, cold, 0, shares,
                sum(s.base_ns + s.adapter_ns for s in shares), *METHOD,
            )  # fmt: skip

    def _share(self, key: str, attempt: Attempt, here: list[tuple[int, int, Kind, str, Attempt | None]]) -> Share:
        base, lora, again = (
            sum(p[1] for p in here if p[3] == key and p[2] == kind) for kind in ("base", "lora", "recompute")
        )
        return Share(key, attempt.tenant, attempt.adapter, base, lora, again, 64, 64)

    def slices(self, key: str, kv: tuple[int, int]) -> tuple[Slice, ...]:
        """The attempt's time by quarter hour; what the cache saved is in the first."""
        mine = [piece for piece in self.pieces if piece[3] == key and piece[2] in ("base", "lora", "recompute")]
        found: list[Slice] = []
        for quarter in sorted({start - start % QUARTER_NS for start, *_ in mine}):
            here = [piece for piece in mine if quarter <= piece[0] < quarter + QUARTER_NS]
            base, lora, again = (sum(p[1] for p in here if p[2] == kind) for kind in ("base", "lora", "recompute"))
            saved = (0, 0) if found else (kv[0] * MS, kv[1] * MS)
            found.append(Slice(quarter, base, lora, again, *saved))
        return tuple(found)


@dataclass
class Spool:
    """Lines by file, each with its instant; gateways count their attempts."""

    lines: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    seqs: dict[str, int] = field(default_factory=dict)

    def event(
        self, file: str, name: str, value: Opened | MeterWindow | AdapterLoad | EngineSession, at_ns: int
    ) -> None:
        self.put(file, at_ns, event_line(name, value.to_json(), at_ns, None, value.emitter, value.seq))

    def put(self, file: str, at_ns: int, line: str) -> None:
        self.lines.setdefault(file, []).append((at_ns, line))

    def play(self, run: Run, number: int) -> None:
        """Everything that one run leaves behind."""
        meter, gpu_type, gpus = f"{run.engine}-run-{number}", *GPUS[run.engine]
        start, stop = ns_of(run.start), ns_of(run.stop)
        stream = Meter(run, meter, start + START_UP_NS)
        moments = ((SessionEvent.STARTED, start), (SessionEvent.UP, stream.at), (SessionEvent.STOPPED, stop))
        for seq, (event, at_ns) in enumerate(moments):
            session = EngineSession(meter, seq, run.engine, meter, event, at_ns, gpu_type, gpus)
            self.event(run.file, EventName.SESSION, session, at_ns)
        loads = 0
        for attempt in run.attempts:
            record = self.open(run, attempt)
            if attempt.status is not Status.REJECTED:
                stream.spend(max(ns_of(attempt.at) - stream.at, 0), "idle")
                stream.spend(3 * MS, "system")
                if attempt.load:
                    cause, ns, name = LoadCause.REQUEST, attempt.load * MS, str(attempt.adapter)
                    load = AdapterLoad(meter, loads, run.engine, name, digest(name), cause, stream.at, ns)
                    self.event(run.file, EventName.LOAD, load, stream.at + ns)
                    stream.spend(ns, "cold", attempt=attempt)
                    loads += 1
                begun = stream.at
                for ms, kind in ((attempt.base, "base"), (attempt.lora, "lora"), (attempt.recompute, "recompute")):
                    stream.spend(ms * MS, kind, record.attempt_key, attempt)  # type: ignore[arg-type]
                record = replace(record, first_token_ns=begun + 100 * MS, queue_ns=begun - record.arrival_ns)
            if attempt.status is not Status.LOST:
                self.close(run, attempt, record, stream)
        stream.spend(stop - stream.at, "idle")
        for window in stream.windows():
            self.event(run.file, EventName.WINDOW, window, window.end_ns)

    def open(self, run: Run, attempt: Attempt) -> UsageRecord:
        gateway, at_ns = f"gw-{run.engine}", ns_of(attempt.at)
        seq = self.seqs[gateway] = self.seqs.get(gateway, -1) + 1
        engine = None if attempt.status is Status.REJECTED else run.engine
        request, trace = f"req-{attempt.id}", digest(attempt.id)[:32]
        opened = Opened(gateway, seq, request, attempt.tenant, at_ns, trace, attempt.adapter, engine)
        self.event(run.file, EventName.OPENED, opened, at_ns)
        return UsageRecord(
            gateway, seq, request, attempt.tenant, at_ns, None, attempt.status, trace_id=trace, adapter=attempt.adapter,
            adapter_hash=digest(attempt.adapter) if attempt.adapter else None, base_model="llama-70b", engine=engine,
        )  # fmt: skip

    def close(self, run: Run, attempt: Attempt, record: UsageRecord, meter: Meter) -> None:
        """The root span with the record, written when the attempt ended."""
        ran = attempt.status is not Status.REJECTED
        gpu_type, gpus = GPUS[run.engine]
        end = meter.at if ran else record.arrival_ns + 2 * MS
        inputs, cached, out = attempt.tokens
        record = replace(
            record, finished_ns=end, gpu_type=gpu_type if ran else None, gpu_count=gpus if ran else None,
            route_policy="5e1f0c2d9a7b", route_rule="explicit" if attempt.adapter else "base", route_reason="hit",
            admitted_ns=record.arrival_ns + MS if ran else None, error_type=ERRORS.get(attempt.status),
            http_status={Status.OK: 200, Status.REJECTED: 429}.get(attempt.status), input_tokens=inputs if ran else None,
            cached_tokens=cached if ran else None, output_tokens_computed=out, output_tokens_delivered=out,
            preemptions=int(attempt.recompute > 0), slices=meter.slices(record.attempt_key, attempt.kv) if ran else (),
            method=METHOD[0] if ran else None, profile=METHOD[1] if ran else None,
        )  # fmt: skip
        attributes = {Attr.TENANT: record.tenant, Attr.USAGE_RECORD: record.to_json()}
        span = digest(record.attempt_key)[:16]
        name, trace, arrived = "POST /v1/chat/completions", str(record.trace_id), record.arrival_ns
        line = span_line(trace, span, "", name, arrived, end, attributes, {"service.name": "loraledger"})
        self.put(attempt.known or run.file, end, line)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def ns_of(at: str) -> int:
    return int(datetime.fromisoformat(f"2026-{at}+00:00").timestamp()) * S


def files() -> dict[str, str]:
    """Each file's text: a line that a crash tore and that was then written again, lines twice, and a file sent again."""
    spool = Spool()
    for number, run in enumerate(sorted(RUNS, key=lambda run: run.start), start=1):
        spool.play(run, number)
    written = {file: [line for _, line in sorted(lines)] for file, lines in spool.lines.items()}
    october, late = written["october"], written["late"]
    records = [number for number, line in enumerate(october) if "resourceSpans" in line]
    torn = october[records[4]][:700]
    october.insert(records[4], torn)
    october += [october[records[2]], october[10], october[11]]
    late += [october[records[-1] + 1], october[-20]]
    written["october-again"] = october[40:55]
    return {f"{file}.jsonl": "".join(line + "\n" for line in lines) for file, lines in written.items()}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for file, text in files().items():
        (target / file).write_text(text, encoding="ascii")

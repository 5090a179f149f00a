"""What many tests stand on: an instant, a catalog, a ledger on the real engine, and a builder of what a gateway would have written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from billing.store.clickhouse import Ledger
from billing.store.migrate import migrate
from catalog.load import load
from catalog.model import Catalog
from telemetry.engine_time import (
    MINUTE_NS,
    AdapterLoad,
    EngineSession,
    LoadCause,
    MeterWindow,
    Opened,
    SessionEvent,
    Share,
)
from telemetry.names import Attr, EventName
from telemetry.otlp import event_line, span_line
from telemetry.usage import QUARTER_NS, Slice, Status, UsageRecord

EXAMPLE = Path(__file__).parent.parent / "examples" / "catalog.yaml"
SECOND_NS = 1_000_000_000


@dataclass
class Traffic:
    """Writes the spool lines of one engine and one gateway: sessions, windows, attempts. All instants are UTC nanoseconds."""

    engine: str = "cpu-0"
    gateway: str = "gw-0123456789ab"
    meter: str = "meter-1"
    gpu_type: str = "demo-cpu"
    gpu_count: int = 1
    lines: list[str] = field(default_factory=list)
    seq: int = 0
    windows: int = 0
    sessions: int = 0
    loads: int = 0

    def event(self, name: str, value: Opened | MeterWindow | AdapterLoad | EngineSession, at_ns: int) -> None:
        self.lines.append(event_line(name, value.to_json(), at_ns, None, value.emitter, value.seq))

    def session(self, event: SessionEvent, at_ns: int, session: str = "run-1") -> None:
        value = EngineSession(
            self.meter, self.sessions, self.engine, session, event, at_ns, self.gpu_type, self.gpu_count
        )
        self.sessions += 1
        self.event(EventName.SESSION, value, at_ns)

    def window(
        self,
        start_ns: int,
        end_ns: int,
        shares: tuple[Share, ...] = (),
        cold: dict[str, int] | None = None,
        system_ns: int = 0,
    ) -> MeterWindow:
        """A window whose idle time is what the other parts leave, as a meter would have measured it."""
        spent = sum(s.base_ns + s.adapter_ns + s.recompute_ns for s in shares) + sum((cold or {}).values()) + system_ns
        value = MeterWindow(
            self.meter,
            self.windows,
            self.engine,
            start_ns,
            end_ns,
            len(shares),
            end_ns - start_ns - spent,
            {"loop": system_ns} if system_ns else {},
            cold or {},
            shares=shares,
            predicted_ns=spent,
        )
        self.windows += 1
        self.event(EventName.WINDOW, value, end_ns)
        return value

    def idle(self, start_ns: int, end_ns: int) -> None:
        """Windows of nothing, cut at minutes."""
        while start_ns < end_ns:
            cut = min(end_ns, start_ns - start_ns % MINUTE_NS + MINUTE_NS)
            self.window(start_ns, cut)
            start_ns = cut

    def load(self, adapter: str, start_ns: int, engine_ns: int) -> None:
        value = AdapterLoad(
            self.meter, self.loads, self.engine, adapter, "ab" * 32, LoadCause.REQUEST, start_ns, engine_ns
        )
        self.loads += 1
        self.event(EventName.LOAD, value, start_ns + engine_ns)

    def open(
        self, tenant: str, arrival_ns: int, adapter: str | None = None, engine: str | None = "cpu-0"
    ) -> UsageRecord:
        """An attempt enters; what comes back is its record so far, with status lost."""
        seq, self.seq = self.seq, self.seq + 1
        request, trace = f"{seq:032x}", f"{seq + 1:032x}"
        self.event(
            EventName.OPENED, Opened(self.gateway, seq, request, tenant, arrival_ns, trace, adapter, engine), arrival_ns
        )
        return UsageRecord(
            self.gateway,
            seq,
            request,
            tenant,
            arrival_ns,
            None,
            Status.LOST,
            trace_id=trace,
            adapter=adapter,
            engine=engine,
        )

    def share(self, record: UsageRecord, base_ns: int, adapter_ns: int = 0, recompute_ns: int = 0) -> Share:
        return Share(
            record.attempt_key,
            record.tenant,
            record.adapter,
            base_ns,
            adapter_ns,
            recompute_ns,
            prefill_tokens=10,
            decode_tokens=5,
        )

    def close(self, record: UsageRecord) -> UsageRecord:
        """The attempt's root span, with its record."""
        assert record.finished_ns is not None
        attributes = {Attr.TENANT: record.tenant, Attr.USAGE_RECORD: record.to_json()}
        name = "POST /v1/chat/completions"
        resource = {"service.name": "loraledger"}
        self.lines.append(
            span_line(
                record.trace_id or "f" * 32,
                f"{record.seq + 1:016x}",
                "",
                name,
                record.arrival_ns,
                record.finished_ns,
                attributes,
                resource,
            )
        )
        return record

    def serve(
        self,
        tenant: str,
        start_ns: int,
        base_ns: int,
        adapter_ns: int = 0,
        *,
        adapter: str | None = None,
        length_ns: int = SECOND_NS,
        status: Status = Status.OK,
        tokens: tuple[int, int, int] = (100, 20, 10),
        cold_ns: int = 0,
        system_ns: int = 0,
        recompute_ns: int = 0,
        saved: tuple[int, int] = (0, 0),
    ) -> UsageRecord:
        """One whole attempt in one window [start, start + length): opened, measured, closed at the window's end."""
        opened = self.open(tenant, start_ns, adapter)
        cold = {adapter: cold_ns} if adapter and cold_ns else None
        self.window(
            start_ns,
            start_ns + length_ns,
            (self.share(opened, base_ns, adapter_ns, recompute_ns),),
            cold,
            system_ns,
        )
        if adapter and cold_ns:
            self.load(adapter, start_ns, cold_ns)
        part = Slice(start_ns - start_ns % QUARTER_NS, base_ns, adapter_ns, recompute_ns, *saved)
        return self.close(
            replace(
                opened,
                finished_ns=start_ns + length_ns,
                status=status,
                input_tokens=tokens[0],
                cached_tokens=tokens[1],
                output_tokens_computed=tokens[2],
                output_tokens_delivered=tokens[2],
                gpu_type=self.gpu_type,
                gpu_count=self.gpu_count,
                slices=(part,),
                method="engine-step/1",
                profile="0123456789ab",
            )
        )

    def write(self, directory: Path, name: str = "spool-0000000000000000001-1.jsonl") -> Path:
        """All lines so far, as one spool file."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / name
        path.write_text("".join(line + "\n" for line in self.lines), encoding="utf-8")
        return path


@pytest.fixture
def ns() -> Callable[..., int]:
    """UTC nanoseconds of a date: `ns(2026, 10, 1, 12, 30)`."""

    def of(*parts: int) -> int:
        return int(datetime(*parts, tzinfo=UTC).timestamp()) * SECOND_NS  # type: ignore[arg-type, misc]

    return of


@pytest.fixture
def now() -> datetime:
    """After the months that tests talk about."""
    return datetime(2026, 11, 10, 8, tzinfo=UTC)


@pytest.fixture(scope="session")
def example() -> Catalog:
    return load(EXAMPLE)


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed, empty ledger with the whole schema, to be copied: quicker than making each anew."""
    path = tmp_path_factory.mktemp("empty") / "ledger"
    with Ledger.open(f"chdb://{path}") as opened:
        migrate(opened, datetime(2026, 10, 1, tzinfo=UTC))
    return path


@pytest.fixture
def ledger(tmp_path: Path, empty_ledger: Path) -> Iterator[Ledger]:
    """An empty ledger with the whole schema, in a directory of this test."""
    shutil.copytree(empty_ledger, tmp_path / "ledger", symlinks=True)
    with Ledger.open(f"chdb://{tmp_path / 'ledger'}") as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_ledger(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Iterator[Ledger]:
    """One ledger for all tests of a module, none of which changes what the others see.

    A process has one embedded engine: a module takes this fixture or `ledger`, never both.
    """
    path = tmp_path_factory.mktemp("shared") / "ledger"
    shutil.copytree(empty_ledger, path, symlinks=True)
    with Ledger.open(f"chdb://{path}") as opened:
        yield opened

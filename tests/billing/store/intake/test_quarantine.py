"""What waits in quarantine can be tried again, or given up with a reason; nothing is ever thrown away."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.store.clickhouse import Ledger
from billing.store.errors import EntryMissing, ReasonMissing
from billing.store.finance import waiting
from billing.store.intake.ingest import ingest, retry
from billing.store.intake.quarantine import ACCEPTED, Entry, chosen, listed, put, release
from billing.store.invoice.invoices import close_month
from catalog.model import Catalog
from telemetry.engine_time import MeterWindow
from telemetry.usage import Status, UsageRecord

S = 1_000_000_000


@pytest.fixture
def spool(traffic: Any, ns: Callable[..., int], tmp_path: Path) -> Path:
    """A line that is no JSON, a window with a field of a later version, and a record of a tenant that is not known yet."""
    t0 = ns(2026, 10, 5, 10)
    traffic.serve("campus", t0, 1000)
    newer = json.loads(traffic.lines[1])
    record = newer["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    record["body"]["stringValue"] = json.dumps(json.loads(record["body"]["stringValue"]) | {"colour": "red"})
    traffic.lines[1] = json.dumps(newer)
    ghost = UsageRecord(
        "crm", 0, "req-9", "ghost", t0, t0 + S, Status.OK, input_tokens=9, output_tokens_delivered=4, slices=()
    )
    traffic.lines += ["torn {", ghost.to_json(), replace(ghost, seq=1).to_json()[:-1] + ',"colour":"red"}']
    return traffic.write(tmp_path / "spool")  # type: ignore[no-any-return]


def test_a_released_entry_is_kept_with_its_reason_and_holds_up_nothing(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime, ns: Callable[..., int]
) -> None:
    ingest(ledger, [spool], example, now)
    torn, other = (one for one in listed(ledger) if one.kind == "line" and one.emitter in ("", "crm"))
    torn, other = (torn, other) if "not JSON" in torn.reason else (other, torn)
    assert (torn.event_time, torn.source.split(",")[0], torn.resolution) == (None, spool.name, "")
    held = close_month(ledger, "2026-09", example, now)
    assert held.blocked == {}, "what names nobody holds up nobody"
    assert "`loraledger quarantine` lists it" in held.blocks[0].advice
    with pytest.raises(ReasonMissing):
        release(ledger, [torn.id], "  ", now)
    with pytest.raises(EntryMissing, match="no quarantine entry has that id"):
        release(ledger, [torn.id, "nothing"], "torn", now)
    assert len(listed(ledger)) == 4

    assert release(ledger, [torn.id[:8], torn.id], "Torn by a crash.", now) == [torn]
    assert release(ledger, [torn.id], "again", now) == []
    assert [entry.resolution for entry in chosen(ledger, [torn.id])] == ["released: Torn by a crash."]
    assert len(listed(ledger, resolved=True)) == 4
    assert len(listed(ledger)) == 3
    release(ledger, [other.id], "Another system's.", now)
    assert waiting(ledger, ns(2026, 9, 1), ns(2026, 9, 2)) == []

    spool.with_name("again.jsonl").write_text("torn {\n" + spool.read_text())
    assert ingest(ledger, [spool.with_name("again.jsonl")], example, now).quarantined == 0
    assert len(listed(ledger)) == 2


def test_a_beginning_names_an_entry_only_when_no_other_begins_so(ledger: Ledger, now: datetime) -> None:
    assert put(ledger, [Entry("line", "a.jsonl", "not JSON", str(n)) for n in range(17)], now) == 17
    first = [entry.id[0] for entry in listed(ledger)]
    twice = next(digit for digit in first if first.count(digit) > 1)
    with pytest.raises(EntryMissing, match="entries begin so; give more of the id"):
        chosen(ledger, [twice])
    with pytest.raises(EntryMissing, match="no quarantine entry"):
        chosen(ledger, [""])


def test_what_can_be_read_or_booked_now_is_taken_and_the_rest_waits(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(ledger, [spool], example, now)
    before = listed(ledger)
    assert retry(ledger, [], example, now) == ([], before)
    assert listed(ledger) == before

    ghost = example.tenants[0].model_copy(update={"id": "ghost"})
    known = example.model_copy(update={"tenants": (*example.tenants, ghost)})
    for value in (MeterWindow, UsageRecord):
        upgrade(monkeypatch, value)
    taken, still = retry(ledger, [], known, now)
    assert still == [one for one in before if "not JSON" in one.reason]
    assert len(taken) == 3
    assert {one.resolution for one in chosen(ledger, [one.id for one in taken])} == {ACCEPTED}
    assert ledger.ask("SELECT seq FROM usage WHERE tenant = 'ghost' ORDER BY seq").rows == [(0,), (1,)]
    assert ledger.ask("SELECT seq FROM ledger_events WHERE name = 'loraledger.meter.window'").rows == [(0,)]
    assert retry(ledger, [taken[0].id], known, now) == ([], [])


def upgrade(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """As if this program were of the version that knows the field."""
    read = value.from_json

    def later(text: str) -> Any:
        return read(
            json.dumps({k: v for k, v in json.loads(text).items() if k != "colour"}) if "colour" in text else text
        )

    monkeypatch.setattr(value, "from_json", later)

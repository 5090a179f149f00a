from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.store.clickhouse import Ledger
from billing.store.intake import sorting, sources
from billing.store.intake.ingest import IngestReport, SourceMissing, ingest
from catalog.model import Catalog
from telemetry.usage import Status, UsageRecord

S = 1_000_000_000


def contents(ledger: Ledger) -> list[Any]:
    tables = ("otel_traces", "ledger_event_versions", "usage_versions", "quarantine_versions")
    return [ledger.ask(f"SELECT * FROM {table} ORDER BY ALL").rows for table in tables]


def plain(**changes: Any) -> UsageRecord:
    start = 1_790_000_000 * S
    record = UsageRecord(
        "crm", 1, "req-1", "bank", start, start + S, Status.OK, input_tokens=9, output_tokens_delivered=4, slices=()
    )
    return replace(record, **changes)


@pytest.fixture
def spool(traffic: Any, ns: Callable[..., int], tmp_path: Path) -> Path:
    t0 = ns(2026, 10, 5, 10)
    for i in range(3):
        traffic.serve("campus", t0 + i * S, 1000)
    return traffic.write(tmp_path / "spool")  # type: ignore[no-any-return]


def test_a_second_run_takes_nothing_and_changes_nothing(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime
) -> None:
    first = ingest(ledger, [spool.parent], example, now)
    before = contents(ledger)
    again = ingest(ledger, [spool.parent, spool], example, now)
    assert first == IngestReport(files=1, lines=9, spans=3, events=6, records=3)
    assert again == IngestReport(files=2)
    assert contents(ledger) == before


def test_a_copy_under_another_name_is_the_same_file(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime
) -> None:
    copy = spool.with_name("copy.jsonl")
    copy.write_bytes(spool.read_bytes())
    assert ingest(ledger, [copy], example, now).lines == 9
    assert ingest(ledger, [spool], example, now).lines == 0


def test_the_same_records_in_another_file_are_duplicates(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime
) -> None:
    other = spool.with_name("other.jsonl")
    other.write_text("".join(reversed(spool.read_text().splitlines(keepends=True))))
    ingest(ledger, [spool], example, now)
    before = contents(ledger)
    assert ingest(ledger, [other], example, now).duplicates == 9
    assert contents(ledger) == before


def test_a_file_that_shares_only_its_first_line_is_read_from_the_start(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime
) -> None:
    lines = spool.read_text().splitlines(keepends=True)
    ingest(ledger, [spool], example, now)
    fork = spool.with_name("fork.jsonl")
    fork.write_text(lines[0] + plain().to_json() + "\n" + "".join(lines[1:]) * 2)
    report = ingest(ledger, [fork], example, now)
    assert (report.lines, report.records, report.duplicates) == (18, 1, 17)


def test_a_growing_file_goes_on_where_it_was_left_and_its_torn_end_waits(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime
) -> None:
    whole = spool.read_bytes()
    cut = len(whole) - 40
    spool.write_bytes(whole[:cut])
    torn = ingest(ledger, [spool], example, now)
    spool.write_bytes(whole)
    rest = ingest(ledger, [spool], example, now)
    assert (torn.lines, torn.torn, rest.lines, rest.torn, rest.duplicates) == (8, 1, 1, 0, 0)
    assert ledger.ask("SELECT count() FROM otel_traces").rows == [(3,)]


def test_a_file_that_is_only_a_torn_line_waits(ledger: Ledger, tmp_path: Path, example: Catalog, now: datetime) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"resourceSpans":[')
    assert ingest(ledger, [path], example, now) == IngestReport(files=1, torn=1)


def test_bad_lines_go_to_quarantine_with_their_reason_and_stop_nothing(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime
) -> None:
    lines = spool.read_text().splitlines()
    window = json.loads(lines[1])
    record = window["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    body = json.loads(record["body"]["stringValue"]) | {"seq": 77}
    record["attributes"][-1]["value"]["intValue"] = "77"
    record["body"]["stringValue"] = json.dumps(body | {"idle_ns": body["idle_ns"] + 1})
    unconserved = json.dumps(window)
    record["body"]["stringValue"] = json.dumps(
        body | {"end_ns": body["end_ns"] + 60 * S, "idle_ns": body["idle_ns"] + 60 * S}
    )
    too_long = json.dumps(window)
    bad = [
        "not json",
        "\xff",
        '{"resourceSpans":3,"x":"loraledger"}',
        unconserved,
        too_long,
        plain(tenant="ghost").to_json(),
    ]
    spool.write_text("\n".join([*bad, *lines, ""]), encoding="utf-8")
    report = ingest(ledger, [spool], example, now)
    assert (report.lines, report.spans, report.quarantined) == (15, 3, 6)
    found = {row["reason"]: row for row in ledger.ask("SELECT * FROM quarantine").dicts()}
    said = sorted(found)
    for part in (
        "not JSON",
        "parts miss -1 ns",
        "is not inside one UTC minute",
        "tenant 'ghost' is not in the catalog",
    ):
        assert any(part in reason for reason in said), (part, said)
    ghost = found["tenant 'ghost' is not in the catalog"]
    assert (ghost["kind"], ghost["tenant"], ghost["emitter"], ghost["seq"]) == ("usage", "ghost", "crm", 1)
    assert ghost["source"].startswith("spool-")


def test_plain_usage_lines_are_booked_at_once_and_marked(
    ledger: Ledger, tmp_path: Path, example: Catalog, now: datetime
) -> None:
    given = plain(seq=2, source="crm-export")
    unmarked = json.loads(plain().to_json())
    del unmarked["source"]
    path = tmp_path / "usage.jsonl"
    path.write_text(json.dumps(unmarked) + "\n" + given.to_json() + "\n" + given.to_json() + "\n")
    report = ingest(ledger, [path], example, now)
    assert (report.records, report.duplicates, report.quarantined) == (2, 1, 0)
    assert ledger.ask("SELECT seq, source, input_tokens FROM usage ORDER BY seq").rows == [
        (1, "plain", 9),
        (2, "crm-export", 9),
    ]


def test_progress_tells_bytes_and_memory_is_bounded_by_batches(
    ledger: Ledger, tmp_path: Path, example: Catalog, now: datetime
) -> None:
    path = tmp_path / "usage.jsonl"
    path.write_text("".join(plain(seq=seq).to_json() + "\n" for seq in range(4500)))
    told: list[tuple[int, int]] = []
    report = ingest(ledger, [path], example, now, lambda done, total: told.append((done, total)))
    assert report.records == 4500
    assert len(told) == 4
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (path.stat().st_size, path.stat().st_size)


def test_what_is_no_readable_file_is_skipped_and_said_and_the_rest_is_taken(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(name: str) -> Path:
        return spool.with_name(name)

    odd("a-directory.jsonl").mkdir()
    odd("b-dangling.jsonl").symlink_to(spool.with_name("nowhere"))
    os.mkfifo(odd("c-pipe.jsonl"))
    odd("d-loop.jsonl").symlink_to("d-loop.jsonl")
    odd("e-packed.jsonl").write_bytes(gzip.compress(b"{}")[:-4])
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(spool.parent)
        bound.bind("f-socket.jsonl")
        report = ingest(ledger, [spool.parent], example, now)
    assert (report.files, report.lines, report.records, report.quarantined) == (1, 9, 3, 0)
    assert [(Path(one.path).name, one.reason) for one in report.skipped] == [
        ("a-directory.jsonl", "is a directory, not a file"),
        ("b-dangling.jsonl", "is a link to nothing"),
        ("c-pipe.jsonl", "is a pipe, not a file"),
        ("d-loop.jsonl", "Too many levels of symbolic links"),
        ("e-packed.jsonl", "is compressed; unpack it first"),
        ("f-socket.jsonl", "is a socket, not a file"),
    ]


def test_a_file_that_vanishes_or_breaks_meanwhile_is_skipped_and_what_was_read_of_it_stays(
    ledger: Ledger, spool: Path, example: Catalog, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, broken = spool.with_name("a.jsonl"), spool.with_name("b.jsonl")
    gone.write_text(plain(seq=1).to_json() + "\n")
    broken.write_text("".join(plain(seq=seq).to_json() + "\n" for seq in range(2, 4002)))
    whole, found = sources.Source.lines, sources.find

    def lines(self: sources.Source, offset: int) -> Iterator[sources.Line]:
        for number, line in enumerate(whole(self, offset)):
            if self.path == broken and number == 2500:
                raise sources.SourceUnreadable(broken, "Input/output error")
            yield line

    def vanish(paths: list[Path]) -> Any:
        files = found(paths)
        gone.unlink()
        return files

    monkeypatch.setattr(sources.Source, "lines", lines)
    monkeypatch.setattr("billing.store.intake.ingest.find", vanish)
    report = ingest(ledger, [spool.parent], example, now)
    assert [(Path(one.path).name, one.reason) for one in report.skipped] == [
        ("a.jsonl", "No such file or directory"),
        ("b.jsonl", "Input/output error"),
    ]
    assert (report.records, report.lines) == (2003, 2009)
    monkeypatch.undo()
    assert ingest(ledger, [spool.parent], example, now).records == 2000


def test_a_line_without_end_is_not_held_in_memory_and_its_neighbours_are_taken(
    ledger: Ledger, tmp_path: Path, example: Catalog, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LONGEST_LINE", 1000)
    monkeypatch.setattr(sorting, "LONGEST_LINE", 1000)
    monkeypatch.setattr(sources, "_PIECE", 300)
    path = tmp_path / "a.jsonl"
    huge, nul, last = b"x" * 4321 + b"\n", b"\0" * 500 + b"\n", b"y" * 5000
    path.write_bytes(
        huge + plain(seq=1).to_json().encode() + b"\n" + nul + plain(seq=2).to_json().encode() + b"\n" + last
    )
    report = ingest(ledger, [path], example, now)
    assert (report.lines, report.records, report.quarantined, report.torn) == (4, 2, 2, 1)
    assert ingest(ledger, [path], example, now) == IngestReport(files=1, torn=1)
    reasons = ledger.ask("SELECT reason, length(content) <= 300 FROM quarantine ORDER BY reason").rows
    assert reasons[0] == ("line of 4322 bytes, longer than 1000", True)


def test_a_path_that_is_not_there_is_named(ledger: Ledger, tmp_path: Path, example: Catalog, now: datetime) -> None:
    with pytest.raises(SourceMissing, match=r"could not ingest .*nowhere: No such file"):
        ingest(ledger, [tmp_path / "nowhere"], example, now)

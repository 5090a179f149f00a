"""The re-share line in the ledger: per attempt beside what was measured, and in no tenant's sum."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from billing.invoice.explain import AttemptId, AttemptTime
from billing.store.catalog_history import remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.close.gaps import stream_gaps
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_spans
from billing.store.invoice.explain import request_times
from catalog.model import Catalog
from telemetry.engine_time import PrefixMove, PrefixReshare, SessionEvent
from telemetry.names import EventName
from telemetry.otlp_encode import event_line

MS = 1_000_000
HOUR = 3_600_000 * MS
BOOKS = (
    "SELECT tenant, sum(measured_ns) AS measured_ns, sum(cost) AS cost FROM tenant_cost GROUP BY tenant ORDER BY tenant"
)
REST = """
SELECT tenant, toYYYYMM(at) AS month, sum(ns) AS rest_ns
FROM prefix_reshare
GROUP BY tenant, month
HAVING rest_ns != 0
"""


def line_of(seq: int, at_ns: int, tenant: str, *moves: tuple[str, int]) -> PrefixReshare:
    return PrefixReshare("meter-1", seq, "cpu-0", at_ns, tenant, None, tuple(PrefixMove(*move) for move in moves))


def test_requests_have_the_line_beside_what_was_measured_and_the_books_are_as_without_it(
    ledger: Ledger,
    traffic: Any,
    example: Catalog,
    ns: Callable[..., int],
    now: datetime,
    tmp_path: Path,
) -> None:
    def derive(spool: Path) -> None:
        ingest(ledger, [spool], example, now)
        hour = (t0 - t0 % HOUR, t0 - t0 % HOUR + HOUR)
        remember_catalog(ledger, example, now)
        book_spans(ledger, *hour, example, now)
        write_engine_time(ledger, *hour, example, now)
        write_tenant_cost(ledger, *hour, example, now)

    t0 = ns(2026, 10, 31, 23, 50)
    traffic.session(SessionEvent.STARTED, t0)
    served = [traffic.serve("campus", t0 + i * 1000 * MS, base) for i, base in enumerate((90 * MS, 10 * MS, 10 * MS))]
    other = traffic.serve("clinic", t0 + 5000 * MS, 50 * MS)
    traffic.session(SessionEvent.STOPPED, t0 + 6000 * MS)
    derive(traffic.write(tmp_path / "spool"))
    books = ledger.ask(BOOKS).rows
    assert [row[0] for row in books] == ["campus", "clinic"]

    first, second, third = (f"{record.emitter}:{record.seq}" for record in served)
    lines = [
        line_of(0, t0 + 1900 * MS, "campus", (first, -30 * MS), (second, 30 * MS)),
        line_of(1, ns(2026, 11, 1, 0, 0, 1), "campus", (first, -10 * MS), (second, -10 * MS), (third, 20 * MS)),
    ]
    traffic.lines = []
    traffic.event(EventName.RESHARE, lines[1], lines[1].at_ns)
    derive(traffic.write(tmp_path / "later"))
    assert stream_gaps(ledger, t0, t0 + HOUR) == {f"{EventName.RESHARE} meter-1": 1}, "a lost line is seen"
    for line in lines:
        traffic.event(EventName.RESHARE, line, line.at_ns)
    derive(traffic.write(tmp_path / "again"))
    assert stream_gaps(ledger, t0, t0 + HOUR) == {}
    assert ledger.ask(BOOKS).rows == books

    shown = ledger.ask(
        "SELECT request_id, measured_ns, reshare_ns, as_if_shared_ns FROM finance_request_reshare ORDER BY seq"
    ).rows
    assert shown == [
        (served[0].request_id, 90 * MS, -40 * MS, 50 * MS),
        (served[1].request_id, 10 * MS, 20 * MS, 30 * MS),
        (served[2].request_id, 10 * MS, 20 * MS, 30 * MS),
        (other.request_id, 50 * MS, 0, 50 * MS),
    ]
    assert request_times(ledger, "campus", served[0].request_id) == [
        AttemptTime(AttemptId(served[0].emitter, served[0].seq, served[0].request_id), 90 * MS, -40 * MS)
    ]
    assert request_times(ledger, "clinic", served[0].request_id) == []
    assert ledger.ask(REST).rows == []
    assert ledger.ask("SELECT count(), uniqExact(emitter, seq) FROM prefix_reshare").rows == [(5, 2)]


def test_a_line_that_is_none_is_quarantined_with_its_reason(
    ledger: Ledger, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    at_ns = ns(2026, 10, 5, 10)
    good = line_of(0, at_ns, "campus", ("gw-1:0", -5), ("gw-1:1", 5))
    bad = {
        replace(good, seq=1, moves=good.moves[:1]).to_json(): "moves leave -5 ns",
        replace(good, seq=2, at_ns=2**62).to_json(): f"at_ns {2**62} is in the future",
        good.to_json().replace('"seq":0', '"seq":3,"colour":"red"'): "colour",
        good.to_json().replace(":5}", ":5.0}"): "Expected `int`, got `float` - at `$.moves[1].ns`",
    }
    path = tmp_path / "lines.jsonl"
    bodies = [good.to_json(), *bad]
    path.write_text(
        "".join(
            event_line(EventName.RESHARE, body, at_ns, None, "meter-1", seq) + "\n" for seq, body in enumerate(bodies)
        )
    )
    report = ingest(ledger, [path], example, now)
    assert (report.events, report.quarantined) == (1, len(bad))
    reasons = [row[0] for row in ledger.ask("SELECT reason FROM quarantine ORDER BY seq").rows]
    for reason, expected in zip(reasons, bad.values(), strict=True):
        assert expected in reason
    assert ledger.ask("SELECT attempt, ns FROM prefix_reshare ORDER BY attempt").rows == [("gw-1:0", -5), ("gw-1:1", 5)]

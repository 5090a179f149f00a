"""Rating, closing and exporting many usage rows, against what bare ClickHouse SQL needs to load and group the same rows.

`python -m bench.scale [ROWS …]` generates usage rows and the meter windows that measured them as JSON lines (not timed), then runs
each side in a process of its own on the same embedded engine and threads. Bare: load both into plain tables; group the rows by
tenant, adapter and quarter hour, and the shares of the windows by tenant and quarter hour. Ours: load both into the ledger, derive
engine time and cost, close the month with every check, export FOCUS. Prints seconds, CPU seconds and the
ratio of both, and each side's peak memory; exits 1 above the limits. CPU seconds are what a busy machine cannot distort.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Final

from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window
from billing.store.focus import focus_file, write_charges
from billing.store.invoice.invoices import issue_month
from billing.store.migrate import migrate
from catalog.durations import MINUTE_NS
from catalog.load import load
from telemetry.engine_time import EngineSession, SessionEvent
from telemetry.names import EventName

ROOT: Final = Path(__file__).parents[1]
WORK: Final = ROOT / "build" / "scale"
MONTH: Final = "2026-10"
NOW: Final = datetime(2026, 11, 10, tzinfo=UTC)
START_NS: Final = 1_790_812_800_000_000_000
PER_WINDOW: Final = 240
"""Attempts in each minute of the one engine: ten million fill 29 days."""
LIMIT: Final = 3.0
MEMORY: Final = 4 << 30
THREADS: Final = 2

Side = dict[str, tuple[float, float]]
"""Wall and CPU seconds by step; under `peak` the bytes of memory, twice."""

_ATTEMPTS: Final = f"""
SELECT
    number AS seq,
    ['clinic', 'bank', 'campus', 'freeride'][number % 4 + 1] AS tenant,
    {START_NS} + intDiv(number, {PER_WINDOW}) * {MINUTE_NS} AS window_ns,
    window_ns + number % {PER_WINDOW} * 250000000 AS arrival_ns,
    180000000 + number * 7919 % 20000001 AS base_ns,
    number % 3 * 1000003 AS adapter_ns
FROM numbers(ROWS)
"""
_USAGE: Final = f"""
SELECT
    tenant, 'gw-scale' AS emitter, toInt64(seq) AS seq, {START_NS} AS version, hex(seq) AS request_id, 1 AS attempt, 'cpu-0' AS engine,
    'demo-cpu' AS gpu_type, 1 AS gpu_count, fromUnixTimestamp64Nano(toInt64(arrival_ns), 'UTC') AS arrival,
    fromUnixTimestamp64Nano(toInt64(arrival_ns + 200000000), 'UTC') AS finished, 'ok' AS status, 512 AS input_tokens, 128 AS cached_tokens,
    64 AS output_tokens_computed, 64 AS output_tokens_delivered, true AS measured,
    [toInt64(window_ns - window_ns % 900000000000)] AS `slices.start_ns`, [toInt64(base_ns)] AS `slices.base_ns`,
    [toInt64(adapter_ns)] AS `slices.adapter_ns`, [toInt64(0)] AS `slices.recompute_ns`, [toInt64(1000)] AS `slices.kv_saved_base_ns`,
    [toInt64(0)] AS `slices.kv_saved_adapter_ns`, 'engine-step/1' AS method, '0123456789ab' AS profile, 'gateway' AS source, hex(seq) AS record_hash
FROM ({_ATTEMPTS})
"""
_WINDOWS: Final = Template("""
SELECT
    '$WINDOW' AS name, 'meter-scale' AS emitter, toInt64(rank) AS seq,
    fromUnixTimestamp64Nano(toInt64(start_ns + $MINUTE_NS), 'UTC') AS at,
    concat(
        '{"emitter":"meter-scale","seq":', toString(rank), ',"engine":"cpu-0","start_ns":', toString(start_ns), ',"end_ns":', toString(start_ns + $MINUTE_NS),
        ',"steps":', toString(parts), ',"idle_ns":', toString($MINUTE_NS - spent), ',"system_ns":{},"cold_ns":{},"unattributed_ns":0,"shares":[',
        shares, '],"predicted_ns":', toString(spent), '}'
    ) AS body
FROM
(
    SELECT
        intDiv(seq, $PER_WINDOW) AS rank, any(window_ns) AS start_ns, sum(base_ns + adapter_ns) AS spent, count() AS parts,
        arrayStringConcat(groupArray(concat(
            '{"attempt":"gw-scale:', toString(seq), '","tenant":"', tenant, '","adapter":null,"base_ns":', toString(base_ns), ',"adapter_ns":',
            toString(adapter_ns), ',"recompute_ns":0}'
        )), ',') AS shares
    FROM ($ATTEMPTS)
    GROUP BY rank
)
ORDER BY rank
""").substitute(MINUTE_NS=MINUTE_NS, PER_WINDOW=PER_WINDOW, WINDOW=EventName.WINDOW, ATTEMPTS=_ATTEMPTS)
_GROUP_USAGE: Final = """
SELECT count(), sum(tokens) FROM
(
    SELECT tenant, adapter, engine, status, toStartOfInterval(finished, INTERVAL 15 MINUTE) AS quarter, count() AS requests, sum(input_tokens) AS tokens,
        sum(cached_tokens), sum(output_tokens_delivered), sum(arraySum(slices.base_ns)), sum(arraySum(slices.adapter_ns)), sum(arraySum(slices.kv_saved_base_ns))
    FROM usage GROUP BY tenant, adapter, engine, status, quarter
)
"""
_GROUP_SHARES: Final = """
SELECT count(), sum(ns) FROM
(
    SELECT tupleElement(share, 'tenant') AS tenant, start_ns - start_ns % 900000000000 AS quarter, sum(tupleElement(share, 'base_ns') + tupleElement(share, 'adapter_ns')) AS ns
    FROM
    (
        SELECT start_ns, arrayJoin(JSONExtract(body, 'shares', 'Array(Tuple(attempt String, tenant String, base_ns Int64, adapter_ns Int64))')) AS share
        FROM windows
    )
    GROUP BY tenant, quarter
)
"""
_BARE_WINDOWS: Final = "CREATE TABLE windows (name String, emitter String, seq Int64, at DateTime64(9, 'UTC'), body String, start_ns Int64 MATERIALIZED JSONExtractInt(body, 'start_ns')) ENGINE = MergeTree ORDER BY (emitter, seq)"


def main() -> None:
    """Run both sides at each size and compare them; exit 1 above the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--side", choices=("generate", "bare", "ours"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        print(json.dumps({"generate": generate, "bare": bare, "ours": ours}[asked.side](asked.rows[0])))
        return
    kept = [_compare(rows) for rows in asked.rows]
    sys.exit(not all(kept))


def _compare(rows: int) -> bool:
    """Print what both sides took; whether ours kept the limits."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    _side("generate", rows)
    plain, full = _side("bare", rows), _side("ours", rows)
    for name, side in (("bare SQL", plain), ("loraledger", full)):
        steps = ", ".join(
            f"{step} {wall:.1f} s ({cpu:.1f} CPU)" for step, (wall, cpu) in side.items() if step != "peak"
        )
        print(f"{name:>10}: {steps}; peak {side['peak'][0] / 2**30:.2f} GiB")
    took = [_sum(full, clock, "load", "rate", "close", "export") for clock in (0, 1)]
    wall, cpu = (took[clock] / _sum(plain, clock, "load", "group") for clock in (0, 1))
    print(
        f"{rows:,} rows: loraledger / bare SQL = {wall:.2f} by the clock, {cpu:.2f} in CPU time (limit {LIMIT}); "
        f"{took[0] / rows * 1e6:.1f} us and {took[1] / rows * 1e6:.1f} us of CPU a row",
        flush=True,
    )
    shutil.rmtree(WORK, ignore_errors=True)
    return wall <= LIMIT and full["peak"][0] <= MEMORY


def generate(rows: int) -> Side:
    """Write the rows as JSON lines, which is how they come."""
    with _ledger("generate") as ledger:
        for name, query in (("usage", _USAGE), ("windows", _WINDOWS)):
            path = WORK / f"{name}.jsonl"
            ledger.execute(f"INSERT INTO FUNCTION file('{path}', JSONEachRow) {query.replace('ROWS', str(rows))}", name)
    return {}


def bare(rows: int) -> Side:
    """Load and group, in plain tables."""
    took: Side = {}
    with _ledger("bare") as ledger:
        migrate(ledger, NOW)
        ledger.execute(
            "CREATE TABLE plain AS usage_versions ENGINE = MergeTree ORDER BY (tenant, emitter, seq)", "plain"
        )
        ledger.execute(_BARE_WINDOWS, "windows")
        with _timed(took, "load"):
            _load(ledger, "plain", "windows")
        with _timed(took, "group"):
            counted = ledger.ask(_GROUP_USAGE.replace("FROM usage", "FROM plain")).rows[0]
            ledger.ask(_GROUP_SHARES)
    assert counted[1] == 512 * rows
    return took | _peak()


def ours(rows: int) -> Side:
    """Load, rate, close and export, through the ledger's own code."""
    took: Side = {}
    catalog = load(ROOT / "examples" / "catalog.yaml")
    window = month_window(MONTH, catalog)
    end_ns = START_NS + -(-rows // PER_WINDOW) * MINUTE_NS
    with _ledger("ours") as ledger:
        migrate(ledger, NOW)
        with _timed(took, "load"):
            _load(ledger, "usage_versions", "ledger_event_versions")
            _sessions(ledger, end_ns)
        with _timed(took, "rate"):
            write_engine_time(ledger, *window, catalog, NOW)
            write_tenant_cost(ledger, *window, catalog, NOW)
        with _timed(took, "close"):
            invoices = issue_month(ledger, MONTH, catalog, NOW)
        with _timed(took, "export"):
            write_charges(ledger, MONTH, catalog, NOW)
            focus_file(ledger, "cost-and-usage", "1.4", MONTH, "", "parquet")
    assert sum(invoice.requests for invoice in invoices) == rows
    return took | _peak()


@contextmanager
def _ledger(name: str) -> Iterator[Ledger]:
    with Ledger.open(f"chdb://{WORK / name}") as ledger:
        # A mapped input would count as memory of the process.
        read = "storage_file_read_method = 'pread'"
        ledger.execute(f"SET max_threads = {THREADS}, max_insert_threads = {THREADS}, {read}", "settings")
        yield ledger


def _load(ledger: Ledger, usage: str, windows: str) -> None:
    for table, name in ((usage, "usage"), (windows, "windows")):
        columns = [row[0] for row in ledger.ask(f"DESCRIBE file('{WORK / name}.jsonl')").rows]
        names = ", ".join(f"`{column}`" for column in columns)
        ledger.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM file('{WORK / name}.jsonl')", f"load {name}")


def _sessions(ledger: Ledger, end_ns: int) -> None:
    marks = ((SessionEvent.STARTED, START_NS), (SessionEvent.STOPPED, end_ns))
    events = [
        EngineSession("meter-scale", seq, "cpu-0", "scale", event, at_ns, "demo-cpu", 1)
        for seq, (event, at_ns) in enumerate(marks)
    ]
    rows = [
        {"name": EventName.SESSION, "emitter": e.emitter, "seq": e.seq, "at": e.at_ns, "body": e.to_json()}
        for e in events
    ]
    ledger.insert("ledger_event_versions", rows)


@contextmanager
def _timed(side: Side, step: str) -> Iterator[None]:
    start, spent = time.monotonic(), time.process_time()
    yield
    side[step] = time.monotonic() - start, time.process_time() - spent


def _peak() -> Side:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    return {"peak": (peak, peak)}


def _sum(side: Side, clock: int, *steps: str) -> float:
    return sum(side[step][clock] for step in steps)


def _side(side: str, rows: int) -> Side:
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale", str(rows), "--side", side],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Side = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()

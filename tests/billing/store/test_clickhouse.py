from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from billing.store.clickhouse import Ledger
from billing.store.errors import LedgerBusy, LedgerUnreachable, QueryFailed, QueryRefused


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        pytest.param("http://me:secret@127.0.0.1:9", "could not open ledger http://127.0.0.1:9: ", id="nobody listens"),
        pytest.param("chdb://relative/path", "needs three slashes", id="a chdb path that is not absolute"),
        pytest.param("postgres://x", "not a ledger DSN", id="another database"),
        pytest.param("", "not a ledger DSN", id="nothing"),
        pytest.param("chdb:///proc/nope", "could not open ledger chdb:///proc/nope: ", id="a directory that cannot be"),
    ],
)
def test_an_unreachable_ledger_is_one_clear_line_without_the_password(dsn: str, message: str) -> None:
    with pytest.raises(LedgerUnreachable) as error:
        Ledger.open(dsn)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


HOLDER = """
import sys
from pathlib import Path
from billing.store.clickhouse import Ledger
with Ledger.open("chdb://" + sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_ledger_in_another_process_is_waited_for_and_then_named(tmp_path: Path) -> None:
    path, slept = tmp_path / "ledger", list[float]()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(LedgerBusy, match=f"process {holder.pid} has it open"):
            Ledger.open(f"chdb://{path}", wait_s=0.3, sleep=slept.append)
        holder.stdin.close()
        Ledger.open(f"chdb://{path}", wait_s=30).close()
    assert sum(slept) == pytest.approx(0.3)


def test_one_process_may_open_a_ledger_twice_and_another_after_it(tmp_path: Path) -> None:
    with Ledger.open(f"chdb://{tmp_path}/a"), Ledger.open(f"chdb://{tmp_path}/a/"):
        pass
    with Ledger.open(f"chdb://{tmp_path}/b") as ledger:
        assert ledger.ask("SELECT 1").rows == [(1,)]


def test_money_and_nanoseconds_go_in_and_out_to_the_last_digit(shared_ledger: Ledger) -> None:
    shared_ledger.execute(
        "CREATE TABLE exact (d Decimal(38, 18), q Decimal(38, 12), at DateTime64(9, 'UTC'), maybe Nullable(DateTime64(9, 'UTC')), n Int64) ENGINE = Memory",
        "test table",
    )
    rows = [
        [
            Decimal("12345678901234567890.123456789012345678"),
            Decimal("-0.000000000001"),
            1_790_000_000_123_456_789,
            None,
            2**63 - 1,
        ],
        [Decimal("-0.000000000000000001"), Decimal(1), 1, 1_790_000_000_123_456_789, -(2**63)],
    ]
    assert shared_ledger.insert("exact", ["d", "q", "at", "maybe", "n"], rows) == 2
    found = shared_ledger.ask(
        "SELECT d, q, toUnixTimestamp64Nano(at), if(maybe IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(maybe))), n FROM exact ORDER BY n DESC"
    )
    assert [list(row) for row in found.rows] == rows
    assert shared_ledger.ask("SELECT sum(d) FROM exact").rows == [(Decimal("12345678901234567890.123456789012345677"),)]


def test_instants_come_back_aware(shared_ledger: Ledger) -> None:
    ((at,),) = shared_ledger.ask("SELECT toDateTime64('2026-10-25 00:30:00.5', 3, 'UTC')").rows
    assert at == datetime(2026, 10, 25, 0, 30, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "  -- why\n  (SELECT 1)",
        "WITH 1 AS x SELECT x",
        "SHOW TABLES",
        "DESCRIBE TABLE usage",
        "EXPLAIN SELECT 1",
        "select 1;",
    ],
)
def test_reading_is_allowed(shared_ledger: Ledger, sql: str) -> None:
    answer = shared_ledger.ask(sql)
    assert answer.rows
    assert list(answer.dicts()[0]) == list(answer.columns)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        pytest.param("DROP TABLE usage_versions", QueryRefused, id="a drop"),
        pytest.param("", QueryRefused, id="nothing"),
        pytest.param("SELECT 1; DROP TABLE usage_versions", QueryFailed, id="a drop behind a read"),
        pytest.param("WITH 1 AS x INSERT INTO prices SELECT x", QueryFailed, id="an insert behind WITH"),
        pytest.param("SELECT 1 SETTINGS readonly = 0", QueryFailed, id="lifting the protection"),
        pytest.param("SELECT * FROM nowhere", QueryFailed, id="a table that is not there"),
    ],
)
def test_anything_else_is_refused_and_changes_nothing(shared_ledger: Ledger, sql: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="could not run query"):
        shared_ledger.ask(sql)
    assert shared_ledger.ask("SELECT count() FROM usage_versions").rows == [(0,)]


def test_the_error_of_a_query_is_one_line(shared_ledger: Ledger) -> None:
    with pytest.raises(QueryFailed) as error:
        shared_ledger.ask("SELECT nothing FROM usage")
    assert "\n" not in str(error.value)
    assert "Stack trace" not in str(error.value)

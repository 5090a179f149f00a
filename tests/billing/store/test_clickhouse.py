from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from billing.store.clickhouse import Ledger
from billing.store.errors import LedgerBusy, LedgerUnreachable, QueryFailed


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        pytest.param("http://me:secret@127.0.0.1:9", "could not open ledger http://127.0.0.1:9: ", id="nobody listens"),
        pytest.param("chdb://relative/path", "needs three slashes", id="a chdb path that is not absolute"),
        pytest.param("postgres://x", "not a ledger DSN", id="another database"),
        pytest.param("", "not a ledger DSN", id="nothing"),
        pytest.param("chdb:///tmp/x?wait_s=soon", "wait_s='soon' is not a number", id="a wait that is no number"),
        pytest.param("chdb:///tmp/x?wait_s=nan", "wait_s='nan' is not a number", id="a wait that is not a number"),
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
sys.argv[0] = "/usr/bin/loraledger"
from pathlib import Path
from billing.store.clickhouse import Ledger
with Ledger.open("chdb://" + sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_ledger_in_another_process_is_waited_for_and_then_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, slept = tmp_path / "ledger", list[float]()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == "open\n"
        who = rf"process {holder.pid} \(loraledger {path}\) has it open since \d{{4}}-.* UTC"
        with pytest.raises(LedgerBusy, match=who):
            Ledger.open(f"chdb://{path}?wait_s=0.3", sleep=slept.append)
        (said,) = caplog.messages
        assert re.search(who + "; waiting up to 0.3 s", said)
        holder.stdin.close()
        Ledger.open(f"chdb://{path}", wait_s=30).close()
    assert sum(slept) == pytest.approx(0.3)


def test_one_process_may_open_a_ledger_twice_and_another_after_it(tmp_path: Path) -> None:
    with Ledger.open(f"chdb://{tmp_path}/a"), Ledger.open(f"chdb://{tmp_path}/a/"):
        pass
    with Ledger.open(f"chdb://{tmp_path}/b") as ledger:
        assert ledger.ask("SELECT 1").rows == [(1,)]


def test_what_a_dead_holder_left_in_the_file_keeps_nobody_out(tmp_path: Path) -> None:
    (tmp_path / "ledger.lock").write_text('{"pid": 1, "command": "loraledger close", "since": "2026-01-01"}')
    with Ledger.open(f"chdb://{tmp_path}/ledger", wait_s=0), Ledger.open(f"chdb://{tmp_path}/ledger", wait_s=0):
        assert f'"pid": {os.getpid()}' in (tmp_path / "ledger.lock").read_text()


def test_a_settings_file_of_the_working_directory_is_not_the_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.xml").write_text("<clickhouse><users_config>/nowhere.xml</users_config></clickhouse>")
    with Ledger.open(f"chdb://{tmp_path}/ledger") as ledger:
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
    names = ("d", "q", "at", "maybe", "n")
    assert shared_ledger.insert("exact", [dict(zip(names, row, strict=True)) for row in rows]) == 2
    found = shared_ledger.ask(
        "SELECT d, q, toUnixTimestamp64Nano(at), if(maybe IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(maybe))), n FROM exact ORDER BY n DESC"
    )
    assert [list(row) for row in found.rows] == rows
    assert shared_ledger.ask("SELECT sum(d) FROM exact").rows == [(Decimal("12345678901234567890.123456789012345677"),)]


def test_instants_come_back_aware(shared_ledger: Ledger) -> None:
    ((at,),) = shared_ledger.ask("SELECT toDateTime64('2026-10-25 00:30:00.5', 3, 'UTC')").rows
    assert at == datetime(2026, 10, 25, 0, 30, 0, 500_000, tzinfo=UTC)


def test_the_error_of_a_query_is_one_line(shared_ledger: Ledger) -> None:
    with pytest.raises(QueryFailed) as error:
        shared_ledger.ask("SELECT nothing FROM usage")
    assert "\n" not in str(error.value)
    assert "Stack trace" not in str(error.value)

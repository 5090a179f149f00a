"""The same ledger over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.errors import LedgerUnreachable, QueryFailed, QueryRefused
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_spans
from billing.store.migrate import migrate, migrations
from billing.store.reader import Reader
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent

S = 1_000_000_000


def test_the_dsn_alone_decides_that_it_is_a_server(
    server: Any, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 300_000_001, 50_000_000, adapter="icd10-coder", cold_ns=7_000_003)
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    with Ledger.open(server.dsn) as ledger:
        assert len(migrate(ledger, now)) == len(migrations())
        assert ingest(ledger, [traffic.write(tmp_path / "spool")], example, now).lines == 6
        assert book_spans(ledger, t0, t0 + S, example, now).records == 1
        assert write_engine_time(ledger, t0, t0 + 3600 * S, example, now).changed == 1
        assert write_tenant_cost(ledger, t0, t0 + 3600 * S, example, now).changed == 2
        assert ledger.ask("SELECT sum(measured_ns) FROM tenant_cost").rows == [(357_000_004,)]
        with pytest.raises(QueryFailed, match="READONLY"):
            ledger.ask("WITH 1 AS x INSERT INTO prices SELECT x")
        assert ledger.where == f"http://127.0.0.1:{server.server_port}"
    assert not [statement for statement in server.statements if ";" in re.sub(r"--.*|'[^']*'", "", statement)], (
        "one statement a request"
    )


def test_a_server_user_whom_nobody_restricted_only_reads_through_a_reader(server: Any, now: datetime) -> None:
    with Ledger.open(server.dsn) as ledger:
        migrate(ledger, now)
    with Reader.open(server.dsn) as reader:
        assert reader.ask("-- why\nFROM system.one SELECT dummy;", "JSONEachRow") == b'{"dummy":0}\n'
        assert b"usage\n" in reader.ask("SHOW TABLES", "TabSeparatedWithNames")
        for hostile in (
            "SELECT * FROM file('/etc/passwd', 'LineAsString')",
            "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
            "WITH 1 AS x INSERT INTO prices SELECT x",
            "INSERT INTO FUNCTION file('x.csv', 'CSV') SELECT 1",
            "CREATE TEMPORARY TABLE x (a Int8)",
            "SELECT 1 SETTINGS readonly = 0",
        ):
            with pytest.raises((QueryFailed, QueryRefused)):
                reader.ask(hostile, "JSONEachRow")


def test_a_refused_password_is_one_line_without_it(server: Any) -> None:
    with pytest.raises(LedgerUnreachable, match="Authentication failed") as error:
        Ledger.open(f"http://me:wrong-secret@127.0.0.1:{server.server_port}")
    assert "wrong-secret" not in str(error.value)
    assert "\n" not in str(error.value)

"""Queries of people: every read is answered, in one valid document; nothing else is done, to the ledger or to the machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from billing.store.clickhouse import Ledger
from billing.store.errors import QueryFailed, QueryRefused, ReaderUnsafe
from billing.store.reader import MOST_BYTES, Reader

Ask = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Iterator[Reader]:
    path = tmp_path_factory.mktemp("read") / "ledger"
    shutil.copytree(empty_ledger, path, symlinks=True)
    with Reader.open(f"chdb://{path}") as opened:
        yield opened


@pytest.fixture(scope="module")
def ask(reader: Reader) -> Ask:
    return lambda sql: [json.loads(line) for line in reader.ask(sql, "JSONEachRow").splitlines()]


def test_a_reader_beside_an_open_ledger_is_refused_since_the_engine_would_let_it_write(ledger: Ledger) -> None:
    with pytest.raises(ReaderUnsafe, match="all rights"):
        Reader.open(ledger.where)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select 1;",
        "-- why\n  (SELECT 1)",
        "/* why */ SELECT 1 -- because",
        "SELECT 1; -- done",
        "WITH 1 AS x SELECT x",
        "FROM system.one SELECT dummy",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SELECT 1 SETTINGS max_threads = 1",
        "SELECT 'INTO OUTFILE', '\nFORMAT x', 'file(', 1 AS `FORMAT `, 2 AS `file(`",
        "SHOW TABLES",
        "SHOW CREATE TABLE usage",
        "DESCRIBE usage",
        "DESC TABLE usage",
        "EXPLAIN SELECT 1",
        "EXPLAIN PIPELINE SELECT 1",
        "EXISTS TABLE usage",
        "SELECT name FROM system.tables WHERE database = 'loraledger'",
    ],
)
def test_every_read_runs(ask: Ask, sql: str) -> None:
    assert ask(sql)


def test_every_type_is_valid_json_and_exact_where_money_is(ask: Ask) -> None:
    (row,) = ask(
        "SELECT toDate('2026-10-25') AS day, toDate32('1900-01-01') AS old, toDateTime64('2026-10-25 00:30:00.5', 9, 'UTC') AS at,"
        " toDateTime('2026-10-25 00:00:00', 'Asia/Kolkata') AS local, toDecimal128('1.500000000000000001', 18) AS money, nan AS n, inf AS i, -inf AS m,"
        " toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS u, toIPv4('1.2.3.4') AS v4, toIPv6('::1') AS v6, CAST('a', 'Enum8(\\'a\\' = 1)') AS e,"
        " (1, 'x', toDate('2026-01-01')) AS t, map('k', nan) AS mp, map(1, toDate('2026-01-01')) AS mi, [toDate('2026-01-01'), NULL] AS ar, NULL AS nothing,"
        " true AS b, toInt128('170141183460469231731687303715884105727') AS big, toUInt256(7) AS u256, toInt64(9223372036854775807) AS ns, unhex('ff00fe') AS bad,"
        " CAST((1, 2), 'Tuple(a Int8, b Int8)') AS named, INTERVAL 1 DAY AS iv, CAST('{\"a\":{\"b\":1}}', 'JSON') AS j, (1., 2.)::Point AS p,"
        " initializeAggregation('sumState', 1) AS state, CAST([(1, 'a')], 'Nested(x Int8, y String)') AS ne, toFixedString('ab', 4) AS fs, 'a\nb\t\"' AS s"
    )
    assert (row["day"], row["old"], row["at"]) == ("2026-10-25", "1900-01-01", "2026-10-25T00:30:00.500000000Z")
    assert row["local"] == "2026-10-24T18:30:00Z"
    assert (row["money"], row["ns"], row["big"]) == ("1.500000000000000001", 2**63 - 1, 2**127 - 1)
    assert (row["n"], row["i"], row["m"], row["nothing"], row["b"]) == (None, None, None, None, True)
    assert (row["mp"], row["ar"], row["j"], row["s"]) == (
        {"k": None}, ["2026-01-01", None], {"a": {"b": 1}}, 'a\nb\t"',
    )  # fmt: skip
    assert row["bad"] == "\ufffd\0\ufffd"


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "-- nothing",
        "nonsense",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE usage_versions",
        "SELECT 1) INTO OUTFILE '{victim}' TRUNCATE -- ",
        "SELECT 1 INTO OUTFILE '{victim}' TRUNCATE",
        "(SELECT 1) UNION ALL (SELECT 2) INTO OUTFILE '{victim}' APPEND",
        "EXPLAIN SELECT 1 INTO OUTFILE '{victim}' TRUNCATE",
        "SHOW TABLES INTO/**/OUTFILE '{victim}' TRUNCATE",
        "SELECT 1 FORMAT Null",
        "SELECT file('{victim}')",
        "SELECT `fi\\x6ce`('{victim}')",
        "WITH (SELECT \"file\"('{victim}')) AS x SELECT x",
        "SELECT * FROM file('{victim}', 'LineAsString')",
        "SELECT * FROM '{victim}'",
        "DESCRIBE TABLE file('{victim}', 'CSVWithNames')",
        "DESCRIBE TABLE url('http://127.0.0.1:1/')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
        "SELECT * FROM s3('http://127.0.0.1:1/bucket/x.csv', 'CSV', 'a String')",
        "SELECT * FROM remote('127.0.0.1', 'system.one')",
        "SELECT * FROM executable('id', 'TSV', 'a String')",
        "SELECT * FROM sqlite('{victim}', 't')",
        "SELECT * FROM filesystem('/etc')",
        "SELECT * FROM system.users",
        "INSERT INTO prices SELECT * FROM prices",
        "WITH 1 AS x INSERT INTO prices SELECT x",
        "INSERT INTO FUNCTION file('{victim}', 'CSV') SELECT 1",
        "ALTER TABLE usage_versions DELETE WHERE 1",
        "DROP TABLE usage_versions",
        "TRUNCATE TABLE usage_versions",
        "CREATE TABLE x (a Int8) ENGINE = Memory",
        "CREATE TEMPORARY TABLE x (a Int8)",
        "BACKUP TABLE usage_versions TO File('/tmp/x')",
        "SYSTEM FLUSH LOGS",
        "KILL QUERY WHERE 1",
        "OPTIMIZE TABLE usage_versions",
        "GRANT ALL ON *.* TO default",
        "USE system",
        "SET max_threads = 1",
        "SELECT 1 SETTINGS readonly = 0",
        "SELECT 1 SETTINGS max_execution_time = 0",
        "SELECT throwIf(number = 9) FROM numbers(10)",
        "SELECT * FROM nowhere",
    ],
)
def test_nothing_else_is_done(reader: Reader, ask: Ask, tmp_path: Path, sql: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("secret\n")
    with pytest.raises((QueryRefused, QueryFailed), match="could not run query") as error:
        reader.ask(sql.replace("{victim}", str(victim)), "JSONEachRow")
    said = str(error.value)
    assert "\n" not in said
    assert "secret" not in said
    assert "Stack trace" not in said
    assert (victim.read_text(), [file.name for file in tmp_path.iterdir()]) == ("secret\n", ["victim"])
    assert ask("SELECT count() AS n FROM usage_versions") == [{"n": 0}]


def test_an_answer_that_is_too_large_is_an_error_and_not_half_of_it(reader: Reader) -> None:
    with pytest.raises(QueryFailed, match="more than 256 MiB"):
        reader.ask(f"SELECT repeat('x', 1000000) FROM numbers({MOST_BYTES // 1_000_000 + 9})", "JSONEachRow")

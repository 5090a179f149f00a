"""The door for queries of people: any statement that reads, none that does anything else.

What keeps the data and the machine safe is the engine: an embedded one runs with a user that may only SELECT from the ledger's
database (engine/readers.xml), a server's own user is cut down to `readonly`. What the engine carries out in the client's
process, and so does not ask the user's rights for, is refused by the statement as the engine's own parser writes it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from io import BytesIO, IOBase
from typing import Final, Literal, Self, cast

from clickhouse_connect.driver.client import Client

from billing.store.door import DATABASE, Door, failing
from billing.store.errors import QueryFailed, QueryRefused, ReaderUnsafe

Form = Literal["JSONEachRow", "TabSeparatedWithNames"]

LONGEST_S: Final = 300
MOST_BYTES: Final = 256 << 20
"""Of an answer; a larger one is an error."""
_PIECE: Final = 1 << 20
_SERVER_SETTINGS: Final[dict[str, str | int]] = {
    "date_time_output_format": "iso",
    "readonly": 1,
    "max_execution_time": LONGEST_S,
    "output_format_json_quote_decimals": 1,
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_quote_denormals": 0,
    "output_format_json_validate_utf8": 1,
    "format_tsv_null_representation": "",
}
"""As in engine/readers.xml, but that a server's user may have more rights than the reader's."""
_ROWS: Final = ("SELECT", "WITH", "(")
_READS: Final = (*_ROWS, "SHOW", "DESCRIBE", "EXPLAIN", "EXISTS")
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.|``)*`|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_CLAUSE: Final = re.compile(r"^(INTO OUTFILE|FORMAT) ", re.MULTILINE)
_FILE: Final = re.compile(r"\bfile\(")


class Reader:
    """A connection that reads. Use as a context manager."""

    def __init__(self, client: Client, leave: Callable[[], None], settings: dict[str, str | int]) -> None:
        self._client, self._leave, self._settings = client, leave, settings

    @classmethod
    def open(cls, dsn: str, *, wait_s: float | None = None, sleep: Callable[[float], None] = time.sleep) -> Self:
        """Connect as `Ledger.open` does, which must not have the same embedded ledger open in this process: ReaderUnsafe."""
        door = Door.of(dsn)
        client, leave = door.enter(reader=True, wait_s=wait_s, sleep=sleep)
        with ExitStack() as unless_open, failing("query", OSError):
            unless_open.callback(leave)
            level = int(client.query("SELECT value FROM system.settings WHERE name = 'readonly'").result_rows[0][0])
            if door.directory is not None and level != 2:
                raise ReaderUnsafe(door.where)
            client.database = DATABASE
            unless_open.pop_all()
        # A user whom the administrator made read-only cannot change settings, and need not.
        return cls(client, leave, {} if level else dict(_SERVER_SETTINGS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def ask(self, sql: str, form: Form) -> bytes:
        """The answer to one statement, whole, as the engine writes it. QueryRefused when it does not only read, QueryFailed when it fails."""
        with failing("query"):
            parsed = self._client.query("SELECT formatQuery({sql:String})", parameters={"sql": sql})
        statement = str(parsed.result_rows[0][0])
        _must_read(statement)
        with failing("query"), closing(self._answer(statement, form)) as stream:
            answer = bytearray()
            while piece := stream.read(_PIECE):
                answer += piece
                if len(answer) > MOST_BYTES:
                    raise QueryFailed("query", f"its answer has more than {MOST_BYTES >> 20} MiB; ask for less of it")
            return bytes(answer)

    def _answer(self, statement: str, form: Form) -> IOBase:
        if statement.startswith(_ROWS):
            return cast("IOBase", self._client.raw_stream(statement, fmt=form, settings=self._settings))
        # The embedded engine streams nothing else; lists of tables are short.
        return BytesIO(self._client.raw_query(statement, fmt=form, settings=self._settings))


def _must_read(statement: str) -> None:
    """`statement` is in the engine's own spelling: no comments, keywords in capitals, one clause a line."""
    if not statement.startswith(_READS):
        raise QueryRefused(f"it begins with {statement.split(None, 1)[0]!r}")
    bare = _QUOTED.sub("''", statement)
    if (clause := _CLAUSE.search(bare)) is not None:
        raise QueryRefused(f"{clause[1]} is not taken, the answer goes to the standard output")
    if _FILE.search(bare):
        raise QueryRefused("it reads a file")

"""From a DSN to a connection: a server over HTTP, or chDB in this process with its data in a directory that one process has at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit, urlunsplit
from xml.sax.saxutils import escape

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from billing.store.cluster import SETTINGS
from billing.store.errors import LedgerBusy, LedgerUnreachable, QueryFailed
from billing.store.lock import Held, lock

log = logging.getLogger(__name__)

DATABASE: Final = "loraledger"
WAIT_S: Final = 30.0
"""How long an embedded ledger that another process has is waited for, unless the DSN says `?wait_s=`."""
_LONGEST_WAIT_S: Final = 86_400.0
_ADVICE: Final = "the DSN must look like chdb:///var/lib/loraledger or http(s)://user:password@host:8443"
RUNS: Final = "check the address, the credentials and that it runs"
_DISK: Final = "check that the directory is one and may be written"


@dataclass(frozen=True, slots=True)
class Door:
    """Where a ledger is. `directory` is that of an embedded one, `address` the DSN of a server."""

    where: str
    """The DSN without its password."""
    directory: Path | None = None
    address: str = ""
    cluster: str | None = None
    wait_s: float = WAIT_S

    @classmethod
    def of(cls, dsn: str) -> Self:
        """LedgerUnreachable when it is not the DSN of a ledger."""
        parts = urlsplit(dsn)
        asked = parse_qs(parts.query)
        if parts.scheme == "chdb":
            path = Path(parts.path)
            if parts.netloc or not parts.path or path == Path("/"):
                raise LedgerUnreachable(dsn, "a chdb DSN needs three slashes and an absolute directory", _ADVICE)
            where = f"chdb://{path}"
            return cls(where, path, wait_s=_seconds(where, asked.get("wait_s", [str(WAIT_S)])[-1]))
        if parts.scheme in ("http", "https") and parts.hostname:
            where = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
            cluster = next(iter(asked.get("cluster", ())), None)
            if cluster is not None and not cluster.isidentifier():
                raise LedgerUnreachable(where, f"{cluster!r} is not the name of a cluster", _ADVICE)
            return cls(where, None, urlunsplit(parts._replace(query="")), cluster)
        raise LedgerUnreachable(parts.scheme or dsn or "(empty)", "not a ledger DSN", _ADVICE)

    def enter(
        self,
        *,
        reader: bool = False,
        wait_s: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> tuple[Client, Callable[[], None]]:
        """A connection, and what to call to leave it. An embedded engine that starts for a `reader` has no user that may write.

        LedgerBusy when another process keeps an embedded ledger; LedgerUnreachable when nothing answers.
        """
        if self.directory is None:
            client = self._server()
            return client, client.close
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            let_go = lock(self.directory, self.wait_s if wait_s is None else wait_s, sleep, self._say)
        except Held as held:
            raise LedgerBusy(self.where, held.holder, held.pid) from held
        except OSError as error:
            raise LedgerUnreachable(self.where, error.strerror or str(error), _DISK) from error
        with ExitStack() as leave, self.reached(_DISK):
            leave.callback(let_go)
            client = self._embedded(reader)
            leave.callback(client.close)
            return client, leave.pop_all().close

    @contextmanager
    def reached(self, advice: str) -> Iterator[None]:
        """LedgerUnreachable, with the advice, when nothing answers."""
        try:
            yield
        except (ClickHouseError, OSError) as error:
            raise LedgerUnreachable(self.where, first_line(error), advice) from error

    def _say(self, fact: str) -> None:
        log.warning("ledger %s: %s", self.where, fact)

    def _embedded(self, reader: bool) -> Client:
        with ExitStack() as stack:
            users = stack.enter_context(resources.as_file(resources.files("billing.store") / "engine" / "readers.xml"))
            config = stack.enter_context(NamedTemporaryFile("w", suffix=".xml", encoding="utf-8"))
            # Named in any case: without one the engine takes a config.xml of the working directory, whosever it is.
            own = f"<users_config>{escape(str(users))}</users_config>" if reader else ""
            config.write(f"<clickhouse>{own}</clickhouse>")
            config.flush()
            return clickhouse_connect.get_client(
                interface="chdb", path=str(self.directory), tz_mode="aware", chdb_options={"config-file": config.name}
            )

    def _server(self) -> Client:
        settings: dict[str, Any] = dict(SETTINGS) if self.cluster else {}
        with self.reached(RUNS):
            return clickhouse_connect.get_client(
                dsn=self.address, tz_mode="aware", connect_timeout=5, settings=settings
            )


@contextmanager
def failing(what: str, fault: type[Exception] = ClickHouseError) -> Iterator[None]:
    """QueryFailed, naming `what` failed, when the database refuses it, or there is such a `fault`."""
    try:
        yield
    except (ClickHouseError, fault) as error:
        raise QueryFailed(what, first_line(error)) from error


def first_line(error: Exception) -> str:
    """What a person needs of a driver's error: no stack, no address of ours, one line."""
    text = " ".join(str(error).split())
    for marker in (" Stack trace", ", Stack trace", " (for url", " (version ", ": In scope SELECT formatQuery"):
        text = text.split(marker, 1)[0]
    if "Caused by" in text:
        text = text.rsplit(": ", 1)[-1].split(")", 1)[0].strip("\"' ")
    return text[:400]


def _seconds(where: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_WAIT_S:
        raise LedgerUnreachable(where, f"wait_s={text!r} is not a number of seconds up to a day", _ADVICE)
    return seconds

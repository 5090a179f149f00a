"""The engine's process is killed under a gateway that lives on: what clients see, what is started, and what the books say of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psutil
import pytest

from billing.close.reconcile import Reconciliation
from catalog.owners import TimeOwner
from loraledger.books import Books
from loraledger.child import ServeProcess
from loraledger.settings import Settings
from tests.fakes.busy import stretched

pytestmark = pytest.mark.engine

UP_S = 120.0
LAST_STEP_NS = 100_000_000


@dataclass
class Life:
    """What was seen from outside, and what the ledger says."""

    replies: dict[str, httpx.Response] = field(default_factory=dict)
    streamed: str = ""
    stream_id: str = ""
    children: list[list[str]] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    resident: list[list[str]] = field(default_factory=list)
    scrape: str = ""
    status: int | None = None
    usage: dict[str, dict[str, Any]] = field(default_factory=dict)
    reconciliation: Reconciliation | None = None


def _ask(client: httpx.Client, model: str = "tiny-llama", **more: Any) -> httpx.Response:
    tenant = "clinic" if model != "tiny-llama" else "campus"
    body = {"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}], **more}
    return client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer demo-key-{tenant}"})


def _stream(client: httpx.Client, life: Life, begun: threading.Event) -> None:
    """One long stream, read until it ends."""
    body = {
        "model": "tiny-llama",
        "max_tokens": 900,
        "ignore_eos": True,
        "stream": True,
        "messages": [{"role": "user", "content": "go on"}],
    }
    headers = {"authorization": "Bearer demo-key-freeride"}
    with client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as reply:
        life.stream_id = reply.headers["x-request-id"]
        for line in reply.iter_lines():
            life.streamed += line + "\n"
            if life.streamed.count("data:") > 4:
                begun.set()


def _engine(server: ServeProcess) -> psutil.Process:
    (engine,) = (child for child in psutil.Process(server.pid).children() if "EngineCore" in child.name())
    return engine


def _until(true: Callable[[], bool], limit_s: float = UP_S) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _count(server: ServeProcess, client: httpx.Client, life: Life) -> None:
    process = psutil.Process(server.pid)
    life.children.append(sorted(child.name() for child in process.children(recursive=True)))
    life.descriptors.append(process.num_fds())
    life.resident.append(client.get("/health").json()["engine"]["resident"])


def _lose(server: ServeProcess, client: httpx.Client, life: Life, how: signal.Signals) -> None:
    """Lose the engine under a stream, and wait until another one serves."""
    begun = threading.Event()
    streaming = threading.Thread(target=_stream, args=(client, life, begun))
    streaming.start()
    assert begun.wait(30)
    os.kill(_engine(server).pid, how)
    streaming.join()
    _until(lambda: client.get("/health").status_code == 503)
    life.replies["meanwhile"] = _ask(client)
    _until(lambda: client.get("/health").status_code == 200)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    home = tmp_path_factory.mktemp("lost")
    settings = Settings.from_environ({**os.environ, "LORALEDGER_HOME": str(home)})
    life = Life()
    with ServeProcess(settings, lambda _: None) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        life.replies["before"] = _ask(client)
        _ask(client, "clinic-tone")
        _count(server, client, life)
        for _ in range(2):
            _lose(server, client, life, signal.SIGKILL)
            life.replies["after"] = _ask(client)
            life.replies["adapter after"] = _ask(client, "clinic-tone")
            _until(lambda: len(client.get("/health").json()["engine"]["resident"]) == 4)
            _count(server, client, life)
        life.scrape = client.get("/metrics").text
        life.status = server.stop()
    _book(settings, life)
    return life


def _book(settings: Settings, life: Life) -> None:
    books = replace(Books.of(settings), clock=lambda: datetime.now(UTC) + timedelta(minutes=1))
    books.ingest([])
    month = books.current_month()
    books.month(month, issue=False)
    with books.open() as ledger:
        rows = ledger.ask(
            "SELECT request_id, status, http_status, output_tokens_computed, base_ns + adapter_ns AS ns FROM usage"
        ).dicts()
    life.usage = {row["request_id"]: row for row in rows}
    life.reconciliation = books.reconcile(month)


def test_the_next_requests_are_answered_without_anybody_doing_anything(life: Life) -> None:
    assert [life.replies[name].status_code for name in ("before", "after", "adapter after")] == [200, 200, 200]


def test_meanwhile_a_client_is_told_at_once_when_to_come_back(life: Life) -> None:
    reply = life.replies["meanwhile"]
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "engine_restarting")
    assert 1 <= int(reply.headers["retry-after"]) <= 120


def test_a_stream_in_the_lost_engine_ends_as_our_error_with_what_was_measured(life: Life) -> None:
    assert '"error"' in life.streamed
    row = life.usage[life.stream_id]
    assert row["status"] == "server_error"
    assert row["ns"] > 0
    assert row["output_tokens_computed"] > 0


def test_the_warm_adapters_are_loaded_again_and_the_others_at_their_next_use(life: Life) -> None:
    assert life.resident[1] == life.resident[2] == life.resident[0]


def test_on_call_can_hear_it(life: Life) -> None:
    assert 'loraledger_engine_restarts_total{engine="cpu-0"} 2.0' in life.scrape
    assert 'loraledger_engine_up{engine="cpu-0"} 1.0' in life.scrape


def test_no_process_and_no_descriptor_of_the_dead_is_left(life: Life) -> None:
    assert life.children[1] == life.children[2]
    assert life.descriptors[2] <= life.descriptors[1]
    assert life.status == 0


def test_every_attempt_has_its_record_and_every_nanosecond_its_owner(life: Life) -> None:
    assert {reply.headers["x-request-id"] for reply in life.replies.values()} <= life.usage.keys()
    assert "lost" not in {row["status"] for row in life.usage.values()}
    found = life.reconciliation
    assert found is not None
    found.check()
    assert found.owners[TimeOwner.DOWN] > 0
    assert found.uneven_attempts == 0
    # Between the last word of an engine and its death there is a part of one step, twice.
    assert found.owners[TimeOwner.UNATTRIBUTED] <= 2 * LAST_STEP_NS


def test_under_a_supervisor_the_gateway_ends_and_its_records_are_written(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("supervised")
    environment = {**os.environ, "LORALEDGER_HOME": str(home), "LORALEDGER_SUPERVISED": "1"}
    settings, life, begun = Settings.from_environ(environment), Life(), threading.Event()
    with ServeProcess(settings, lambda _: None) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        streaming = threading.Thread(target=_stream, args=(client, life, begun))
        streaming.start()
        assert begun.wait(30)
        os.kill(_engine(server).pid, signal.SIGKILL)
        killed = time.monotonic()
        assert server.wait(60) == 1
        took = time.monotonic() - killed
        streaming.join()
    assert took < stretched(10)
    _book(settings, life)
    assert [row["status"] for row in life.usage.values()] == ["server_error"]

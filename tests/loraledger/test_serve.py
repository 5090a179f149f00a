"""`loraledger serve` with clients that do not behave: it ends in order and in time, and everything is written."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("vllm")

from loraledger.child import ServeProcess
from loraledger.settings import Settings
from telemetry.names import Attr, EventName
from telemetry.otlp_decode import parse_line
from telemetry.spool import read_spool
from telemetry.usage import ErrorType, Status, UsageRecord
from tests.fakes.busy import stretched

pytestmark = pytest.mark.engine
FILLING_S = 12.0
"""Until every buffer between the engine and a client that does not read is full."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "catalog.yaml"


def client(url: str, body: dict[str, object], sent: int = 1 << 20) -> socket.socket:
    """A request whose reply is never read, and of whose body only so much is sent."""
    raw = json.dumps(body).encode()
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        "host: x",
        "authorization: Bearer demo-key-freeride",
        f"content-length: {len(raw)}",
    )
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.connect((urlsplit(url).hostname, urlsplit(url).port))
    found.sendall("\r\n".join([*lines, "", ""]).encode() + raw[:sent])
    return found


def test_it_ends_in_order_within_15_seconds_whatever_its_clients_do(tmp_path: Path) -> None:
    models = Path(tempfile.gettempdir()) / f"loraledger-tests-{os.getuid()}" / "models"
    models.mkdir(parents=True, exist_ok=True)
    (tmp_path / "models").symlink_to(models)
    settings = Settings.from_environ({"LORALEDGER_HOME": str(tmp_path), "LORALEDGER_CATALOG": str(EXAMPLE)})
    body: dict[str, object] = {
        "model": "tiny-llama",
        "messages": [{"role": "user", "content": "on and on"}],
        "max_tokens": 900,
        "ignore_eos": True,
        "stream": True,
        "n": 3,
    }
    with contextlib.ExitStack() as stack, ServeProcess(settings, lambda _: None) as server:
        for _ in range(10):
            stack.enter_context(client(server.url, body))
            stack.enter_context(client(server.url, body, sent=20))
            stack.enter_context(client(server.url, body, sent=0))
        stack.enter_context(socket.create_connection((urlsplit(server.url).hostname, urlsplit(server.url).port)))
        for _ in range(20):
            assert httpx.post(f"{server.url}/v1/chat/completions", json=body).status_code == 401
        time.sleep(FILLING_S)
        began = time.monotonic()
        assert server.stop() == 0, server.log.read_text()
        assert time.monotonic() - began < stretched(15)
    lines = [parse_line(line) for _, line in read_spool(settings.spool)]
    texts = [span.span_attributes.get(Attr.USAGE_RECORD) for line in lines for span in line.spans]
    records = [UsageRecord.from_json(text) for text in texts if text is not None]
    opened = [event for line in lines for event in line.events if event.name == EventName.OPENED]
    assert sorted(record.seq for record in records) == list(range(len(opened)))
    served = [record for record in records if record.output_tokens_computed]
    assert len(served) == 10
    # How many had filled every buffer by then depends on the machine; whoever had not was given its time to end.
    ends = {(record.status, record.error_type) for record in served}
    slow, ours = (Status.CLIENT_ABORT, ErrorType.CLIENT_SLOW), (Status.SERVER_ERROR, ErrorType.ENGINE_ERROR)
    assert ends <= {slow, ours}
    assert all(record.slices for record in served)
    unauthenticated = [record for record in records if record.tenant == "unauthenticated"]
    assert sum(record.attempt for record in unauthenticated) == 20
    assert len(unauthenticated) == 2
    assert len([record for record in records if record.status is Status.BAD_REQUEST]) == 20
    events = {event.name for line in lines for event in line.events}
    assert EventName.SESSION in events
    assert not (tmp_path / "serve.json").exists()

"""Where the alerts of the page come from, over a real socket."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.model import Catalog
from loraledger.books import Books
from loraledger.page.write import write_report
from loraledger.settings import Settings

FIRING = {
    "labels": {"alertname": "LoraEngineDown", "severity": "critical", "engine": "cpu-0"},
    "annotations": {"summary": "Engine cpu-0 does not answer", "runbook_url": "https://runbooks.example.com/LoraEngineDown"},
    "state": "firing",
    "activeAt": "2026-10-05T10:00:00Z",
}  # fmt: skip


@pytest.fixture
def prometheus() -> Iterator[tuple[str, dict[str, Any]]]:
    answers: dict[str, Any] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answers.get(self.path)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    thread.join()
    server.server_close()


def test_prometheus_tells_the_alerts_and_when_it_cannot_the_page_says_so(
    prometheus: tuple[str, dict[str, Any]], example: Catalog, tmp_path: Path
) -> None:
    address, answers = prometheus
    settings = Settings.from_environ({"LORALEDGER_HOME": str(tmp_path)})
    books, out = Books(settings, example), tmp_path / "new" / "report.html"
    answers["/api/v1/alerts"] = {"status": "success", "data": {"alerts": [FIRING]}}
    asked = write_report(books, "2026-10", out, f"{address}/")
    assert [alert.name for alert in asked.alerts.active] == ["LoraEngineDown"]
    assert "https://runbooks.example.com/LoraEngineDown" in out.read_text()
    answers.clear()
    for broken in (address, "http://127.0.0.1:9", "not an address"):
        page = write_report(books, "2026-10", out, broken)
        assert page.alerts.active == ()
        assert page.alerts.trouble is not None
        assert page.alerts.trouble.startswith(f"Prometheus at {broken} could not be asked")
        assert "could not be asked" in out.read_text()
    assert write_report(books, "2026-10", out, None).alerts.trouble is None

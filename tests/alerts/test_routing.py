"""Alertmanager itself judges who hears what, and what silences what."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from alerts.generate import GENERATED

CONFIG = GENERATED / "alertmanager.yaml"
pytestmark = pytest.mark.skipif(
    shutil.which("amtool") is None, reason="amtool is not installed: apt-get install prometheus-alertmanager"
)


def _amtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["amtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def test_the_configuration_is_valid() -> None:
    done = _amtool("check-config", CONFIG)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "page"), ("warning", "ticket"), ("info", "ticket")])
def test_red_pages_and_everything_else_is_a_ticket(severity: str, receiver: str) -> None:
    assert (
        _amtool("config", "routes", "test", f"--config.file={CONFIG}", f"severity={severity}").stdout.strip()
        == receiver
    )


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("alertmanager is not installed: apt-get install prometheus-alertmanager")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [
        program,
        f"--config.file={CONFIG}",
        f"--storage.path={tmp_path}",
        f"--web.listen-address={url[7:]}",
        "--cluster.listen-address=",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(f"{url}/-/ready")
            yield url
        finally:
            process.terminate()


def _wait(url: str) -> None:
    for _ in range(100):
        with contextlib.suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.1)
    raise TimeoutError(url)


def test_red_silences_the_yellow_of_the_same_tenant_only(alertmanager: str) -> None:
    common = {"service": "loraledger", "promise": "latency"}
    posted = [
        {"labels": {**common, "alertname": "LoraTenantLatencyRed", "severity": "critical", "tenant": "clinic"}},
        {"labels": {**common, "alertname": "LoraTenantLatencyYellow", "severity": "warning", "tenant": "clinic"}},
        {"labels": {**common, "alertname": "LoraTenantLatencyYellow", "severity": "warning", "tenant": "bank"}},
        {
            "labels": {
                **common,
                "promise": "budget",
                "alertname": "LoraErrorBudgetBurnSlow",
                "severity": "warning",
                "tenant": "clinic",
            }
        },
    ]
    request = urllib.request.Request(
        f"{alertmanager}/api/v2/alerts", json.dumps(posted).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=5):
        pass
    inhibited: set[tuple[str, str]] = set()
    for _ in range(100):
        with urllib.request.urlopen(f"{alertmanager}/api/v2/alerts", timeout=5) as answer:
            found = json.load(answer)
        inhibited = {(a["labels"]["alertname"], a["labels"]["tenant"]) for a in found if a["status"]["inhibitedBy"]}
        if inhibited:
            break
        time.sleep(0.1)
    assert inhibited == {("LoraTenantLatencyYellow", "clinic")}

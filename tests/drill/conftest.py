"""What a drill needs: real Prometheus and Alertmanager on compressed rules, a receiver that notes what arrives, steady load."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
import pytest

from alerts.generate import to_yaml
from alerts.promises import DEFAULT
from alerts.routing import alertmanager, prometheus
from alerts.rules import rule_file

FASTER = 60
"""In the drill a minute of the rules is a second."""
TARGET_GONE_S = 8
"""A scrape takes as long here as anywhere, and may take no longer than the second between two of them: several must fail."""
SYSTEM_OF_A_TRICKLE, DRIFT_OF_A_TRICKLE = Decimal("0.15"), Decimal("2")
"""The drill's everyday load is one short request at a time. A step of one row of the tiny model takes a few milliseconds, and after a
pause it finds cold caches: it takes about twice what the model of a busy engine predicts, and the engine's loop and empty steps are about
5 % of it, where 1 % holds for an engine with work."""
PATIENCE_S = 60.0
CHAT = "/v1/chat/completions"
AT_ONCE = 24


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(condition: Callable[[], Any], what: Callable[[], str], within_s: float = PATIENCE_S) -> Any:
    """What `condition` returns once it is true; connection errors mean not yet."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            if found := condition():
                return found
        time.sleep(0.05)
    raise TimeoutError(f"not within {within_s:g} s: {what()}")


@dataclass(frozen=True)
class Notice:
    """One alert that began or ended, as a receiver heard of it `at` seconds after the receiver began."""

    at: float
    receiver: str
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def name(self) -> str:
        return self.labels["alertname"]


class Receiver:
    """An HTTP server that takes Alertmanager's webhooks and keeps each alert's changes, not its repetitions."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.notices: list[Notice] = []
        self._state: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        hear = self._hear

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hear(self.path.strip("/"), json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.end_headers()

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def _hear(self, receiver: str, message: dict[str, Any]) -> None:
        with self._lock:
            for alert in message["alerts"]:
                key = receiver, alert["fingerprint"]
                if self._state.get(key) != alert["status"]:
                    self._state[key] = alert["status"]
                    at = round(time.monotonic() - self.began, 1)
                    self.notices.append(Notice(at, receiver, alert["status"], alert["labels"], alert["annotations"]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Program:
    """A server as a child process; leaving ends it, and only it."""

    def __init__(self, command: list[str], ready: str, log: Path) -> None:
        self._command, self._ready, self._log = command, ready, log

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "GOMAXPROCS": "2"}
            )
        try:
            wait_for(self._answers, lambda: self._command[0])
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
        return httpx.get(self._ready, timeout=2).status_code == 200

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Watch:
    """Prometheus and Alertmanager watching one gateway by the project's rules, `FASTER` times faster; on-call hears at `receiver`."""

    def __init__(self, directory: Path, target: str) -> None:
        self._directory, self._target = directory, target
        faster = DEFAULT.compressed(FASTER)
        self._promises = replace(
            faster,
            fleet=replace(faster.fleet, target_gone_for=TARGET_GONE_S),
            ledger=replace(faster.ledger, system=SYSTEM_OF_A_TRICKLE, drift=DRIFT_OF_A_TRICKLE),
        )
        self.receiver = Receiver()
        self.causes: dict[str, float] = {}
        self._stack = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        self._stack.enter_context(self.receiver)
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        """Rules are judged from the first scrape on: before it every target is absent, and would be reported."""
        pager, own = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.url = f"http://{own}"
        calls = alertmanager(f"{self.receiver.url}/page", f"{self.receiver.url}/ticket", FASTER)
        self._write("alertmanager.yaml", calls)
        self._write("prometheus.yaml", prometheus(self._promises, (self._target,), (pager,)))
        self._write("rules.yaml", {"groups": []})
        program = shutil.which("prometheus-alertmanager") or "alertmanager"
        flags = [f"--config.file={self._directory}/alertmanager.yaml", f"--storage.path={self._directory}/alertmanager"]
        flags += [f"--web.listen-address={pager}", "--cluster.listen-address="]
        self._enter([program, *flags], f"http://{pager}/-/ready", "alertmanager.log")
        flags = [f"--config.file={self._directory}/prometheus.yaml", f"--storage.tsdb.path={self._directory}/tsdb"]
        flags += [f"--web.listen-address={own}", "--web.enable-lifecycle", "--log.level=warn"]
        self._enter(["prometheus", *flags], f"{self.url}/-/ready", "prometheus.log")
        wait_for(
            lambda: self.query("up == 1") and self.ask("alertmanagers")["activeAlertmanagers"], lambda: "first scrape"
        )
        self._write("rules.yaml", rule_file(self._promises))
        httpx.post(f"{self.url}/-/reload", timeout=10).raise_for_status()

    def _write(self, name: str, value: dict[str, Any]) -> None:
        (self._directory / name).write_text(to_yaml(value))

    def _enter(self, command: list[str], ready: str, log: str) -> None:
        self._stack.enter_context(Program(command, ready, self._directory / log))

    def ask(self, path: str, **parameters: str) -> Any:
        """Prometheus' own answer; AssertionError with its words when it refuses."""
        answer = httpx.get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        """The series that an expression of rules or boards gives now."""
        plain = expression.replace("$__rate_interval", "1m").replace("$tenant", ".*")
        found: list[Any] = self.ask("query", query=plain)["result"]
        return found

    def cause(self, *alerts: str) -> None:
        """Note that what these alerts are about begins now."""
        self.causes |= dict.fromkeys(alerts, round(time.monotonic() - self.receiver.began, 1))

    def heard(self, status: str = "firing") -> list[Notice]:
        return [notice for notice in self.receiver.notices if notice.status == status]

    def expect(self, alert: str, status: str = "firing", within_s: float = PATIENCE_S, **labels: str) -> Notice:
        """The first notice of that alert; waits for it."""

        def found() -> Notice | None:
            fits = (n for n in self.heard(status) if n.name == alert and labels.items() <= n.labels.items())
            return next(fits, None)

        notice: Notice = wait_for(
            found, lambda: f"{alert} {status}, heard:\n{timeline(self.receiver.notices)}", within_s
        )
        return notice

    def settled(self, ignoring: Callable[[], frozenset[str]]) -> None:
        """Wait until everything that was heard has ended, apart from alerts of these names."""

        def ended() -> bool:
            ignored = ignoring()
            last = {(n.receiver, str(n.labels)): n for n in self.receiver.notices if n.name not in ignored}
            return all(notice.status == "resolved" for notice in last.values())

        wait_for(ended, lambda: f"the end of all alerts, heard:\n{timeline(self.receiver.notices)}")


def timeline(notices: list[Notice]) -> str:
    """One line a notice: when, who heard it, what of what."""
    names = ("tenant", "engine", "gpu", "owner", "window")
    return "\n".join(
        f"{n.at:7.1f} s  {n.receiver:<6}  {n.status:<8}  {n.name}  {' '.join(n.labels[k] for k in names if k in n.labels)}"
        for n in notices
    )


@dataclass(frozen=True)
class Ask:
    """One request. The body arrives `hold_s` after the head: its latency is that and a little, however busy the machine is."""

    tenant: str
    model: str = "tiny-llama"
    text: str = "hello there"
    max_tokens: int = 2
    hold_s: float = 0.0
    stream: bool = False


@dataclass
class Load:
    """Steady, bounded load on a gateway from a thread of its own; `statuses` counts the replies, 0 for none."""

    url: str
    statuses: Counter[int] = field(default_factory=Counter)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._open: set[asyncio.Task[None]] = set()
        self._client = httpx.AsyncClient(base_url=self.url, timeout=60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def play(self, name: str, asks: Iterator[Ask], every_s: float) -> None:
        """Send the next of `asks` every `every_s` seconds, whether earlier ones have ended or not."""
        self._run(self._begin(name, self._paced(asks, every_s)))

    def crowd(self, name: str, asks: Iterator[Ask], size: int) -> None:
        """Keep `size` of `asks` open all the time."""
        self._run(self._begin(name, self._crowd(asks, size)))

    def rest(self, *names: str) -> None:
        """Begin no more requests of these streams (of all, when none is named) and wait until nothing is open."""
        self._run(self._rest(names))

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    async def _begin(self, name: str, work: Any) -> None:
        self._streams[name] = asyncio.create_task(work)

    async def _paced(self, asks: Iterator[Ask], every_s: float) -> None:
        at = self._loop.time()
        for ask in asks:
            if len(self._open) < AT_ONCE:
                task = asyncio.create_task(self._send(ask))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
            at = max(at + every_s, self._loop.time())
            await asyncio.sleep(at - self._loop.time())

    async def _crowd(self, asks: Iterator[Ask], size: int) -> None:
        async def one() -> None:
            for ask in asks:
                await self._send(ask)

        await asyncio.gather(*(one() for _ in range(size)))

    async def _send(self, ask: Ask) -> None:
        body = {"model": ask.model, "max_tokens": ask.max_tokens, "ignore_eos": True, "stream": ask.stream}
        body["messages"] = [{"role": "user", "content": ask.text}]

        async def late() -> AsyncIterator[bytes]:
            await asyncio.sleep(ask.hold_s)
            yield json.dumps(body).encode()

        headers = {"authorization": f"Bearer demo-key-{ask.tenant}", "content-type": "application/json"}
        status = 0
        with suppress(httpx.HTTPError):
            status = (await self._client.post(CHAT, content=late(), headers=headers)).status_code
        self.statuses[status] += 1

    async def _rest(self, names: tuple[str, ...]) -> None:
        for name in names or tuple(self._streams):
            self._streams.pop(name).cancel()
        if not names:
            while self._open:
                await asyncio.wait(set(self._open))

    async def _end(self) -> None:
        await self._rest(())
        await self._client.aclose()


TIMELINE: Final = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show what on-call heard in the drill, when asked for more than dots."""
    if config.option.verbose > 0 and (timeline := config.stash.get(TIMELINE, "")):
        terminalreporter.section("what on-call heard (seconds since the gateway answered)")
        terminalreporter.write_line(timeline)


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Keep a timeline for the end of the test run."""

    def keep(timeline: str) -> None:
        pytestconfig.stash[TIMELINE] = timeline

    return keep


@pytest.fixture(scope="session")
def tools() -> None:
    """The real servers."""
    for program in ("prometheus", "prometheus-alertmanager"):
        if shutil.which(program) is None and shutil.which(program.removeprefix("prometheus-")) is None:
            pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="session")
def watch_of(tools: None) -> type[Watch]:
    """Prometheus and Alertmanager on a gateway."""
    return Watch


@pytest.fixture(scope="session")
def timeline_of() -> Callable[[list[Notice]], str]:
    """Notices as people read them."""
    return timeline


@pytest.fixture(scope="session")
def load_on() -> type[Load]:
    """Steady load on a gateway."""
    return Load


@pytest.fixture(scope="session")
def ask_of() -> type[Ask]:
    """A request of that load."""
    return Ask

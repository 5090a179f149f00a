"""Sends spans on to a collector, beside the spool. Nothing here makes a request wait: what the collector does not take in time is dropped and counted.

A spool line is an OTLP/JSON message already, so it is sent as it is, several in one message.
"""

from __future__ import annotations

import http.client
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from telemetry.tracing import LineSink

log = logging.getLogger(__name__)

PATH: Final = "/v1/traces"
_TAIL: Final = "]}"
_BATCH_BYTES: Final = 1 << 20

Post = Callable[[bytes], int]
"""Sends one message; the HTTP status. OSError or HTTPException when there was no answer."""


class Signal(NamedTuple):
    """Where lines of one kind go, and how a line of that kind begins."""

    path: str
    head: str


TRACES: Final = Signal(PATH, '{"resourceSpans":[')
LOGS: Final = Signal("/v1/logs", '{"resourceLogs":[')


class Forwarder:
    """A bounded queue of lines and one thread that posts them to `endpoint` (such as http://127.0.0.1:4318).

    A message that gets no answer, 429 or 5xx is sent again after `retry_s`, up to `tries` times; one that is refused is
    dropped. At most `queue_bytes` wait, and a line waits `linger_s` for others to go with it. ValueError for an endpoint that is not HTTP.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        queue_bytes: int = 8 << 20,
        timeout_s: float = 5.0,
        retry_s: float = 1.0,
        linger_s: float = 0.2,
        tries: int = 5,
        post: Post | None = None,
        signal: Signal = TRACES,
    ) -> None:
        self.sent = 0
        """Lines that the collector took."""
        self.dropped = 0
        """Lines that it never got: the queue was full, or it refused them."""
        self._queue_bytes, self._retry_s, self._tries = queue_bytes, retry_s, tries
        self._linger_s = linger_s
        self._signal = signal
        self._poster = _Poster(endpoint, timeout_s, signal.path)
        self._post = post or self._poster
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        # Lines that come while one lingers must not wake the sender.
        self._ended = threading.Condition(lock)
        self._waiting: deque[str] = deque()
        self._held_bytes = 0
        self._closing = self._given_up = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="otlp-forwarder", daemon=True)
        self._thread.start()

    def offer(self, line: str) -> bool:
        """Queue a line (one that holds spans, unless `signal` says otherwise); False when it was dropped. Returns at once."""
        with self._changed:
            if self._closing or self._held_bytes + len(line) > self._queue_bytes:
                self.dropped += 1
                return False
            self._waiting.append(line)
            self._held_bytes += len(line)
            if len(self._waiting) == 1:
                self._changed.notify_all()
            return True

    def close(self, grace_s: float = 2.0) -> None:
        """Send what waits for at most `grace_s`, drop the rest and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._ended.notify_all()
            self._changed.wait_for(lambda: not self._held_bytes, grace_s)
            self._given_up = True
            self._ended.notify_all()
        self._thread.join(grace_s)
        with self._changed:
            self.dropped += len(self._waiting)
            self._waiting.clear()

    def _run(self) -> None:
        while batch := self._next_batch():
            size = sum(map(len, batch))
            inner = ",".join(line[len(self._signal.head) : -len(_TAIL)] for line in batch)
            taken = self._deliver((self._signal.head + inner + _TAIL).encode())
            with self._changed:
                self._held_bytes -= size
                self.sent += len(batch) if taken else 0
                self.dropped += 0 if taken else len(batch)
                self._changed.notify_all()
        self._poster.close()

    def _next_batch(self) -> list[str]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._ended.wait_for(lambda: self._closing, self._linger_s)
            if self._given_up or not self._waiting:
                return []
            batch = [self._waiting.popleft()]
            size = len(batch[0])
            while self._waiting and size + len(self._waiting[0]) <= _BATCH_BYTES:
                size += len(self._waiting[0])
                batch.append(self._waiting.popleft())
            return batch

    def _deliver(self, message: bytes) -> bool:
        for _ in range(self._tries):
            try:
                status = self._post(message)
            except (OSError, http.client.HTTPException) as error:
                self._say(f"no answer: {error or type(error).__name__}")
            else:
                if status < 300:
                    self._failing = False
                    return True
                self._say(f"status {status}")
                if status != 429 and status < 500:
                    return False
            with self._changed:
                if self._ended.wait_for(lambda: self._given_up, self._retry_s):
                    return False
        return False

    def _say(self, fact: str) -> None:
        """Warn of the first message that fails after one that was taken; the others of the outage are logged for debugging."""
        log.log(logging.DEBUG if self._failing else logging.WARNING, "could not send to the collector: %s", fact)
        self._failing = True


class Both:
    """A sink of lines that also offers them to a forwarder. Durable means: in the spool."""

    def __init__(self, spool: LineSink, forwarder: Forwarder) -> None:
        self._spool, self._forwarder = spool, forwarder

    def append(self, line: str) -> Future[None]:
        """Queue the line for both; the future is the spool's."""
        future = self._spool.append(line)
        self._forwarder.offer(line)
        return future


class _Poster:
    """One connection to the collector, kept open."""

    def __init__(self, endpoint: str, timeout_s: float, path: str) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"could not use collector {endpoint!r}: it must look like http://127.0.0.1:4318")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._path = parts.path.rstrip("/").removesuffix(path) + path
        self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)

    def __call__(self, message: bytes) -> int:
        try:
            self._connection.request("POST", self._path, message, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            answer.read()
        except BaseException:
            self.close()
            raise
        return answer.status

    def close(self) -> None:
        """Close the connection; the next message opens another one."""
        self._connection.close()

"""The one-way channel from the engine process to the collector: never blocks the engine, and shows what it lost.

Every frame is MessagePack `[number, type name, fields]`. Numbers count what the sender wanted to send, so a hole in them is
exactly what did not arrive. A step is told by column, and its requests only when they are not those of the step before it:
a batch that decodes stays the same for many steps, and its names are most of a frame.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

import msgspec
import zmq

from serving.errors import ChannelClosed, EventInvalid
from serving.metering import events
from serving.metering.events import Event, LoadSpan, Mark, Row, Rows, Step


class Held(NamedTuple):
    """What the engine holds now: KV blocks in use, of how many; served names in device slots and in the host tier.

    Not accounting.
    """

    kv_blocks_used: int
    kv_blocks_total: int
    slots: tuple[str, ...]
    host: tuple[str, ...] = ()


class Ended(NamedTuple):
    """A `Step` on its way: the same fields in the same order, its rows by column."""

    seq: int
    start_ns: int
    end_ns: int
    rows: Rows
    cached: tuple[tuple[str, int], ...]
    finished: tuple[str, ...]
    preempted: tuple[str, ...]
    loads: tuple[LoadSpan, ...]
    work_left: bool
    marks: tuple[Mark, ...] = ()
    aborted: tuple[str, ...] = ()

    def step(self) -> Step:
        """The event that the accountant takes; ValueError when its columns differ in length."""
        rows = tuple(map(Row, *_even(self.rows)))
        return Step(
            self.seq,
            self.start_ns,
            self.end_ns,
            rows,
            self.cached,
            self.finished,
            self.preempted,
            self.loads,
            self.work_left,
            self.marks,
            self.aborted,
        )


class _Word(Enum):
    """What the sending thread is told besides messages."""

    SKIP = "skip"
    END = "end"


Message = Event | Held
Told = Message | Ended
"""What the engine's end takes; the collector's end gives a Step for an Ended."""

_KINDS: Final[dict[str, Any]] = {
    kind.__name__: kind
    for kind in (
        events.Hello,
        events.Entered,
        events.Step,
        events.Aborted,
        events.Woke,
        events.Loaded,
        events.Bye,
        Held,
        Ended,
    )
}
_DECODERS: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    name: msgspec.msgpack.Decoder(kind) for name, kind in _KINDS.items()
}
_FRAME: Final = msgspec.msgpack.Decoder(tuple[int, str, msgspec.Raw])
_ENCODER: Final = msgspec.msgpack.Encoder()
_HIGH_WATER: Final = 100_000
"""Frames kept while the collector is away: minutes of steps, some tens of megabytes."""
_LINGER_MS: Final = 2_000
_LOOK_S: Final = 0.004
_LOOKS: Final = 50


def encode(number: int, message: Told) -> bytes:
    """One frame."""
    return _ENCODER.encode((number, type(message).__name__, message))


def decode(frame: bytes) -> tuple[int, Told]:
    """(number, message) of a frame; EventInvalid when it is not one of ours."""
    try:
        number, kind, raw = _FRAME.decode(frame)
        message: Told = _DECODERS[kind].decode(raw)
        return number, message
    except msgspec.DecodeError as error:
        raise EventInvalid(str(error)) from error
    except KeyError as error:
        raise EventInvalid(f"unknown type {error}") from error


class Sender:
    """The engine's end. `lost` counts messages that could not be sent; each leaves a hole in the numbers.

    A thread of its own encodes and sends: a socket call in the engine's thread would let go of the interpreter lock, and
    the engine would stand until the threads that wait for it had their turn. While there is something to say that thread
    looks every few milliseconds rather than be woken, since whom the engine's thread wakes may take its processor.
    What is handed over must not change any more.
    """

    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.SNDHWM, _HIGH_WATER)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._let_go()
            raise ChannelClosed(address, str(error)) from error
        self._number = 0
        self._requests: Sequence[str] = ()
        self._queue: SimpleQueue[Told | _Word] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="meter-sender", daemon=True)
        self._thread.start()
        self.lost = 0
        self.cpu_ns = 0
        """Processor time of the sending thread; 0 where that cannot be known."""

    def send(self, message: Told) -> None:
        """Hand the message over at once, or count it as lost; never waits."""
        self._queue.put(message if self._queue.qsize() < _HIGH_WATER else _Word.SKIP)

    def skip(self) -> None:
        """Leave a hole: something should have been sent and could not be said."""
        self._queue.put(_Word.SKIP)

    def close(self) -> None:
        """Send what is queued (two seconds at most, and two for what the socket holds) and let go."""
        self._queue.put(_Word.END)
        self._thread.join(_LINGER_MS / 1000)
        if not self._thread.is_alive():
            self._let_go()

    def _let_go(self) -> None:
        self._socket.close()
        self._context.term()

    def _run(self) -> None:
        while (message := self._next()) is not _Word.END:
            number, self._number = self._number, self._number + 1
            try:
                if isinstance(message, _Word):
                    self.lost += 1
                elif isinstance(message, Ended):
                    self._send_step(number, message)
                else:
                    self._socket.send(encode(number, message), zmq.NOBLOCK)
            except Exception:
                # A full socket, or a message that no frame can hold: the hole in the numbers tells it.
                self.lost += 1
            self.cpu_ns = time.thread_time_ns()

    def _next(self) -> Told | _Word:
        for _ in range(_LOOKS):
            try:
                return self._queue.get_nowait()
            except Empty:
                time.sleep(_LOOK_S)
        return self._queue.get()

    def _send_step(self, number: int, step: Ended) -> None:
        requests, tokens, before = step.rows
        known, self._requests = self._requests, ()
        if requests and requests == known:
            step = step._replace(rows=Rows((), tokens, before))
        self._socket.send(encode(number, step), zmq.NOBLOCK)
        self._requests = requests


class Receiver:
    """The collector's end, bound to `address`. `gaps` counts messages that never arrived."""

    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.setsockopt(zmq.RCVHWM, _HIGH_WATER)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self.close()
            raise ChannelClosed(address, str(error)) from error
        self._expected = 0
        self._requests: Sequence[str] = ()
        self.gaps = 0

    def wait(self, timeout_s: float) -> bool:
        """Whether a frame is there, or comes within `timeout_s`."""
        return bool(self._socket.poll(int(timeout_s * 1000)))

    def take(self) -> Message | None:
        """The next message, or None when there is none now; EventInvalid for a frame that is not ours (it is used up)."""
        try:
            frame = self._socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None
        number, message = decode(frame)
        self.gaps += max(0, number - self._expected)
        self._expected = number + 1
        return self._whole(message) if isinstance(message, Ended) else message

    def close(self) -> None:
        """Let go of the address."""
        self._socket.close()
        self._context.term()

    def _whole(self, told: Ended) -> Step:
        """The step with the names that were not repeated."""
        requests, tokens, before = told.rows
        self._requests = requests or (self._requests if tokens else ())
        try:
            return told._replace(rows=Rows(self._requests, tokens, before)).step()
        except ValueError as error:
            raise EventInvalid(f"step {told.seq}: {error}") from error


def _even(rows: Rows) -> Rows:
    if not len(rows.requests) == len(rows.tokens) == len(rows.before):
        raise ValueError("its columns differ in length")
    return rows

"""The one-way channel from the engine process to the collector: never blocks the engine, and shows what it lost.

Every frame is MessagePack `[number, type name, fields]`. Numbers count what the sender wanted to send, so a hole in them is
exactly what did not arrive. A step is told by column, and its requests only when they are not those of the step before it:
a batch that decodes stays the same for many steps, and its names are most of a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, get_args

import msgspec

from serving.errors import ChannelClosed, EventInvalid
from serving.wire.events import EngineStep, Event, LoadSpan, Mark, PrefixHit, Rows, StepRow
from serving.wire.pipe import Inlet, Outlet


class Occupancy(NamedTuple):
    """What the engine holds now: KV blocks in use, of how many; served names in device slots and in the host tier.

    Not accounting.
    """

    kv_blocks_used: int
    kv_blocks_total: int
    slots: tuple[str, ...]
    host: tuple[str, ...] = ()


class Ended(NamedTuple):
    """An `EngineStep` on its way: the same fields in the same order, its rows by column."""

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
    hits: tuple[PrefixHit, ...] = ()

    def step(self) -> EngineStep:
        """The event that the accountant takes; ValueError when its columns differ in length."""
        rows = tuple(map(StepRow, *_even(self.rows)))
        return EngineStep._make((*self[:3], rows, *self[4:]))


Message = Event | Occupancy
OutgoingMessage = Message | Ended
"""What the engine's end takes; the collector's end gives an EngineStep for an Ended."""

_DECODERS: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    kind.__name__: msgspec.msgpack.Decoder(kind) for kind in get_args(OutgoingMessage)
}
_FRAME: Final = msgspec.msgpack.Decoder(tuple[int, str, msgspec.Raw])
_ENCODER: Final = msgspec.msgpack.Encoder()
_ENDED: Final = Ended.__name__
_CLOSE_S: Final = 2.0
_End = TypeVar("_End", Outlet, Inlet)


def decode(frame: bytes) -> tuple[int, OutgoingMessage]:
    """(number, message) of a frame; EventInvalid when it is not one of ours."""
    try:
        number, kind, raw = _FRAME.decode(frame)
        message: OutgoingMessage = _DECODERS[kind].decode(raw)
        return number, message
    except msgspec.DecodeError as error:
        raise EventInvalid(str(error)) from error
    except KeyError as error:
        raise EventInvalid(f"unknown type {error}") from error


class Sender:
    """The engine's end, for the engine's thread. `lost` counts messages that could not be sent; each leaves a hole in the numbers."""

    def __init__(self, address: str) -> None:
        self._outlet = _opened(Outlet, address)
        self._number = 0
        self._lost = 0
        self._requests: Sequence[str] = ()

    @property
    def lost(self) -> int:
        """Messages that will never arrive."""
        return self._lost + self._outlet.lost

    def send(self, message: OutgoingMessage) -> None:
        """Hand the message over at once, or count it as lost; never waits, never raises."""
        number, self._number = self._number, self._number + 1
        if not isinstance(message, Ended):
            self._put((number, type(message).__name__, message))
            return
        requests, tokens, before = message.rows
        known, self._requests = self._requests, ()
        fields: tuple[Any, ...] = message
        if requests and requests == known:
            fields = (*message[:3], ((), tokens, before), *message[4:])
        if self._put((number, _ENDED, fields)):
            self._requests = requests

    def skip(self) -> None:
        """Leave a hole: something should have been sent and could not be said."""
        self._number += 1
        self._lost += 1

    def close(self) -> None:
        """Send what is still kept (two seconds at most) and let go."""
        self._outlet.close(_CLOSE_S)

    def _put(self, frame: tuple[int, str, Any]) -> bool:
        try:
            sent = self._outlet.put(_ENCODER.encode(frame))
        except (OverflowError, TypeError, ValueError):
            # A message that no frame can hold.
            sent = False
        self._lost += not sent
        return sent


class Receiver:
    """The collector's end, bound to `address`. `gaps` counts messages that never arrived."""

    def __init__(self, address: str) -> None:
        self._inlet = _opened(Inlet, address)
        self._expected = 0
        self._requests: Sequence[str] = ()
        self.gaps = 0

    def wait(self, timeout_s: float) -> bool:
        """Whether a frame is there, or comes within `timeout_s`."""
        return self._inlet.wait(timeout_s)

    def take(self) -> Message | None:
        """The next message, or None when there is none now; EventInvalid for a frame that is not ours (it is used up)."""
        frame = self._inlet.take()
        if frame is None:
            return None
        number, message = decode(frame)
        self.gaps += max(0, number - self._expected)
        self._expected = number + 1
        return self._whole(message) if isinstance(message, Ended) else message

    def close(self) -> None:
        """Let go of the address."""
        self._inlet.close()

    def _whole(self, told: Ended) -> EngineStep:
        """The step with the names that were not repeated."""
        requests, tokens, before = told.rows
        self._requests = requests or (self._requests if tokens else ())
        try:
            return told._replace(rows=Rows(self._requests, tokens, before)).step()
        except ValueError as error:
            raise EventInvalid(f"step {told.seq}: {error}") from error


def _opened(end: Callable[[str], _End], address: str) -> _End:
    try:
        return end(address)
    except OSError as error:
        raise ChannelClosed(address, error.strerror or str(error)) from error


def _even(rows: Rows) -> Rows:
    if not len(rows.requests) == len(rows.tokens) == len(rows.before):
        raise ValueError("its columns differ in length")
    return rows

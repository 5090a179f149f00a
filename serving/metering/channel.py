"""The one-way channel from the engine process to the collector: never blocks the engine, and shows what it lost.

Every frame is MessagePack `[number, type name, fields]`. Numbers count what the sender wanted to send, so a hole in them is
exactly what did not arrive.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import zmq

from serving.errors import ChannelClosed, EventInvalid
from serving.metering import events
from serving.metering.events import Event


class Held(NamedTuple):
    """What the engine holds now: KV blocks in use, of how many; served names in device slots and in the host tier.

    Not accounting.
    """

    kv_blocks_used: int
    kv_blocks_total: int
    slots: tuple[str, ...]
    host: tuple[str, ...] = ()


Message = Event | Held

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


def encode(number: int, message: Message) -> bytes:
    """One frame."""
    return _ENCODER.encode((number, type(message).__name__, message))


def decode(frame: bytes) -> tuple[int, Message]:
    """(number, message) of a frame; EventInvalid when it is not one of ours."""
    try:
        number, kind, raw = _FRAME.decode(frame)
        message: Message = _DECODERS[kind].decode(raw)
        return number, message
    except msgspec.DecodeError as error:
        raise EventInvalid(str(error)) from error
    except KeyError as error:
        raise EventInvalid(f"unknown type {error}") from error


class Sender:
    """The engine's end. `lost` counts messages that could not be sent; each leaves a hole in the numbers."""

    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.SNDHWM, _HIGH_WATER)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise ChannelClosed(address, str(error)) from error
        self._number = 0
        self.lost = 0

    def send(self, message: Message) -> None:
        """Hand the message over at once, or count it as lost; never waits."""
        number, self._number = self._number, self._number + 1
        try:
            self._socket.send(encode(number, message), zmq.NOBLOCK)
        except zmq.Again:
            self.lost += 1

    def skip(self) -> None:
        """Leave a hole: something should have been sent and could not be said."""
        self._number += 1
        self.lost += 1

    def close(self) -> None:
        """Send what is queued (two seconds at most) and let go."""
        self._socket.close()
        self._context.term()


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
        return message

    def close(self) -> None:
        """Let go of the address."""
        self._socket.close()
        self._context.term()

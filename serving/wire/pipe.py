"""A local socket that hands whole frames to another process, in order, and never makes the sender wait.

Sending does not let go of the interpreter lock. An ordinary socket call would: then whichever thread waits for the lock runs,
and the engine's thread, in the middle of its loop, stands until it gets the lock back; a sending thread of our own would do
that to it several times a step. One system call to a local socket takes a few microseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import select
import socket
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

SCHEME: Final = "ipc://"
NOBODY: Final = "inproc://"
"""An address that begins so has nobody behind it: all that is sent there is lost."""
_BUFFER_BYTES: Final = 4 << 20
_FRAME_BYTES: Final = 1 << 20
_LATE_FRAMES: Final = 100_000
"""Frames kept while the other end is slow: minutes of steps, some tens of megabytes."""
_LOOK_S: Final = 0.005
_BUSY_S: Final = 0.1
"""While frames come at least this often, the receiver looks every `_LOOK_S`."""
_FLAGS: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL

# PyDLL, unlike CDLL, calls with the interpreter lock held.
_send = ctypes.PyDLL(None, use_errno=True).send
_send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_send.restype = ctypes.c_ssize_t


def path_of(address: str) -> Path:
    """Where the socket of an `ipc://` address is."""
    return Path(address.removeprefix(SCHEME))


class Outlet:
    """The sending end; one thread sends. OSError when nobody listens at `address`. `lost` counts frames given up later."""

    def __init__(self, address: str) -> None:
        self.lost = 0
        self._lock = threading.Lock()
        self._late: deque[bytes] = deque()
        self._catching_up: threading.Thread | None = None
        self._socket: socket.socket | None = None
        if address.startswith(NOBODY):
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            self._socket.connect(str(path_of(address)))
        except OSError:
            self._socket.close()
            raise

    def put(self, frame: bytes) -> bool:
        """Hand a frame over at once; False when it is lost. What the socket has no room for now follows by itself."""
        if self._socket is None:
            return False
        if self._catching_up is None:
            if _send(self._socket.fileno(), frame, len(frame), _FLAGS) >= 0:
                return True
            if ctypes.get_errno() not in (errno.EAGAIN, errno.ENOBUFS):
                return False
        with self._lock:
            if len(self._late) >= _LATE_FRAMES:
                return False
            self._late.append(frame)
            if self._catching_up is None:
                self._catching_up = threading.Thread(target=self._catch_up, name="meter-catches-up", daemon=True)
                self._catching_up.start()
        return True

    def close(self, timeout_s: float) -> None:
        """Send what is late, for so long at most, and hang up; what is late then is lost."""
        if (thread := self._catching_up) is not None:
            thread.join(timeout_s)
        with self._lock:
            self.lost += len(self._late)
            self._late.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, frame: bytes) -> bool:
        try:
            return self._socket is not None and self._socket.send(frame, socket.MSG_NOSIGNAL) > 0
        except OSError:
            return False

    def _catch_up(self) -> None:
        while True:
            with self._lock:
                if not self._late:
                    self._catching_up = None
                    return
                frame = self._late[0]
            sent = self._send(frame)
            with self._lock:
                if self._late:
                    self._late.popleft()
                    self.lost += not sent


class Inlet:
    """The receiving end, bound to `address`; OSError when that cannot be.

    While frames keep coming it looks for them every now and then rather than be woken: whom the sender wakes may take its
    processor, in the middle of the engine's loop.
    """

    def __init__(self, address: str) -> None:
        self._path = path_of(address)
        self._buffer = memoryview(bytearray(_FRAME_BYTES))
        self._peers: dict[int, socket.socket] = {}
        self._taken_s = 0.0
        self._poll = select.poll()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._listener.bind(str(self._path))
            self._listener.listen()
        except OSError:
            self._listener.close()
            raise
        self._listener.setblocking(False)
        self._poll.register(self._listener, select.POLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Whether something is there, or comes within `timeout_s`."""
        until = time.monotonic() + timeout_s
        while (now := time.monotonic()) < until and now - self._taken_s < _BUSY_S:
            if self._poll.poll(0):
                return True
            time.sleep(_LOOK_S)
        return bool(self._poll.poll(max(0.0, until - now) * 1000))

    def take(self) -> bytes | None:
        """The next frame; None when there is none now."""
        for peer in list(self._peers.values()):
            if (frame := self._take(peer)) is not None:
                return frame
        with contextlib.suppress(BlockingIOError):
            peer, _ = self._listener.accept()
            peer.setblocking(False)
            self._peers[peer.fileno()] = peer
            self._poll.register(peer, select.POLLIN)
            return self._take(peer)
        return None

    def close(self) -> None:
        """Hang up and let go of the address."""
        for peer in list(self._peers.values()):
            self._drop(peer)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _take(self, peer: socket.socket) -> bytes | None:
        try:
            size = peer.recv_into(self._buffer)
        except BlockingIOError:
            return None
        except OSError:
            size = 0
        if size:
            self._taken_s = time.monotonic()
            return bytes(self._buffer[:size])
        self._drop(peer)
        return None

    def _drop(self, peer: socket.socket) -> None:
        self._poll.unregister(peer)
        del self._peers[peer.fileno()]
        peer.close()

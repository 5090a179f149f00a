"""Serves a gateway on a listening socket, and ends it in order."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import uvicorn

from serving.attempt.limits import Limits
from serving.gateway.build import Gateway
from serving.gateway.connections import Connection, Connections
from telemetry.metrics import Metrics

SEND_BUFFER_BYTES: Final = 128 << 10
"""What the kernel may hold for a client that does not read, half of it (Linux doubles the figure), so that it is noticed."""
FILES_KEPT: Final = 256
"""File descriptors that are not for connections."""
FLUSH_S: Final = 1.0
LATE_S: Final = 15


class PortTaken(OSError):
    """The address cannot be listened on."""

    def __init__(self, host: str, port: int, fact: str) -> None:
        super().__init__(f"could not listen on {host}:{port}: {fact}; choose another with --port, or end what uses it")


def listen(host: str, port: int) -> socket.socket:
    """Take the address before minutes are spent on starting an engine; port 0 takes a free one. PortTaken otherwise."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortTaken(host, port, error.strerror or str(error)) from error
    listener.listen(1024)
    return listener


async def answer(
    gateway: Gateway,
    listener: socket.socket,
    ending: asyncio.Event,
    *,
    limits: Limits,
    metrics: Metrics,
    proxies: Sequence[str] = (),
) -> None:
    """Answer requests until `ending` is set; then stop the gateway, and close every connection, within `limits`.

    `proxies` are addresses and networks that are believed when they say whom they forward for (`X-Forwarded-For`). Every
    record is written on return.
    """
    connections = Connections(_affordable(limits), metrics, proxies)
    server = uvicorn.Server(_config(gateway, connections, proxies))
    # We end it ourselves: uvicorn's own handlers would raise the signal again afterwards.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    beside = [asyncio.create_task(connections.sweep()), asyncio.create_task(ending.wait())]
    try:
        await asyncio.wait({serving, beside[1]}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Nothing new is accepted from here on; uvicorn then waits until the last connection is closed.
        server.should_exit = True
        await gateway.stop(limits.drain_s)
        await connections.end(FLUSH_S)
        for task in beside:
            task.cancel()
    await serving


def _config(gateway: Gateway, connections: Connections, proxies: Sequence[str]) -> uvicorn.Config:
    return uvicorn.Config(
        gateway.app,
        http=partial(Connection, connections),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        # What clients send wrong is theirs to know, and would fill the log.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_keep_alive=int(connections.limits.idle_s),
        # Only if something does not end that should have: by then the gateway has stopped and all connections are closed.
        timeout_graceful_shutdown=int(connections.limits.drain_s) + LATE_S,
    )


def _affordable(limits: Limits) -> Limits:
    """No more connections than the process may have open files for."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits
    return replace(limits, connections=max(1, min(limits.connections, files - FILES_KEPT)))

"""The meter of an engine that stands alone: accounted for in a process beside it and sent to any OTLP endpoint.

Used when vLLM's `additional_config` names an `otlp_endpoint` instead of an address:
`{"loraledger": {"otlp_endpoint": "http://collector:4318", "engine": "gpu-7", "gpu_type": "h100", "gpu_count": 1}}`.
The engine only writes to a local socket; what the endpoint does not take in time is dropped, counted and said in the log, and
the ledger sees it as a gap in the numbers.
"""

from __future__ import annotations

import json
import logging
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from serving.engine.collector import Collector
from serving.engine.sessions import Session
from serving.errors import ServingError
from serving.metering.accounting import Accountant
from serving.step_model.models import load
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.channel import Receiver
from serving.wire.pipe import SCHEME, path_of
from telemetry.engine_lines import engine_line
from telemetry.engine_time import EngineValue, SessionEvent
from telemetry.forward import LOGS, Forwarder

ENDPOINT_KEY: Final = "otlp_endpoint"
START_S: Final = 30.0
LOOK_S: Final = 0.5
BYE_TIMEOUT_S: Final = 5.0
GRACE_S: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Remote:
    """What the process beside an engine needs to know; `profile` is a file that `loraledger calibrate` wrote."""

    otlp_endpoint: str
    engine: str
    gpu_type: str
    gpu_count: int
    emitter: str
    address: str
    profile: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """From vLLM's flag, with an emitter and an address of its own; ServingError when something is missing or unknown."""
        known = {ENDPOINT_KEY, "engine", "gpu_type", "gpu_count", "profile"}
        if unknown := sorted(settings.keys() - known):
            raise ServingError(f"could not start the meter: additional_config loraledger has unknown keys {unknown}")
        if missing := sorted({"engine", "gpu_type"} - settings.keys()):
            raise ServingError(f"could not start the meter: additional_config loraledger lacks {missing}")
        private = Path(tempfile.mkdtemp(prefix="loraledger-"))
        return cls(
            otlp_endpoint=str(settings[ENDPOINT_KEY]),
            engine=str(settings["engine"]),
            gpu_type=str(settings["gpu_type"]),
            gpu_count=int(settings.get("gpu_count", 1)),
            emitter=f"eng-{uuid.uuid4().hex[:12]}",
            address=f"{SCHEME}{private}/meter",
            profile=settings.get("profile"),
        )


def start(settings: Mapping[str, Any]) -> Remote:
    """Begin the process beside this one and wait until it listens, START_S at most: without it the engine goes on unmetered.

    It ends after this one's meter has said bye, or when this one is gone. It is no child of this one: vLLM kills its whole
    family when it ends, and the last word would be lost.
    """
    remote = Remote.of(settings)
    fields = {name: getattr(remote, name) for name in Remote.__slots__}
    command = [sys.executable, "-m", "serving.engine.beside", json.dumps(fields), str(os.getpid())]
    launched = subprocess.run(command, stdin=subprocess.DEVNULL, start_new_session=True, check=False).returncode == 0
    deadline = time.monotonic() + START_S
    while not path_of(remote.address).exists():
        if not launched or time.monotonic() > deadline:
            log.error("could not start the meter of engine %s: the process beside it does not listen", remote.engine)
            break
        time.sleep(0.05)
    return remote


class _Engine:
    """The engine's process, seen from beside it."""

    def __init__(self, process: int) -> None:
        try:
            self._handle: int | None = os.pidfd_open(process)
        except ProcessLookupError:
            self._handle = None

    def lives(self) -> bool:
        return self._handle is not None and not select.select([self._handle], [], [], 0)[0]


def follow(remote: Remote, process: int) -> None:
    """Account for the engine in `process` until it is over, and send what is finished."""
    engine = _Engine(process)
    forwarder = Forwarder(remote.otlp_endpoint, signal=LOGS)
    session = Session(
        remote.engine, remote.gpu_type, remote.gpu_count, remote.emitter, lambda value: _send(forwarder, value)
    )
    session.tell(SessionEvent.STARTED, time.time_ns())
    profile = load(Path(remote.profile)) if remote.profile else DEFAULT_PROFILE
    accountant = Accountant(profile, remote.engine)
    collector = Collector(Receiver(remote.address), accountant, session.sink, heartbeat=session.beat)
    collector.start()
    up = False
    while engine.lives() and not collector.over:
        if not up and collector.up(LOOK_S) and collector.hello is not None:
            up = True
            session.tell(SessionEvent.UP, collector.hello.utc_ns)
            session.alive = lambda: True
        time.sleep(LOOK_S)
    session.alive = lambda: False
    collector.stop(BYE_TIMEOUT_S if engine.lives() else 0)
    session.tell(SessionEvent.STOPPED, time.time_ns())
    forwarder.close(GRACE_S)
    shutil.rmtree(path_of(remote.address).parent, ignore_errors=True)
    if forwarder.dropped or collector.gaps or collector.faults:
        log.error(
            "meter %s: %d lines did not reach the collector, %d events of the engine did not arrive, %d were refused",
            remote.emitter,
            forwarder.dropped,
            collector.gaps,
            collector.faults,
        )


def _send(forwarder: Forwarder, value: EngineValue) -> None:
    forwarder.offer(engine_line(value))


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    logging.basicConfig(level=logging.WARNING)
    follow(Remote(**json.loads(sys.argv[1])), int(sys.argv[2]))

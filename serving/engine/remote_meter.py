"""The meter of an engine that stands alone: accounted for in a process beside it and sent to any OTLP endpoint.

Used when vLLM's `additional_config` names an `otlp_endpoint` instead of an address (`serving.wire.remote`). The engine only writes to a local socket; what the endpoint does not take in time is dropped, counted and said in the log, and
the ledger sees it as a gap in the numbers.
"""

from __future__ import annotations

import json
import logging
import os
import select
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from serving.engine.collector import Collector
from serving.engine.sessions import SessionReporter
from serving.engine.step_file import StepFile
from serving.metering.accounting import Accountant
from serving.step_model.profile import DEFAULT_PROFILE, Profile
from serving.wire.channel import Receiver
from serving.wire.pipe import path_of
from serving.wire.remote import Remote
from telemetry.engine_time import EngineValue, SessionEvent
from telemetry.forward import LOGS, Forwarder
from telemetry.otlp_encode import engine_line

LOOK_S: Final = 0.5
BYE_TIMEOUT_S: Final = 5.0
GRACE_S: Final = 5.0

log = logging.getLogger(__name__)


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

    def send(value: EngineValue) -> None:
        forwarder.offer(engine_line(value))

    session = SessionReporter(remote.engine, remote.gpu_type, remote.gpu_count, remote.emitter, send)
    session.tell(SessionEvent.STARTED, time.time_ns())
    profile = Profile.load(Path(remote.profile)) if remote.profile else DEFAULT_PROFILE
    steps = StepFile(Path(remote.steps)) if remote.steps else None
    accountant = Accountant(profile, remote.engine, steps.hear if steps is not None else None)
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
    if steps is not None:
        steps.close()
    shutil.rmtree(path_of(remote.address).parent, ignore_errors=True)
    if forwarder.dropped or collector.gaps or collector.faults:
        log.error(
            "meter %s: %d lines did not reach the collector, %d events of the engine did not arrive, %d were refused",
            remote.emitter,
            forwarder.dropped,
            collector.gaps,
            collector.faults,
        )


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    logging.basicConfig(level=logging.WARNING)
    follow(Remote(**json.loads(sys.argv[1])), int(sys.argv[2]))

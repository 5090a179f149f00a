"""What an engine that no gateway embeds is told by vLLM's flag, and how it starts the process that accounts for it.

`{"loraledger": {"otlp_endpoint": "http://collector:4318", "engine": "gpu-7", "gpu_type": "h100", "gpu_count": 1}}`.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from serving.errors import ServingError
from serving.wire.keys import CONFIG_KEY, ENDPOINT_KEY, PROFILE_KEY, REMOTE_METER, TURN_KEY, TURNS_KEY
from serving.wire.pipe import SCHEME, path_of

START_S: Final = 30.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Remote:
    """What the process beside an engine needs to know; `profile` is a file that `loraledger calibrate` wrote, `steps` one for it to read."""

    otlp_endpoint: str
    engine: str
    gpu_type: str
    gpu_count: int
    emitter: str
    address: str
    profile: str | None = None
    steps: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """From vLLM's flag, with an emitter and an address of its own; ServingError when something is missing or unknown."""
        known = {ENDPOINT_KEY, "engine", "gpu_type", "gpu_count", PROFILE_KEY, "steps", TURNS_KEY, TURN_KEY}
        where = f"could not start the meter: additional_config {CONFIG_KEY}"
        if unknown := sorted(settings.keys() - known):
            raise ServingError(f"{where} has unknown keys {unknown}")
        if missing := sorted({"engine", "gpu_type"} - settings.keys()):
            raise ServingError(f"{where} lacks {missing}")
        private = Path(tempfile.mkdtemp(prefix="loraledger-"))
        return cls(
            otlp_endpoint=str(settings[ENDPOINT_KEY]),
            engine=str(settings["engine"]),
            gpu_type=str(settings["gpu_type"]),
            gpu_count=int(settings.get("gpu_count", 1)),
            emitter=f"eng-{uuid.uuid4().hex[:12]}",
            address=f"{SCHEME}{private}/meter",
            profile=settings.get(PROFILE_KEY),
            steps=settings.get("steps"),
        )


def start(settings: Mapping[str, Any]) -> Remote:
    """Begin the process beside this one and wait until it listens, START_S at most: without it the engine goes on unmetered.

    It ends after this one's meter has said bye, or when this one is gone. It is no child of this one: vLLM kills its whole
    family when it ends, and the last word would be lost.
    """
    remote = Remote.of(settings)
    command = [sys.executable, "-m", REMOTE_METER, json.dumps(asdict(remote)), str(os.getpid())]
    launched = subprocess.run(command, stdin=subprocess.DEVNULL, start_new_session=True, check=False).returncode == 0
    deadline = time.monotonic() + START_S
    while not path_of(remote.address).exists():
        if not launched or time.monotonic() > deadline:
            log.error("could not start the meter of engine %s: the process beside it does not listen", remote.engine)
            break
        time.sleep(0.05)
    return remote

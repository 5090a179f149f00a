"""Starts the process that accounts for an engine that no gateway embeds; called in the engine's own process."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from serving.wire.keys import REMOTE_METER
from serving.wire.pipe import path_of
from serving.wire.remote import Remote

START_S: Final = 30.0

log = logging.getLogger(__name__)


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

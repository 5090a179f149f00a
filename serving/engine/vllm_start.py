"""Starts vLLM embedded, or leaves nothing behind.

Importing this is cheap; `start_vllm` imports vLLM (some seconds). Nothing is spawned or bound before that, so it works under
`python -m`, console scripts and the `spawn` start method.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from catalog.model import BaseModelSpec, Engine
from serving.engine import vllm_flags, vllm_launch, vllm_processes
from serving.engine.collector import Collector
from serving.engine.sessions import SessionReporter, Sink
from serving.engine.vllm_counters import FrontEndTotals
from serving.engine.vllm_engine import HANG_S, VllmEngine, clean_up
from serving.engine.vllm_entry import watch_entry
from serving.errors import EngineStartFailed
from serving.metering.accounting import Accountant
from serving.step_model.profile import DEFAULT_PROFILE, Profile
from serving.wire.channel import Receiver
from telemetry.engine_time import SessionEvent

HELLO_TIMEOUT_S: Final = 10.0
START_LIMIT_S: Final = 1800.0


async def start_vllm(
    engine: Engine,
    base_model: BaseModelSpec,
    home: Path,
    sink: Sink,
    *,
    profile: Profile = DEFAULT_PROFILE,
    progress: Callable[[str], None] = lambda _: None,
    since_ns: int | None = None,
    delay_s: float = 0.0,
    start_limit_s: float = START_LIMIT_S,
    hang_s: float = HANG_S,
) -> VllmEngine:
    """Start the engine of that catalog entry; EngineStartFailed when it does not come up within `start_limit_s`.

    `home` takes the built-in model, adapter copies and the engine's log (`engine-<id>.log`). `sink` is called from other
    threads with every meter window, adapter load, session event and reading of counters. `progress` gets a line per phase.
    The engine counts as rented since `since_ns` (UTC; now when left out), through `delay_s` seconds before the start begins.
    """
    home.mkdir(parents=True, exist_ok=True)
    words = home / f"engine-{engine.id}.log"
    totals = FrontEndTotals()
    session = SessionReporter(
        engine.id, engine.gpu_type, engine.gpu_count, f"eng-{uuid.uuid4().hex[:12]}", sink, totals
    )
    session.tell(SessionEvent.STARTED, since_ns or time.time_ns())
    session.alive = lambda: True
    # A Unix socket's path must be short, and nobody else may write to it.
    private = Path(tempfile.mkdtemp(prefix="loraledger-"))
    address = f"ipc://{private}/meter"
    collector = Collector(Receiver(address), Accountant(profile, engine.id), sink, heartbeat=session.beat)
    session.tally = collector.tally
    collector.start()
    client: Any = None
    try:
        await asyncio.sleep(delay_s)
        model = await asyncio.to_thread(vllm_launch.model_path, base_model, home, progress)
        vllm_launch.set_environment(engine, base_model, model, words)
        flags = vllm_flags.server_flags(engine, base_model, model, address, session.emitter)
        progress("importing vLLM")
        arguments = await asyncio.to_thread(vllm_flags.parse, flags)
        progress("starting the engine")
        client = await vllm_processes.started(
            lambda: vllm_launch.start_client(arguments, engine.max_grammar_chars, totals.logger()), start_limit_s
        )
        app = await vllm_launch.application(client, arguments)
        memory = await vllm_launch.memory_use(client, model)
        if not await asyncio.to_thread(collector.up, HELLO_TIMEOUT_S) or collector.hello is None:
            raise EngineStartFailed(engine.id, "its meter said nothing", str(words))
    except BaseException as error:
        session.alive = lambda: False
        await clean_up(client, collector, private)
        session.tell(SessionEvent.STOPPED, time.time_ns())
        if isinstance(error, EngineStartFailed) or not isinstance(error, Exception):
            raise
        raise EngineStartFailed(engine.id, str(error) or type(error).__name__, str(words)) from error
    session.tell(SessionEvent.UP, collector.hello.utc_ns)
    session.alive = lambda: not client.errored
    watch_entry(client)
    return VllmEngine(engine, base_model.name, client, app, collector, session, private, memory, hang_s)

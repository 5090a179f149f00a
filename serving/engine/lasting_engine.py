"""An engine door that outlasts the engine behind it: when its process dies or hangs, another one is started in its place."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from serving.engine.door import AdapterFiles, EngineDoor, EngineState, LoadTiming
from serving.errors import EngineDown, EngineStartFailed
from serving.metering.accounting import Measured
from serving.policy.restarts import RestartPolicy, Restarts
from telemetry.engine_time import LoadCause

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

log = logging.getLogger(__name__)

KEPT: Final = 2
"""Dead engines whose figures can still be asked for: attempts that ended with them are being booked."""
START_S: Final = 30
"""What a client is told to wait when nothing better is known: a start takes about so long."""


class MortalEngine(EngineDoor, Protocol):
    """An engine process that can end without being asked to."""

    async def died(self) -> str:
        """Wait until it is dead, or hangs for good; why. Never returns after `stop`."""

    async def bury(self) -> int:
        """End what is left of it at once and settle its measured time; the UTC nanosecond at which it was over.

        Whoever waits for figures of it gets what is known.
        """


Start = Callable[[int | None, float], Awaitable[MortalEngine]]
"""Starts an engine that is rented since a UTC nanosecond (None: now), after so many seconds; EngineStartFailed."""


class LastingEngine:
    """See EngineDoor. `start` makes the first engine (`begin`) and each further one.

    Without a `policy` nothing is started again: whoever supervises this process shall do that. `lost` says why, `on_lost` is
    called and the engine stays down. `draw` gives numbers in [0, 1); `on_up` is called when another engine has taken over.
    """

    def __init__(
        self,
        engine_id: str,
        base_model: str,
        start: Start,
        *,
        policy: RestartPolicy | None,
        draw: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine_id, self.base_model = engine_id, base_model
        self._start, self._policy, self._draw, self._clock = start, policy, draw, clock
        self._life = Restarts()
        self._engine: MortalEngine | None = None
        self._dead: deque[MortalEngine] = deque(maxlen=KEPT)
        self._watch: asyncio.Task[None] | None = None
        self._next_s = 0.0
        self._stopped = False
        self._restarts = 0
        self.on_up: Callable[[], None] = lambda: None
        self.on_lost: Callable[[], None] = lambda: None
        self.lost: str | None = None

    async def begin(self) -> None:
        """Start the first engine, and watch from then on; EngineStartFailed when it does not come up."""
        self._engine = await self._start(None, 0.0)
        self._life = self._life.came_up(self._clock())
        self._watch = asyncio.create_task(self._watched(self._engine))

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application of the engine that is up; 503 while there is none."""
        if self._engine is not None:
            await self._engine.app(scope, receive, send)
            return
        body = json.dumps({"error": {"message": "The engine is being started again.", "code": 503}}).encode()
        headers = [(b"content-type", b"application/json"), (b"retry-after", str(self.retry_after_s() or 1).encode())]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def retry_after_s(self) -> int | None:
        """See EngineDoor."""
        if self._engine is not None:
            return None
        return max(1, math.ceil(self._next_s - self._clock()))

    async def load_adapter(self, adapter: AdapterFiles, cause: LoadCause) -> LoadTiming:
        """See EngineDoor."""
        return await self._up().load_adapter(adapter, cause)

    async def evict_adapter(self, served_name: str) -> None:
        """See EngineDoor. With an engine its adapters are gone too."""
        if self._engine is not None:
            await self._engine.evict_adapter(served_name)

    def resident(self) -> frozenset[str]:
        """See EngineDoor."""
        return self._engine.resident() if self._engine is not None else frozenset()

    async def count_tokens(self, path: str, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        """See EngineDoor."""
        return await self._engine.count_tokens(path, body) if self._engine is not None else None

    async def measured(self, attempt: str, timeout_s: float) -> Measured | None:
        """See EngineDoor. Of an engine that died, what was known."""
        for engine in self._lives():
            if engine.knows(attempt):
                return await engine.measured(attempt, timeout_s)
        return await self._engine.measured(attempt, timeout_s) if self._engine is not None else None

    def knows(self, attempt: str) -> bool:
        """See EngineDoor."""
        return any(engine.knows(attempt) for engine in self._lives())

    def state(self) -> EngineState:
        """See EngineDoor. An engine that is down holds nothing."""
        if self._engine is not None:
            return replace(self._engine.state(), restarts=self._restarts)
        return replace(self._dead[-1].state(), kv_blocks_used=0, slots=(), restarts=self._restarts)

    async def healthy(self) -> bool:
        """See EngineDoor."""
        return self._engine is not None and await self._engine.healthy()

    async def stop(self) -> None:
        """See EngineDoor. A start that is under way is broken off."""
        if self._stopped:
            return
        self._stopped = True
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._engine is not None:
            await self._engine.stop()

    def _up(self) -> MortalEngine:
        if self._engine is None:
            raise EngineDown(self.engine_id, "it is being started again")
        return self._engine

    def _lives(self) -> list[MortalEngine]:
        return [*([self._engine] if self._engine is not None else []), *reversed(self._dead)]

    async def _watched(self, engine: MortalEngine) -> None:
        while True:
            why = await engine.died()
            log.critical("engine %s is down: %s", self.engine_id, why)
            self._next_s = self._clock() + START_S
            self._engine = None
            self._dead.append(engine)
            over_ns = await self._buried(engine)
            if self._policy is None:
                self.lost = why
                self.on_lost()
                return
            self._life = self._life.failed(self._policy, self._clock())
            engine = await self._another(self._policy, over_ns)
            self._engine, self._life = engine, self._life.came_up(self._clock())
            log.warning("engine %s is up again", self.engine_id)
            self._tell_up()

    async def _buried(self, engine: MortalEngine) -> int:
        try:
            return await engine.bury()
        except Exception:
            log.exception("engine %s: not all that it left behind could be cleaned up", self.engine_id)
            return time.time_ns()

    async def _another(self, policy: RestartPolicy, since_ns: int) -> MortalEngine:
        """The engine that came up at last."""
        while True:
            wait_s = self._life.wait_s(policy, self._draw())
            self._next_s = self._clock() + wait_s + START_S
            self._restarts += 1
            log.warning("engine %s is started again in %.1f s", self.engine_id, wait_s)
            try:
                return await self._start(since_ns, wait_s)
            except EngineStartFailed as error:
                log.critical("%s", error)
            except Exception:
                log.exception("engine %s could not be started", self.engine_id)
            since_ns = time.time_ns()
            self._life = self._life.failed(policy, self._clock())

    def _tell_up(self) -> None:
        try:
            self.on_up()
        except Exception:
            log.exception("engine %s is up again, and who is told so failed", self.engine_id)

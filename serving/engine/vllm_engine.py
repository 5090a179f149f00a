"""The engine door on vLLM, embedded: vLLM's front end in this process, its engine core (scheduler, worker, meter) in one child.

`serving.engine.vllm_start` starts it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from catalog.model import Engine
from serving.engine import vllm_launch, vllm_processes, vllm_prompts
from serving.engine.collector import Collector
from serving.engine.door import AdapterFiles, EngineState, LoadTiming
from serving.engine.sessions import SessionReporter
from serving.engine.vllm_entry import watched
from serving.engine.vllm_processes import Pulse
from serving.errors import AdapterLoadFailed, EngineDown
from serving.metering.accounting import Measured
from telemetry.engine_time import LoadCause, SessionEvent

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

LOAD_REPORT_TIMEOUT_S: Final = 2.0
BYE_TIMEOUT_S: Final = 5.0
HANG_S: Final = 30.0
"""An engine that neither meters nor answers for so long is taken for dead; no step and no load takes that long."""
LOOK_S: Final = 0.2


class VllmEngine:
    """See EngineDoor. All coroutines run in the event loop that started it."""

    def __init__(
        self,
        engine: Engine,
        base_model: str,
        client: Any,
        app: Any,
        collector: Collector,
        session: SessionReporter,
        private: Path,
        memory: Mapping[str, int],
        hang_s: float,
    ) -> None:
        self.engine_id, self.base_model = engine.id, base_model
        self.app: ASGIApp = watched(app)
        self._engine = engine
        self._client = client
        self._app = app
        self._collector = collector
        self._session = session
        self._private = private
        self._memory = memory
        self._pulse = Pulse(client, collector, hang_s)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loading = asyncio.Lock()
        self._ids: dict[str, int] = {}
        self._stopped = False

    async def load_adapter(self, adapter: AdapterFiles, cause: LoadCause) -> LoadTiming:
        """See EngineDoor."""
        async with self._loading:
            if adapter.served_name in self._registered:
                return LoadTiming(0, None, 0, adapter.size_bytes)
            places = self._engine.max_cpu_loras
            if len(self._registered) >= places:
                fact = f"all {places} places of the host tier are taken; evict one first"
                raise AdapterLoadFailed(adapter.name, str(adapter.path), fact)
            request = self._lora_request(adapter)
            there = adapter.served_name in await self._make_room(adapter.served_name)
            # One that is there already costs nothing and says nothing; several GPUs have workers of their own, unheard.
            patience = 0 if there or self._engine.gpu_count > 1 else LOAD_REPORT_TIMEOUT_S
            started = time.monotonic_ns()
            timing = await self._collector.load(adapter, cause, lambda: self._add(adapter, request), patience)
            took = 0 if there else time.monotonic_ns() - started
            self._registered[adapter.served_name] = request
        # Without the meter's word the time around the call is the best there is.
        return timing or LoadTiming(took, None, took, adapter.size_bytes)

    async def _make_room(self, wanted: str) -> set[str]:
        """What the engine holds, as last heard; a full host tier is first freed of what was evicted and came back.

        That happens when a request was still waiting for an evicted adapter: the engine reads it again by itself.
        """
        host = set(self._collector.occupancy.host)
        if len(host) >= self._engine.max_cpu_loras:
            for name in host - set(self._registered) - {wanted}:
                await self._asked(self._client.remove_lora(self._ids[name]))
        return host

    async def evict_adapter(self, served_name: str) -> None:
        """See EngineDoor."""
        async with self._loading:
            request = self._registered.pop(served_name, None)
            if request is not None:
                await self._asked(self._client.remove_lora(request.lora_int_id))

    def resident(self) -> frozenset[str]:
        """See EngineDoor."""
        return frozenset(self._registered)

    async def count_tokens(self, path: str, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        """See EngineDoor."""
        return await vllm_prompts.count_tokens(self._app.state.online_renderer, path, body)

    async def measured(self, attempt: str, timeout_s: float) -> Measured | None:
        """See EngineDoor."""
        return await self._collector.measured(attempt, timeout_s)

    def knows(self, attempt: str) -> bool:
        """See EngineDoor."""
        return self._collector.knows(attempt)

    def state(self) -> EngineState:
        """See EngineDoor."""
        held, totals = self._collector.occupancy, self._collector.totals()
        return EngineState(
            kv_blocks_used=held.kv_blocks_used,
            kv_blocks_total=held.kv_blocks_total,
            weights_bytes=self._memory["weights"],
            slot_bytes=self._memory["slot"],
            slots=held.slots,
            memory_bytes=self._engine.memory_bytes,
            owner_ns=totals.owners,
            steps=totals.steps,
            system_ns=totals.causes,
            gaps=self._collector.gaps,
            faults=self._collector.faults,
            kv_block_bytes=self._memory["kv"] // (held.kv_blocks_total + 1),
        )

    def retry_after_s(self) -> int | None:
        """See EngineDoor."""
        return None

    async def healthy(self) -> bool:
        """See EngineDoor."""
        return not (self._stopped or self._over.done() or self._client.errored)

    async def died(self) -> str:
        """Wait until the engine's process is dead or hangs; why. Never returns after `stop`."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                why = None if self._stopped else await self._pulse.lost()
            except Exception:
                log.exception("engine %s: could not look after it once", self._engine.id)
                continue
            if why is not None:
                return why

    async def bury(self) -> int:
        """End what is left of a dead engine at once; the UTC nanosecond at which it was over. Waiters get what is known."""
        if not self._over.done():
            self._over.set_result(None)
        self._stopped = True
        self._session.alive = lambda: False
        self._pulse.end()
        await asyncio.to_thread(vllm_processes.kill, self._client)
        await asyncio.to_thread(self._collector.stop, 0)
        self._session.count(final=False)
        over_ns = time.time_ns()
        self._session.tell(SessionEvent.STOPPED, over_ns)
        shutil.rmtree(self._private, ignore_errors=True)
        await vllm_launch.stop_client(self._client)
        vllm_processes.forget(self._client)
        # Its figures may still be asked for, nothing else.
        self._client = self._app = None
        return over_ns

    async def stop(self) -> None:
        """See EngineDoor."""
        if self._stopped:
            return
        self._stopped = True
        self._pulse.end()
        self._session.alive = lambda: False
        said_bye = await clean_up(self._client, self._collector, self._private)
        self._session.count(final=said_bye)
        self._session.tell(SessionEvent.STOPPED, time.time_ns())

    async def _asked(self, asking: Coroutine[Any, Any, Any]) -> Any:
        """What the engine answers; EngineDown when it is dead, or dies meanwhile: vLLM would wait for ever."""
        from vllm.v1.engine.exceptions import EngineDeadError

        task = asyncio.ensure_future(asking)
        await asyncio.wait({task, self._over}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            raise EngineDown(self._engine.id, "it died before it answered")
        try:
            return task.result()
        except EngineDeadError as error:
            raise EngineDown(self._engine.id, "it is dead") from error

    @property
    def _registered(self) -> dict[str, Any]:
        """vLLM's own registry of names: what is in it can be asked for."""
        registry: dict[str, Any] = self._app.state.openai_serving_models.lora_requests
        return registry

    def _lora_request(self, adapter: AdapterFiles) -> Any:
        from vllm.lora.request import LoRARequest

        # An id means one content for ever: vLLM would serve old weights under a reused one, and two ids of one name
        # in one batch end its engine.
        number = self._ids.setdefault(adapter.served_name, len(self._ids) + 1)
        return LoRARequest(lora_name=adapter.served_name, lora_int_id=number, lora_path=str(adapter.path))

    async def _add(self, adapter: AdapterFiles, request: Any) -> None:
        try:
            await self._asked(self._client.add_lora(request))
        except EngineDown:
            raise
        except Exception as error:
            # vLLM gives a bare Exception with the worker's words in it.
            fact = str(error).removeprefix("Call to add_lora method failed: ") or type(error).__name__
            raise AdapterLoadFailed(adapter.name, str(adapter.path), fact) from error


async def clean_up(client: Any, collector: Collector, private: Path) -> bool:
    """End an engine that was started, as far as it got; whether it ended with a word."""
    try:
        if client is not None:
            await vllm_launch.stop_client(client)
    finally:
        said_bye = await asyncio.to_thread(collector.stop, BYE_TIMEOUT_S if client is not None else 0)
        shutil.rmtree(private, ignore_errors=True)
    return said_bye

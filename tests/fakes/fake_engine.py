"""A deterministic engine behind the same door as vLLM: batches requests into steps on a clock that only it moves.

Its words are tokens, its device is arithmetic, and its meter is the real one: steps go through the real recorder into the
real accountant. For tests and simulation.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp

from serving.engine.door import AdapterFiles, EngineState, LoadTiming
from serving.errors import AdapterLoadFailed
from serving.inside.recorder import Recorder
from serving.metering.accounting import Accountant, Measured
from serving.step_model.profile import DEFAULT_PROFILE, Profile
from serving.wire.channel import Ended, Occupancy, OutgoingMessage
from serving.wire.events import LoadSpan, Rows
from telemetry.engine_time import AdapterLoad, LoadCause, MeterWindow
from tests.fakes.fake_openai import FakeOpenAI, Request


class ManualClock:
    """Time that moves only when told to. Monotonic time begins at 1 s; `utc_ns` runs beside it."""

    def __init__(self, utc_ns: int = 1_790_000_000_000_000_000) -> None:
        self._utc0 = utc_ns
        self._mono = 1_000_000_000

    def mono_ns(self) -> int:
        """Monotonic nanoseconds."""
        return self._mono

    def utc_ns(self) -> int:
        """UTC nanoseconds since the epoch."""
        return self._utc0 + self._mono - 1_000_000_000

    def advance(self, ns: int) -> None:
        """Let `ns` pass."""
        self._mono += ns


@dataclass(frozen=True, slots=True)
class Device:
    """What things cost, in nanoseconds, and how much there is. `pace_s` of real time pass with every step."""

    step_ns: int = 2_000_000
    prefill_ns: int = 20_000
    decode_ns: int = 60_000
    lora_ns: int = 300_000
    read_ns: int = 20_000_000
    activate_ns: int = 2_000_000
    block_size: int = 16
    kv_blocks: int = 4096
    kv_block_bytes: int = 1 << 16
    max_num_seqs: int = 32
    max_model_len: int = 4096
    slots: int = 2
    slot_bytes: int = 1 << 20
    weights_bytes: int = 8 << 20
    memory_bytes: int = 300 << 20
    pace_s: float = 0.0

    def cost_ns(self, rows: Iterable[tuple[int, bool, str | None]]) -> int:
        """Duration of a step over rows of (tokens, prefill?, adapter)."""
        rows = tuple(rows)
        adapters = {adapter for _, _, adapter in rows if adapter is not None}
        tokens = sum(n * (self.prefill_ns if prefill else self.decode_ns) for n, prefill, _ in rows)
        return self.step_ns + tokens + self.lora_ns * len(adapters)


class PrefixCache:
    """Blocks of tokens by their hash, chained, salted, per model; the least recently used leave."""

    def __init__(self, block_size: int, blocks: int) -> None:
        self._size, self._room = block_size, blocks
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def _chain(self, request: Request) -> list[bytes]:
        at = hashlib.sha256(f"{request.salt}\0{request.model}".encode()).digest()
        chain = []
        for i in range(0, len(request.prompt) - self._size + 1, self._size):
            words = " ".join(request.prompt[i : i + self._size])
            at = hashlib.sha256(at + words.encode("utf-8", "surrogatepass")).digest()
            chain.append(at)
        return chain

    def take(self, request: Request) -> int:
        """Tokens of the prompt that were there already (at least one is always computed); all of it is there afterwards."""
        chain = self._chain(request)
        hits = next((i for i, block in enumerate(chain) if block not in self._blocks), len(chain))
        for block in chain:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._room:
            self._blocks.popitem(last=False)
        cached = hits * self._size
        return cached if cached < len(request.prompt) else (hits - 1) * self._size


@dataclass(slots=True)
class Switches:
    """What a test makes go wrong, or wait. `faults` are taken one per request, in order: `raise`, `error`, `stream_error`."""

    faults: list[str] = field(default_factory=list)
    broken_adapters: set[str] = field(default_factory=set)
    stepping: asyncio.Event = field(default_factory=asyncio.Event)
    loading: asyncio.Event = field(default_factory=asyncio.Event)
    counting: asyncio.Event = field(default_factory=asyncio.Event)
    healthy: bool = True
    on_submit: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.stepping.set()
        self.loading.set()
        self.counting.set()


class FakeEngine:
    """An `EngineDoor`. `seen` lists what reached the engine's app: (path, headers, body)."""

    def __init__(
        self,
        clock: ManualClock,
        *,
        engine_id: str = "fake-0",
        base_model: str = "tiny-llama",
        device: Device = Device(),
        profile: Profile = DEFAULT_PROFILE,
        emitter: str = "eng-fake",
    ) -> None:
        self.clock, self.device = clock, device
        self.switches = Switches()
        self.accountant = Accountant(profile, engine_id)
        self.loads_done: list[tuple[str, LoadCause]] = []
        self._engine_id, self._base_model = engine_id, base_model
        self._adapters: OrderedDict[str, AdapterFiles] = OrderedDict()
        self._slots: OrderedDict[str, None] = OrderedDict()
        self._cache = PrefixCache(device.block_size, device.kv_blocks)
        self._waiting: list[Request] = []
        self._running: list[Request] = []
        self._loop: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._stopped = False
        self._openai = FakeOpenAI(self)
        self._recorder = Recorder(self._hear, clock.mono_ns, clock.utc_ns)
        self._recorder.hello(emitter, engine_id)

    def _hear(self, told: OutgoingMessage) -> None:
        message = told.step() if isinstance(told, Ended) else told
        if not isinstance(message, Occupancy):
            self.accountant.take(message)

    @property
    def engine_id(self) -> str:
        """See `EngineDoor`."""
        return self._engine_id

    @property
    def base_model(self) -> str:
        """See `EngineDoor`."""
        return self._base_model

    @property
    def app(self) -> ASGIApp:
        """See `EngineDoor`."""
        return self._openai

    @property
    def seen(self) -> list[tuple[str, dict[str, str], dict[str, object]]]:
        """Requests as the engine's app got them."""
        return self._openai.seen

    async def load_adapter(self, adapter: AdapterFiles, cause: LoadCause) -> LoadTiming:
        """See `EngineDoor`."""
        name = adapter.served_name
        if name in self._adapters:
            return LoadTiming(0, None, 0, adapter.size_bytes)
        await asyncio.sleep(0)
        await self.switches.loading.wait()
        if adapter.name in self.switches.broken_adapters:
            raise AdapterLoadFailed(adapter.name, str(adapter.path), "its header is too small")
        self.accountant.expect(adapter.name, cause, adapter.hash)
        start = self.clock.mono_ns()
        self.clock.advance(self.device.read_ns)
        middle = self.clock.mono_ns()
        self.clock.advance(self.device.activate_ns)
        size = adapter.size_bytes
        self._recorder.loaded(
            [
                LoadSpan(adapter.name, "read", start, middle, False, size),
                LoadSpan(adapter.name, "activate", middle, self.clock.mono_ns(), True, size),
            ]
        )
        self._adapters[name] = adapter
        self._into_slot(name)
        self.loads_done.append((adapter.name, cause))
        took = self.clock.mono_ns() - start
        return LoadTiming(self.device.read_ns, self.device.activate_ns, took, size)

    async def evict_adapter(self, served_name: str) -> None:
        """See `EngineDoor`."""
        await asyncio.sleep(0)
        self._adapters.pop(served_name, None)
        self._slots.pop(served_name, None)

    def resident(self) -> frozenset[str]:
        """See `EngineDoor`."""
        return frozenset(self._adapters)

    async def count_tokens(self, path: str, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        """See `EngineDoor`."""
        await self.switches.counting.wait()
        return self._openai.count_tokens(path, body)

    async def measured(self, attempt: str, timeout_s: float) -> Measured | None:
        """See `EngineDoor`."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.accountant.knows(attempt):
                    if (figures := self.accountant.measured(attempt)) is not None:
                        self.accountant.forget(attempt)
                        return figures
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        return None

    def knows(self, attempt: str) -> bool:
        """See `EngineDoor`."""
        return self.accountant.knows(attempt)

    def state(self) -> EngineState:
        """See `EngineDoor`."""
        block = self.device.block_size
        used = sum(-(-request.length // block) for request in self._running)
        return EngineState(
            kv_blocks_used=used,
            kv_blocks_total=self.device.kv_blocks,
            weights_bytes=self.device.weights_bytes,
            slot_bytes=self.device.slot_bytes,
            slots=tuple(self._slots),
            memory_bytes=self.device.memory_bytes,
            owner_ns=dict(self.accountant.totals.owners),
            gaps=self.accountant.gaps,
            kv_block_bytes=self.device.kv_block_bytes,
            steps=dict(self.accountant.totals.steps),
            system_ns=dict(self.accountant.totals.causes),
        )

    async def healthy(self) -> bool:
        """See `EngineDoor`."""
        return self.switches.healthy and not self._stopped

    def retry_after_s(self) -> int | None:
        """See EngineDoor."""
        return None

    async def stop(self) -> None:
        """See `EngineDoor`."""
        if self._stopped:
            return
        self._stopped = True
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait({self._loop})
        self._recorder.bye()

    def windows(self) -> list[MeterWindow]:
        """Closed windows of the meter since the last call."""
        return self.accountant.windows(self.clock.mono_ns())

    def loads(self) -> list[AdapterLoad]:
        """Finished loads since the last call."""
        return self.accountant.loads()

    def serves(self, model: str) -> bool:
        """Whether the engine's app knows a model of that name."""
        return model == self._base_model or model in self._adapters

    def submit(self, request: Request) -> None:
        """A request enters the scheduler; its tokens come in its queue."""
        self._recorder.entered(request.id, request.attempt, request.tenant, request.adapter, len(request.prompt))
        self._waiting.append(request)
        self.switches.on_submit()
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._steps())

    def abort(self, request: Request) -> None:
        """A request leaves before its end; nothing happens if it has ended."""
        for queue in (self._waiting, self._running):
            if request in queue:
                queue.remove(request)
                self._recorder.left(request.id)
                self._recorder.aborted(bool(self._waiting or self._running))
                self._changed.set()

    async def _steps(self) -> None:
        while self._waiting or self._running:
            await self.switches.stepping.wait()
            await asyncio.sleep(self.device.pace_s)
            if self._waiting or self._running:
                self._step()

    def _step(self) -> None:
        """One step, atomic: nothing else happens on this clock meanwhile."""
        entry = self.clock.mono_ns()
        cached: list[tuple[str, int]] = []
        while self._waiting and len(self._running) < self.device.max_num_seqs:
            request = min(self._waiting, key=lambda waiting: waiting.priority)
            self._waiting.remove(request)
            request.computed = request.cached = self._cache.take(request)
            cached.append((request.id, request.cached))
            self._running.append(request)
        requests: list[str] = []
        counts: list[int] = []
        before: list[int] = []
        work: list[tuple[int, bool, str | None]] = []
        for request in self._running:
            missing = len(request.prompt) - request.computed
            tokens = max(1, missing)
            requests.append(request.id)
            counts.append(tokens)
            before.append(request.computed)
            work.append((tokens, missing > 0, request.adapter))
            request.computed += tokens
            if request.adapter is not None:
                self._into_slot(request.model)
        self._recorder.began(entry, entry, Rows(requests, counts, before), cached, ())
        self.clock.advance(self.device.cost_ns(work))
        for request in tuple(self._running):
            request.sample()
            if request.finished:
                self._running.remove(request)
                self._recorder.left(request.id)
        self._recorder.ended(entry, self.clock.mono_ns(), lambda: bool(self._waiting or self._running))
        self._changed.set()

    def _into_slot(self, name: str) -> None:
        self._slots[name] = None
        self._slots.move_to_end(name)
        while len(self._slots) > self.device.slots:
            self._slots.popitem(last=False)

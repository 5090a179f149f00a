"""Times what adapters cost the engine's thread: reading one from disk, copying one into a device slot.

The worker's LoRA managers are patched in the engine process (with the `uni` executor the worker lives there too), and what
they do is noted in one log per process, `LOG`, which the scheduler reads. The notes never raise into the engine.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving.wire.events import LoadSpan
from serving.wire.keys import WEIGHTS_FILE


def label(served_name: str) -> str:
    """The adapter's name in the catalog: what stands before `@` in its served name."""
    return served_name.partition("@")[0]


class LoraLog:
    """What happened to adapters in this process since it was last asked, and where they are now.

    `slots` are served names in device slots; `host` maps ids to served names of what is host-resident. `on_change` is
    called after anything changed, in the engine's thread.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._spans: list[LoadSpan] = []
        self._names: dict[int, str] = {}
        self._read_from: int | None = None
        self._read_bytes = 0
        self._activation: tuple[int, int] | None = None
        self.slots: tuple[str, ...] = ()
        self.host: dict[int, str] = {}
        self.on_change: Callable[[], None] = lambda: None

    def drain(self) -> tuple[LoadSpan, ...]:
        """The spans noted since the last call, in order."""
        spans, self._spans = tuple(self._spans), []
        return spans

    def reading(self, started_ns: int, size_bytes: int) -> None:
        """The adapter now being added is read from disk; reading (with the host copy) ends where activation begins."""
        self._read_from, self._read_bytes = started_ns, size_bytes

    def activated(self, started_ns: int, ended_ns: int) -> None:
        """The adapter now being added was copied into a device slot."""
        self._activation = (started_ns, ended_ns)

    def added(self, lora_id: int, served_name: str, manager: Any) -> None:
        """The worker is done with adding an adapter, or failed at it; most calls find it in its slot already."""
        read_from, activation = self._read_from, self._activation
        if read_from is None and activation is None:
            return
        self._read_from = self._activation = None
        self._names[lora_id] = served_name
        if read_from is not None:
            read_to = activation[0] if activation else self._clock()
            self._spans.append(LoadSpan(label(served_name), "read", read_from, read_to, False, self._read_bytes))
        if activation is not None:
            self._spans.append(LoadSpan(label(served_name), "activate", *activation, read_from is not None, 0))
        self.moved(manager)

    def moved(self, manager: Any) -> None:
        """Adapters came or went."""
        self.host = {i: self._names.get(i, str(i)) for i in manager.list_adapters()}
        self.slots = tuple(self.host.get(i, str(i)) for i in manager.lora_index_to_id if i is not None)
        self._names = dict(self.host)
        self.on_change()


LOG = LoraLog()
_installed = False


def installed() -> bool:
    """Whether this process times its adapters."""
    return _installed


def install() -> None:
    """Patch the worker's LoRA managers in this process; a second call changes nothing."""
    global _installed
    if _installed:
        return
    from vllm.lora.model_manager import LRUCacheLoRAModelManager
    from vllm.lora.worker_manager import LRUCacheWorkerLoRAManager, WorkerLoRAManager

    wrap(WorkerLoRAManager, "_load_adapter", _timed_load)
    wrap(LRUCacheLoRAModelManager, "activate_adapter", _timed_activate)
    wrap(LRUCacheWorkerLoRAManager, "add_adapter", _timed_add)
    wrap(WorkerLoRAManager, "remove_adapter", _noted_remove)
    _installed = True


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Let `around(original, self, *args)` stand in for a method of `owner`."""
    original = owner.__dict__[name]

    @functools.wraps(original)
    def patched(self: Any, *args: Any) -> Any:
        return around(functools.partial(original, self), self, *args)

    setattr(owner, name, patched)


def _timed_load(original: Callable[..., Any], worker: Any, request: Any) -> Any:
    weights = Path(request.lora_path) / WEIGHTS_FILE
    LOG.reading(time.monotonic_ns(), weights.stat().st_size if weights.is_file() else 0)
    return original(request)


def _timed_activate(original: Callable[..., Any], manager: Any, lora_id: int) -> Any:
    started = time.monotonic_ns()
    changed = original(lora_id)
    if changed:
        LOG.activated(started, time.monotonic_ns())
    return changed


def _timed_add(original: Callable[..., Any], worker: Any, request: Any) -> Any:
    try:
        return original(request)
    finally:
        LOG.added(request.lora_int_id, request.lora_name, worker._adapter_manager)


def _noted_remove(original: Callable[..., Any], worker: Any, lora_id: int) -> Any:
    removed = original(lora_id)
    LOG.moved(worker._adapter_manager)
    return removed


class WorkerReport:
    """Mixed into vLLM's worker (`worker_extension_cls`), so that the engine door can ask what memory holds."""

    def ll_memory(self) -> dict[str, int]:
        """Bytes of the base model's weights, of one padded adapter slot, and of all KV blocks."""
        runner: Any = self.model_runner  # type: ignore[attr-defined]
        weights = sum(p.numel() * p.element_size() for p in runner.get_model().parameters())
        manager = runner.lora_manager._adapter_manager
        stacked = [
            tensor
            for module in manager.modules.values()
            for field in ("lora_a_stacked", "lora_b_stacked")
            for tensor in getattr(module, field, ())
        ]
        slot = sum(t.numel() * t.element_size() for t in stacked) // manager.lora_slots
        kv = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in runner.kv_caches}
        return {"weights": weights, "slot": slot, "kv": sum(kv.values())}

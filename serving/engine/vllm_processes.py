"""The processes of one embedded vLLM: that they come up, that they live, and that none is left behind."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from catalog.durations import SECOND_NS
from serving.engine.collector import Collector

NAME: Final = "EngineCore"
QUIET_S: Final = 5.0
"""After so long without a word of the meter the engine is asked."""
JOIN_S: Final = 5.0
SECOND_LOOK_S: Final = 1.0


async def started(start: Callable[[], Any], limit_s: float) -> Any:
    """What `start()` returns, run in a thread. Its processes are killed when it takes longer, or when nobody waits any more.

    TimeoutError then, or whatever `start` raises.
    """
    before = set(_alive())
    task = asyncio.create_task(asyncio.to_thread(start))
    try:
        done, _ = await asyncio.wait({task}, timeout=limit_s)
        if done:
            return task.result()
    except asyncio.CancelledError:
        await _broken_off(task, before)
        raise
    await _broken_off(task, before)
    raise TimeoutError(f"it was not up within {limit_s:g} s")


async def _broken_off(task: asyncio.Task[Any], before: set[Any]) -> None:
    while not task.done():
        _kill(process for process in _alive() if process not in before)
        await asyncio.wait({task}, timeout=0.2)
    if not task.cancelled() and task.exception() is None:
        # It came up in the last moment.
        await asyncio.to_thread(task.result().shutdown)


def kill(client: Any) -> None:
    """End the engine processes behind vLLM's client at once, and take note of their ends."""
    manager = client.engine_core.resources.engine_manager
    _kill(manager.processes if manager is not None else ())


def forget(client: Any) -> None:
    """Let go of ended processes: each holds two descriptors."""
    manager = client.engine_core.resources.engine_manager
    if manager is not None:
        ended, manager.processes[:] = list(manager.processes), []
        for process in ended:
            process.close()


def _alive() -> list[Any]:
    return [process for process in multiprocessing.active_children() if process.name.startswith(NAME)]


def _kill(processes: Iterable[Any]) -> None:
    doomed = list(processes)
    for process in doomed:
        process.kill()
    for process in doomed:
        process.join(JOIN_S)


class Pulse:
    """Whether one engine lives: its process exists, and within `hang_s` its meter says something or it answers a question."""

    def __init__(
        self, client: Any, collector: Collector, hang_s: float, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._client, self._collector, self._hang_s, self._clock = client, collector, hang_s, clock
        self._question: asyncio.Task[Any] | None = None
        self._asked_ns = self._answered_ns = 0

    async def lost(self) -> str | None:
        """Why the engine is taken for dead; None while it is not. Ask several times a second."""
        if self._client.errored:
            return "its process ended"
        self._take_answer()
        now = self._clock()
        if self._question is None:
            if now - self._last_ns > min(QUIET_S, self._hang_s / 2) * SECOND_NS:
                self._question = asyncio.create_task(self._client.list_loras())
                self._asked_ns = now
        elif now - self._asked_ns > self._hang_s * SECOND_NS and self._last_ns < self._asked_ns:
            # This process may have been the one that stood still: what came meanwhile is taken first.
            await asyncio.sleep(SECOND_LOOK_S)
            self._take_answer()
            if self._last_ns < self._asked_ns:
                return f"it has not answered for {self._hang_s:g} s"
        return None

    def end(self) -> None:
        """Ask no more."""
        if self._question is not None:
            self._question.cancel()

    @property
    def _last_ns(self) -> int:
        return max(self._collector.heard_ns, self._answered_ns)

    def _take_answer(self) -> None:
        if self._question is None or not self._question.done():
            return
        if not self._question.cancelled():
            self._question.exception()
        self._question, self._answered_ns = None, self._clock()

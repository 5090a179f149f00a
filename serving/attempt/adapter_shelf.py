"""The files of the catalog's adapters, read off the event loop once per catalog version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from catalog.model import Adapter
from serving.engine.door import AdapterFiles


class AdapterShelf:
    """What each adapter is now, and which copies are in use. `read` checks and copies; it blocks, so it runs in a thread."""

    def __init__(self, read: Callable[[Adapter], AdapterFiles]) -> None:
        self._read = read
        self._reading: dict[Adapter, asyncio.Task[AdapterFiles]] = {}
        self._newest: dict[Adapter, AdapterFiles] = {}
        self._seen: dict[str, str] = {}

    async def files(self, adapter: Adapter) -> AdapterFiles:
        """The adapter's current version; who asks at the same time waits for one reading. AdapterLoadFailed when it is no good."""
        task = self._reading.get(adapter)
        if task is None:
            task = self._reading[adapter] = asyncio.create_task(asyncio.to_thread(self._read, adapter))
            task.add_done_callback(lambda done: self._done(adapter, done))
        return await asyncio.shield(task)

    def known(self, adapter: Adapter) -> AdapterFiles | None:
        """The adapter's current version, where `files` would give it without waiting."""
        task = self._reading.get(adapter)
        return self._newest.get(adapter) if task is not None and task.done() else None

    def adopt(self, adapters: Iterable[Adapter]) -> None:
        """A new catalog: its adapters are read again when next used, since new weights may lie under an old path."""
        self._reading.clear()
        listed = set(adapters)
        self._newest = {adapter: files for adapter, files in self._newest.items() if adapter in listed}

    def hashes(self, served_names: Iterable[str]) -> frozenset[str]:
        """Hashes of the copies in use: of the catalog's adapters as last read, and of `served_names` in the engine."""
        current = {files.served_name: files.hash for files in self._newest.values()}
        kept = {name: digest for name in served_names if (digest := self._seen.get(name)) is not None}
        self._seen = current | kept
        return frozenset(self._seen.values())

    def _done(self, adapter: Adapter, task: asyncio.Task[AdapterFiles]) -> None:
        if not task.cancelled() and task.exception() is None:
            files = task.result()
            self._newest[adapter] = files
            self._seen[files.served_name] = files.hash
        elif self._reading.get(adapter) is task:
            del self._reading[adapter]

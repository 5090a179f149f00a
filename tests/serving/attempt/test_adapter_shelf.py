"""Adapter files are read once per catalog version, and which copies are in use is known."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from catalog.model import Adapter
from serving.attempt.adapter_shelf import AdapterShelf
from serving.engine.door import AdapterFiles
from serving.errors import AdapterLoadFailed

LAW = Adapter(name="law", path="/law", rank=8)
TONE = Adapter(name="tone", path="/tone", rank=8)


def test_a_version_is_read_once_and_again_for_a_new_catalog() -> None:
    async def test() -> None:
        weights = {"/law": "1" * 64, "/tone": "2" * 64}
        read: list[str] = []

        def files(adapter: Adapter) -> AdapterFiles:
            read.append(adapter.name)
            if weights[adapter.path] == "":
                raise AdapterLoadFailed(adapter.name, adapter.path, "no such directory")
            return AdapterFiles(adapter.name, Path(adapter.path), weights[adapter.path], adapter.rank, 1)

        shelf = AdapterShelf(files)
        first, again = await asyncio.gather(shelf.files(LAW), shelf.files(LAW))
        assert first == again == shelf.known(LAW)
        assert shelf.known(TONE) is None
        await shelf.files(TONE)
        assert read == ["law", "tone"]
        weights["/law"] = "3" * 64
        shelf.adopt([LAW])
        assert shelf.known(LAW) is None, "it must be read again first"
        assert (await shelf.files(LAW)).served_name == "law@33333333"
        # The old version stays in use as long as the engine has it, the dropped adapter's copy does not.
        assert shelf.hashes({"law@11111111"}) == {"1" * 64, "3" * 64}
        assert shelf.hashes(()) == {"3" * 64}
        weights["/law"] = ""
        shelf.adopt([LAW])
        for _ in range(2):
            with pytest.raises(AdapterLoadFailed):
                await shelf.files(LAW)
        assert read == ["law", "tone", "law", "law", "law"]
        assert shelf.hashes(()) == {"3" * 64}

    asyncio.run(test())

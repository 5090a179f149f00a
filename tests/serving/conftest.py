"""The tiny model, made once per machine: its recipe is deterministic and its directory is named by the recipe's version."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from serving.engine.adapter_store import AdapterStore
from serving.engine.door import AdapterFiles
from serving.engine.tiny_model import RANKS, TinyModel, make_tiny_model
from tests.fakes.gateway_bench import ask, catalog_text, raw, run_bench

__all__ = ["ask", "catalog_text", "raw", "run_bench"]
"""Fixtures of the gateway's bench, for every room of serving."""


@pytest.fixture(scope="session")
def engine_home() -> Path:
    """Where a test engine keeps its models, adapters and log."""
    return Path(tempfile.gettempdir()) / f"loraledger-tests-{os.getuid()}"


@pytest.fixture(scope="session")
def tiny(engine_home: Path) -> TinyModel:
    return make_tiny_model(engine_home / "models")


@pytest.fixture(scope="session")
def adapter_store(engine_home: Path) -> AdapterStore:
    """Its copies are kept as long as the tests run."""
    return AdapterStore(engine_home)


@pytest.fixture(scope="session")
def adapters(tiny: TinyModel, adapter_store: AdapterStore) -> list[AdapterFiles]:
    """The eight adapters, `adapter-0` to `adapter-7`."""
    return [
        adapter_store.read(f"adapter-{n}", path, rank)
        for n, (path, rank) in enumerate(zip(tiny.adapter_paths, RANKS, strict=True))
    ]

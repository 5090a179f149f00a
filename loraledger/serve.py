"""Gateway and engine in one go: the composition root of serving."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvicorn

from catalog.model import Adapter, BaseModelSpec, Engine
from loraledger.settings import Settings
from serving.adapter_store import AdapterStore
from serving.engine import AdapterFiles
from serving.gateway.build import Gateway, build_gateway
from serving.gateway.catalog_source import CatalogSource
from serving.metering.models import StepModel, load
from serving.metering.profile import DEFAULT_PROFILE
from serving.tiny_model import BUILTIN_BASE, builtin_path, is_builtin, make_builtin
from serving.vllm_engine import start_vllm
from telemetry.engine_lines import engine_line
from telemetry.engine_time import EngineValue
from telemetry.forward import Both, Forwarder
from telemetry.metrics import Metrics
from telemetry.spool import Spool
from telemetry.tracing import Tracing

log = logging.getLogger(__name__)


class PortTaken(OSError):
    """The address cannot be listened on."""

    def __init__(self, host: str, port: int, fact: str) -> None:
        super().__init__(f"could not listen on {host}:{port}: {fact}; choose another with --port, or end what uses it")


def listen(host: str, port: int) -> socket.socket:
    """Take the address before minutes are spent on starting an engine; port 0 takes a free one. PortTaken otherwise."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortTaken(host, port, error.strerror or str(error)) from error
    listener.listen(1024)
    return listener


async def serve(
    settings: Settings, engine_id: str | None, listener: socket.socket, progress: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM, then end in order: open attempts first, the engine, the spool. SIGHUP reloads the catalog.

    Writes `<home>/serve.json` with the address once requests are answered. CatalogInvalid or EngineStartFailed before that.
    """
    source = CatalogSource(settings.catalog)
    catalog = source.view.catalog
    engine = chosen_engine(catalog.engines, engine_id)
    forwarder = Forwarder(settings.otlp_endpoint) if settings.otlp_endpoint else None
    spool = Spool(settings.spool)
    try:
        door = await start_vllm(
            engine,
            catalog.base_model,
            settings.home,
            partial(_record, spool),
            profile=step_profile(engine, catalog.base_model, progress),
            progress=progress,
        )
    except BaseException:
        spool.close()
        raise
    adapters = AdapterStore(settings.home)
    gateway = build_gateway(
        door=door,
        source=source,
        spool=spool,
        tracing=Tracing(Both(spool, forwarder) if forwarder is not None else spool),
        metrics=Metrics(process=True),
        secret=settings.secret(),
        read_adapter=partial(adapter_files, adapters, catalog.base_model),
        collect_adapters=adapters.collect,
        snapshot_path=settings.snapshot,
        operator_token=settings.operator_token,
        forwarder=forwarder,
    )
    try:
        progress("loading warm adapters")
        await gateway.start()
        await _answer(gateway, listener, settings, progress)
    finally:
        progress("stopping")
        await gateway.stop()
        await door.stop()
        spool.close()
        if forwarder is not None:
            forwarder.close()
        (settings.home / "serve.json").unlink(missing_ok=True)


async def _answer(
    gateway: Gateway, listener: socket.socket, settings: Settings, progress: Callable[[str], None]
) -> None:
    server = uvicorn.Server(
        uvicorn.Config(gateway.app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=30)
    )
    # We end it ourselves: uvicorn's own handlers would raise the signal again afterwards.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, gateway.reload_soon)
    host, port = listener.getsockname()[:2]
    url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    (settings.home / "serve.json").write_text(json.dumps({"url": url}), encoding="utf-8")
    progress(f"serving on {url}")
    await server.serve(sockets=[listener])


def _record(spool: Spool, value: EngineValue) -> None:
    spool.append(engine_line(value))


def step_profile(engine: Engine, base_model: BaseModelSpec, progress: Callable[[str], None]) -> StepModel:
    """The step profile that the catalog names for this engine, or the default one, which is told where it does not fit.

    OSError or ProfileInvalid when the named file cannot be used.
    """
    if engine.profile is not None:
        return load(Path(engine.profile))
    if base_model.path != BUILTIN_BASE:
        progress(
            f"engine {engine.id} has no step profile: its time is split as the tiny model's; run loraledger calibrate"
        )
    return DEFAULT_PROFILE


def adapter_files(store: AdapterStore, base_model: BaseModelSpec, adapter: Adapter) -> AdapterFiles:
    """A checked, unchanging copy of the adapter; AdapterLoadFailed when it is no good. Blocks."""
    path = Path(adapter.path)
    if is_builtin(adapter.path):
        base = base_model.path if is_builtin(base_model.path) else BUILTIN_BASE
        path = builtin_path(adapter.path, make_builtin(base, store.home / "models"))
    return store.read(adapter.name, path, adapter.rank)


def chosen_engine(engines: tuple[Engine, ...], engine_id: str | None) -> Engine:
    """The engine of that id, or the first; LookupError when there is none."""
    if engine_id is None:
        return engines[0]
    for engine in engines:
        if engine.id == engine_id:
            return engine
    raise LookupError(f"could not find engine {engine_id!r} in the catalog; it has {', '.join(e.id for e in engines)}")

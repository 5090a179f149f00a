"""Gateway and engine in one go: the composition root of serving."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from catalog.model import Adapter, BaseModelSpec, Engine
from loraledger.settings import Settings
from serving.attempt.catalog_source import CatalogSource
from serving.attempt.limits import Limits
from serving.engine.adapter_store import AdapterStore
from serving.engine.door import AdapterFiles
from serving.engine.lasting_engine import LastingEngine
from serving.engine.tiny_model import BUILTIN_BASE, builtin_path, is_builtin, make_builtin
from serving.engine.vllm_start import start_vllm
from serving.errors import EngineDown
from serving.gateway.build import Gateway, build_gateway
from serving.gateway.listening import answer
from serving.policy.restarts import RestartPolicy
from serving.step_model.profile import DEFAULT_PROFILE, Profile
from telemetry.engine_time import EngineValue
from telemetry.forward import Both, Forwarder
from telemetry.metrics import Metrics
from telemetry.otlp_encode import engine_line
from telemetry.spool import Spool
from telemetry.tracing import Tracing

log = logging.getLogger(__name__)


async def serve(
    settings: Settings, engine_id: str | None, listener: socket.socket, progress: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM, then end in order: open attempts first, the engine, the spool. SIGHUP reloads the catalog.

    An engine that is lost is started again; where a supervisor is declared, everything ends instead, with EngineDown.
    Writes `<home>/serve.json` with the address once requests are answered. CatalogInvalid or EngineStartFailed before that.
    """
    source = CatalogSource(settings.catalog)
    engine = chosen_engine(source.view.catalog.engines, engine_id)
    forwarder = Forwarder(settings.otlp_endpoint) if settings.otlp_endpoint else None
    spool = Spool(settings.spool)
    door = _door(settings, engine, source, spool, progress)
    try:
        await door.begin()
    except BaseException:
        spool.close()
        raise
    limits, metrics = Limits(), Metrics(process=True)
    if settings.drain_s is not None:
        limits = replace(limits, drain_s=settings.drain_s)
    gateway = _gateway(settings, door, source, spool, forwarder, metrics, limits)
    door.on_up = gateway.rewarm
    try:
        progress("loading warm adapters")
        await gateway.start()
        ending = _ending(gateway)
        door.on_lost = ending.set
        if door.lost is not None:
            ending.set()
        _say_where(listener, settings, progress)
        await answer(gateway, listener, ending, limits=limits, metrics=metrics, proxies=settings.trusted_proxies)
        if door.lost is not None:
            raise EngineDown(engine.id, f"{door.lost}; the supervisor shall start this process again")
    finally:
        progress("stopping")
        await gateway.stop(0.0)
        await door.stop()
        spool.close()
        if forwarder is not None:
            forwarder.close()
        (settings.home / "serve.json").unlink(missing_ok=True)


def _door(
    settings: Settings, engine: Engine, source: CatalogSource, spool: Spool, progress: Callable[[str], None]
) -> LastingEngine:
    base_model = source.view.catalog.base_model
    start = partial(
        start_vllm,
        engine,
        base_model,
        settings.home,
        partial(_record, spool),
        profile=step_profile(engine, base_model, progress),
        progress=progress,
    )
    return LastingEngine(
        engine.id,
        base_model.name,
        lambda since_ns, delay_s: start(since_ns=since_ns, delay_s=delay_s),
        policy=None if settings.supervised else RestartPolicy(),
        draw=random.random,
    )


def _gateway(
    settings: Settings,
    door: LastingEngine,
    source: CatalogSource,
    spool: Spool,
    forwarder: Forwarder | None,
    metrics: Metrics,
    limits: Limits,
) -> Gateway:
    adapters = AdapterStore(settings.home)
    return build_gateway(
        door=door,
        source=source,
        spool=spool,
        tracing=Tracing(Both(spool, forwarder) if forwarder is not None else spool),
        metrics=metrics,
        secret=settings.secret(),
        read_adapter=partial(adapter_files, adapters, source.view.catalog.base_model),
        collect_adapters=adapters.collect,
        snapshot_path=settings.snapshot,
        operator_token=settings.operator_token,
        limits=limits,
        forwarder=forwarder,
    )


def _ending(gateway: Gateway) -> asyncio.Event:
    """Set by SIGINT and SIGTERM; SIGHUP reloads the catalog."""
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    loop.add_signal_handler(signal.SIGHUP, gateway.reload_soon)
    return ending


def _say_where(listener: socket.socket, settings: Settings, progress: Callable[[str], None]) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    (settings.home / "serve.json").write_text(json.dumps({"url": url}), encoding="utf-8")
    progress(f"serving on {url}")


def _record(spool: Spool, value: EngineValue) -> None:
    spool.note(engine_line(value))


def step_profile(engine: Engine, base_model: BaseModelSpec, progress: Callable[[str], None]) -> Profile:
    """The step profile that the catalog names for this engine, or the default one, which is told where it does not fit.

    OSError or ProfileInvalid when the named file cannot be used.
    """
    if engine.profile is not None:
        return Profile.load(Path(engine.profile))
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

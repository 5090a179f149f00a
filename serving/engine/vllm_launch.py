"""How vLLM is started embedded: its environment, its front end and its application.

All of it may block for seconds, except the coroutines.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from catalog import engine_flags
from catalog.model import BaseModelSpec, Engine
from serving.engine.tiny_model import builtin_path, is_builtin, make_builtin
from serving.engine.vllm_flags import log_levels_kept
from serving.wire.keys import LOG_VARIABLE, MEMORY_CALL, PLUGIN

SHUTDOWN_TIMEOUT_S: Final = 15
CLOSE_TIMEOUT_S: Final = 2.0


def model_path(base_model: BaseModelSpec, home: Path, progress: Callable[[str], None]) -> str:
    """What vLLM loads: a directory (the built-in model is made first) or a hub name; ValueError for a missing directory."""
    if not is_builtin(base_model.path):
        if Path(base_model.path).is_absolute() and not Path(base_model.path).is_dir():
            raise ValueError(f"there is no model directory {base_model.path}")
        return base_model.path
    return str(builtin_path(base_model.path, make_builtin(base_model.path, home / "models", progress)))


def set_environment(engine: Engine, base_model: BaseModelSpec, model: str, log: Path) -> None:
    """Set what vLLM reads from the environment only, before it is imported; its child inherits it."""
    native_tags = engine_flags.backend(engine.vllm) == "xgrammar"
    os.environ.update(
        {
            "VLLM_PLUGINS": PLUGIN,
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            # With the `uni` executor: the worker lives in the engine core's process, where the scheduler sees its adapters.
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_LOGGING_CONFIG_PATH": str(_write_logging(log)),
            "TOKENIZERS_PARALLELISM": "false",
            # A forced tool call is a grammar that only xgrammar can read, or else a JSON schema, which all can.
            "VLLM_ENFORCE_STRICT_TOOL_CALLING": str(int(native_tags)),
            LOG_VARIABLE: str(log.absolute()),
            # Torch would say on the terminal that there is no Triton.
            "TORCH_LOGS": "-all",
        }
    )
    if Path(model).is_dir():
        os.environ.update({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"})
    if is_builtin(base_model.path):
        # The tiny model's matrices are too small for threads: they only wait for each other.
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def _write_logging(log: Path) -> Path:
    line = {"format": "%(asctime)s %(processName)s[%(process)d] %(levelname)s %(name)s: %(message)s"}
    file = {"class": "logging.FileHandler", "filename": str(log.absolute()), "formatter": "line", "delay": True}
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": line},
        "handlers": {"file": file},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    path = log.with_suffix(".logging.json")
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def start_client(arguments: Any, max_grammar_chars: int, *loggers: Any) -> Any:
    """vLLM's asynchronous client, with its engine core running in a child process; `loggers` join its own stat loggers."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    from serving.engine import vllm_grammars

    config = AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
    vllm_grammars.install()
    client = vllm_grammars.FrontEnd.from_vllm_config(config, stat_loggers=list(loggers))
    client.prepare_grammars(max_grammar_chars)
    return client


async def application(client: Any, arguments: Any) -> Any:
    """vLLM's OpenAI application on that client."""
    with log_levels_kept():
        from vllm.entrypoints.launchers.api_server.app_state import init_app_state
        from vllm.entrypoints.launchers.app import build_app

    tasks = await client.get_supported_tasks()
    with log_levels_kept():
        app = build_app(arguments, tasks, client.model_config)
    await init_app_state(client, app.state, arguments, tasks)
    # What vLLM would end when its engine is dead: a server that there is not.
    app.state.server = SimpleNamespace()
    return app


async def stop_client(client: Any) -> None:
    """End the engine core in order, and with it everything vLLM holds open."""
    context = client.engine_core.resources.ctx
    await asyncio.to_thread(client.shutdown, timeout=SHUTDOWN_TIMEOUT_S)
    # vLLM closes its sockets in this loop's next turn, and leaves their context to the garbage collector, which complains.
    await asyncio.sleep(0)
    closing = threading.Thread(target=context.term, daemon=True)
    closing.start()
    await asyncio.to_thread(closing.join, CLOSE_TIMEOUT_S)


async def memory_use(client: Any, model: str) -> dict[str, int]:
    """Bytes of the base model's `weights` and of one adapter `slot`."""
    memory: dict[str, int] = (await client.collective_rpc(MEMORY_CALL))[0]
    # The CPU build repacks linear weights out of PyTorch's sight; then the files tell their size.
    on_disk = sum(file.stat().st_size for file in Path(model).glob("*.safetensors")) if Path(model).is_dir() else 0
    return memory | {"weights": max(memory["weights"], on_disk)}

"""How vLLM is started embedded: its environment, its flags, its front end and its application.

All of it may block for seconds, except the coroutines.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from catalog import engine_flags
from catalog.model import BaseModelSpec, Engine
from serving.engine.tiny_model import builtin_path, is_builtin, make_builtin
from serving.wire.keys import CONFIG_KEY, LOG_VARIABLE, MEMORY_CALL, PLUGIN, SCHEDULER, WORKER_EXTENSION

TINY_FLAGS: Final[dict[str, engine_flags.FlagValue]] = {"enable-auto-tool-choice": True, "tool-call-parser": "hermes"}
"""The built-in model calls no tools; with a parser, requests that offer some are answered in words."""
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
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"format": "%(asctime)s %(processName)s[%(process)d] %(levelname)s %(name)s: %(message)s"}
        },
        "handlers": {
            "file": {
                "class": "logging.FileHandler",
                "filename": str(log.absolute()),
                "formatter": "line",
                "delay": True,
            }
        },
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    path = log.with_suffix(".logging.json")
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def server_flags(engine: Engine, base_model: BaseModelSpec, model: str, address: str, emitter: str) -> list[str]:
    """vLLM's own server flags, as `vllm serve` would get them: ours, and what the catalog passes through."""
    meter = {CONFIG_KEY: {"address": address, "emitter": emitter, "engine": engine.id}}
    options: dict[str, Any] = {
        "model": model,
        "served-model-name": base_model.name,
        "max-loras": engine.max_loras,
        "max-cpu-loras": engine.max_cpu_loras,
        "max-lora-rank": engine.max_lora_rank,
        "max-model-len": engine.max_model_len,
        "max-num-seqs": engine.max_num_seqs,
        "max-num-batched-tokens": engine.max_num_batched_tokens,
        "block-size": engine.block_size,
        engine_flags.PARALLEL: engine.gpu_count,
        "scheduler-cls": SCHEDULER,
        "worker-extension-cls": WORKER_EXTENSION,
        "additional-config": json.dumps(meter),
    }
    if engine.gpu_count == 1:
        options["distributed-executor-backend"] = "uni"
    if engine_flags.UTILISATION not in engine.vllm:
        options["kv-cache-memory-bytes"] = engine.kv_cache_bytes
    flags = [
        "--enable-lora",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
    ]
    ours = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return [*ours, *flags, *passed_flags(engine, base_model)]


def passed_flags(engine: Engine, base_model: BaseModelSpec) -> list[str]:
    """The catalog's own flags for vLLM, with the defaults of what it leaves open."""
    given = {name: value for name, value in engine.vllm.items() if name != engine_flags.PARALLEL}
    defaults = TINY_FLAGS if is_builtin(base_model.path) and "tool-call-parser" not in given else {}
    structured = given.get(engine_flags.STRUCTURED)
    chosen = {"backend": engine_flags.backend(given)}
    chosen |= structured if isinstance(structured, dict) else {}
    return [part for flag in (defaults | given | {engine_flags.STRUCTURED: chosen}).items() for part in _words(*flag)]


def _words(name: str, value: engine_flags.FlagValue) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, list):
        return [f"--{name}", *map(str, value)]
    return [f"--{name}={json.dumps(value) if isinstance(value, dict) else value}"]


def flag_problems(engine: Engine) -> list[str]:
    """What this vLLM does not know or take of the catalog's flags, one line a flag. Imports vLLM."""
    # Torch would say on the terminal that there is no Triton.
    os.environ.setdefault("TORCH_LOGS", "-all")
    parser = _parser()
    known = {option for action in parser._actions for option in action.option_strings}
    found = [f"{name}: vLLM has no such flag" for name in engine.vllm if f"--{name}" not in known]
    for name, value in engine.vllm.items():
        if f"--{name}" in known:
            try:
                parser.parse_args(_words(name, value))
            except (ValueError, TypeError) as error:
                found.append(f"{name}: {error}")
    if not found:
        try:
            _checked(parser.parse_args([part for flag in engine.vllm.items() for part in _words(*flag)]))
        except Exception as error:
            # vLLM has errors of many kinds for flags that do not fit each other, or name what is not there.
            found.append(str(error.args[0] if error.args else error).removeprefix("Error: "))
    return found


def parse(flags: list[str]) -> Any:
    """The flags as vLLM's server parses them; an exception of vLLM's when it does not take them. Imports vLLM."""
    return _checked(_parser().parse_args(flags))


def _checked(arguments: Any) -> Any:
    with log_levels_kept():
        from vllm.entrypoints.launchers.cli_args import validate_parsed_serve_args
        from vllm.entrypoints.launchers.launcher import validate_api_server_args

    validate_parsed_serve_args(arguments)
    validate_api_server_args(arguments)
    return arguments


def _parser() -> Any:
    with log_levels_kept():
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
        from vllm.utils.argparse_utils import FlexibleArgumentParser

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    parser = make_arg_parser(FlexibleArgumentParser())
    # argparse would print its usage, hundreds of flags, and end this process.
    parser.error = refuse
    return parser


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


@contextmanager
def log_levels_kept() -> Iterator[None]:
    """What runs inside must not silence the process: a library of vLLM's server lets only errors through once it is imported."""
    root = logging.getLogger()
    level, handlers = root.level, [(handler, handler.level) for handler in root.handlers]
    try:
        yield
    finally:
        root.setLevel(level)
        for handler, before in handlers:
            handler.setLevel(before)


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

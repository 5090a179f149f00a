"""vLLM's own server flags: what we set, what the catalog passes on, and what vLLM's parser says of them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from catalog import engine_flags
from catalog.model import BaseModelSpec, Engine
from serving.engine.tiny_model import is_builtin
from serving.wire.keys import CONFIG_KEY, PROFILE_KEY, SCHEDULER, TURN_KEY, TURNS_KEY, WORKER_EXTENSION

TINY_FLAGS: Final[dict[str, engine_flags.FlagValue]] = {"enable-auto-tool-choice": True, "tool-call-parser": "hermes"}
"""The built-in model calls no tools; with a parser, requests that offer some are answered in words."""


def server_flags(engine: Engine, base_model: BaseModelSpec, model: str, address: str, emitter: str) -> list[str]:
    """vLLM's own server flags, as `vllm serve` would get them: ours, and what the catalog passes through."""
    meter = {"address": address, "emitter": emitter, "engine": engine.id}
    turns = {TURNS_KEY: engine.turns, TURN_KEY: engine.turn_ms, PROFILE_KEY: engine.profile}
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
        "additional-config": json.dumps({CONFIG_KEY: meter | turns}),
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

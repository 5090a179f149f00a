"""What vLLM loads into each of its processes (entry point group `vllm.general_plugins`, named `loraledger`)."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import sys
import threading
from typing import Any, Final

from serving.inside import adapter_timers, cpu_lora
from serving.wire.keys import CONFIG_KEY, LOG_VARIABLE, SCHEDULER

_CHOSEN: Final = "_loraledger_chooses_scheduler"


def register() -> None:
    """Mend the CPU build where it is needed, time adapter loads, meter where it is configured; vLLM may call it several times."""
    from vllm.platforms import current_platform

    log, parent = os.environ.get(LOG_VARIABLE), multiprocessing.parent_process()
    if log and parent is not None:
        _speak_into(log)
        _live_with(parent)
    if current_platform.is_cpu():
        _never_compile()
        cpu_lora.install()
    adapter_timers.install()
    _meter_where_configured()


def _never_compile() -> None:
    """Run as written what vLLM's sampler would have compiled when a request first needs it.

    That takes half a minute in the engine's thread, and a C++ compiler. With LoRA the CPU build compiles nothing else.
    """
    import torch

    # For what is not decorated yet, and for what is already.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    torch.compiler.set_stance("force_eager")


def _meter_where_configured() -> None:
    """Let vLLM's `additional_config` alone choose the metering scheduler, so that a plain server needs one flag."""
    # Only the process that reads the command line has this module, and only there is there anything to choose.
    arguments = getattr(sys.modules.get("vllm.engine.arg_utils"), "EngineArgs", None)
    if arguments is None or hasattr(arguments, _CHOSEN):
        return
    create = arguments.create_engine_config

    @functools.wraps(create)
    def with_meter(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.scheduler_cls is None and CONFIG_KEY in (self.additional_config or {}):
            self.scheduler_cls = SCHEDULER
        return create(self, *args, **kwargs)

    arguments.create_engine_config = with_meter
    setattr(arguments, _CHOSEN, True)


def _speak_into(log: str) -> None:
    """Point the process's own standard output and error, also those of native code, at a file."""
    from tqdm import tqdm

    # Its own lock is a named semaphore, which a process that is killed leaves behind.
    tqdm.set_lock(threading.RLock())
    target = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


def _live_with(parent: Any) -> None:
    """End when the parent ends, however it ends; but not by the terminal's Ctrl-C, which the parent answers in order."""
    os.setpgid(0, 0)

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="follow-parent", daemon=True).start()

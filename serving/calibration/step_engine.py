"""vLLM in this process, stepped by hand: to measure what steps cost, not to serve.

One thread does everything and nothing runs between steps, so a step's time is the engine's own. One engine per process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from catalog.model import BaseModelSpec, Engine
from serving.calibration.phases import CalibrationCall
from serving.engine import vllm_flags, vllm_launch
from serving.step_model.profile import RowWork
from serving.wire.events import EngineStep, StepRow

SCHEDULER: Final = "serving.calibration.step_log.LoggingScheduler"
EMITTER: Final = "eng-steps"


class TimedStep(NamedTuple):
    """One step with rows: its time without the adapter loads in it, and its rows (`RowWork.key` is the call's)."""

    duration_ns: int
    rows: tuple[RowWork, ...]


class StepEngine:
    """The engine of a catalog entry in this process, with `adapters` by name. Starting blocks for seconds."""

    def __init__(
        self,
        engine: Engine,
        base_model: BaseModelSpec,
        adapters: Mapping[str, Path],
        home: Path,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        model = vllm_launch.model_path(base_model, home, progress)
        vllm_launch.set_environment(engine, base_model, model, home / f"steps-{engine.id}.log")
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        from serving.calibration.step_log import LOG, NOWHERE

        # What is measured is the order in which the phases were written.
        engine = engine.model_copy(update={"turns": "fcfs"})
        arguments = vllm_flags.parse(vllm_flags.server_flags(engine, base_model, model, NOWHERE, EMITTER))
        arguments.scheduler_cls = SCHEDULER
        config = AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
        self._engine: Any = LLMEngine.from_vllm_config(config, disable_log_stats=True)
        self._log = LOG
        self._paths = dict(adapters)
        self._ids = {name: number for number, name in enumerate(adapters, 1)}

    def run(self, calls: Iterable[CalibrationCall], at_once: int | None = None, warm: bool = False) -> list[TimedStep]:
        """Run the calls to their end, at most `at_once` in the engine, from an empty prefix cache unless `warm`; steps with rows.

        Python's garbage collection waits until the run is over. ValueError when a call does not get its tokens.
        """
        if not warm:
            self._engine.reset_prefix_cache()
        waiting = sorted(calls, key=lambda call: call.arrival_ns)
        by_request: dict[str, CalibrationCall] = {}
        steps: list[TimedStep] = []
        busy_ns = 0
        self._log.take()
        gc.collect()
        gc.disable()
        try:
            while waiting or self._engine.has_unfinished_requests():
                if not self._engine.has_unfinished_requests() and waiting:
                    busy_ns = max(busy_ns, waiting[0].arrival_ns)
                while waiting and waiting[0].arrival_ns <= busy_ns and self._has_room(at_once):
                    call = waiting.pop(0)
                    by_request[self._add(call)] = call
                self._engine.step()
                for step in self._log.take():
                    if step.rows:
                        steps.append(TimedStep(_net_ns(step), tuple(_work(row, by_request) for row in step.rows)))
                        busy_ns += steps[-1].duration_ns
        finally:
            gc.enable()
        _check(steps, by_request.values())
        return steps

    def close(self) -> None:
        """End the engine."""
        self._engine.engine_core.shutdown()

    def _has_room(self, at_once: int | None) -> bool:
        return at_once is None or self._engine.get_num_unfinished_requests() < at_once

    def _add(self, call: CalibrationCall) -> str:
        from vllm import SamplingParams, TokensPrompt
        from vllm.lora.request import LoRARequest

        adapter = None
        if call.adapter is not None:
            adapter = LoRARequest(call.adapter, self._ids[call.adapter], str(self._paths[call.adapter]))
        params = SamplingParams(temperature=0.0, max_tokens=call.output, ignore_eos=True, detokenize=False)
        prompt = TokensPrompt(prompt_token_ids=list(call.tokens), cache_salt=call.tenant)
        added: str = self._engine.add_request(call.key, prompt, params, lora_request=adapter)
        return added


def _net_ns(step: EngineStep) -> int:
    return step.end_ns - step.start_ns - sum(span.end_ns - span.start_ns for span in step.loads)


def _work(row: StepRow, calls: Mapping[str, CalibrationCall]) -> RowWork:
    call = calls[row.request]
    prefill = min(max(len(call.tokens) - row.before, 0), row.tokens)
    return RowWork(prefill, row.tokens - prefill, row.before, call.adapter, 0, call.key)


def _check(steps: Sequence[TimedStep], calls: Iterable[CalibrationCall]) -> None:
    """The last output token is never computed upon, so a call decodes one token less than it gives."""
    decoded: dict[str, int] = {}
    for step in steps:
        for row in step.rows:
            decoded[row.key] = decoded.get(row.key, 0) + row.decode
    for call in calls:
        if decoded.get(call.key) != call.output - 1:
            raise ValueError(f"{call.key} decoded {decoded.get(call.key)} tokens, {call.output - 1} were expected")


def quieter(one: Sequence[TimedStep], other: Sequence[TimedStep]) -> list[TimedStep]:
    """The steps of a load that was run twice, each in the shorter of its two times.

    Other work on the machine only makes a step longer, and not every kind of step by the same part. Where the two runs were not
    batched alike it is the run that took less time as a whole.
    """
    if [step.rows for step in one] == [step.rows for step in other]:
        return [min(pair) for pair in zip(one, other, strict=True)]
    return list(min(one, other, key=lambda steps: sum(step.duration_ns for step in steps)))

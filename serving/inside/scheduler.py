"""vLLM's scheduler with our meter in it: `scheduler_cls="serving.inside.scheduler.MeterScheduler"`.

Works with asynchronous scheduling (two steps in flight) and without. The meter never raises into the engine; what it could not
tell shows as a hole in its numbers. Configured by vLLM's `additional_config`:
`{"loraledger": {"address": "ipc://...", "emitter": "eng-...", "engine": "<id in the catalog>"}}`, or for an engine that no
gateway embeds, what `serving.wire.remote` reads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.request import RequestStatus
from vllm.v1.structured_output.backend_guidance import GuidanceBackend

from catalog.engines import TURN_MS
from serving.errors import ServingError
from serving.inside import adapter_timers, utility_calls
from serving.inside.prefix_owners import BlockOwner, PrefixOwners
from serving.inside.recorder import Recorder
from serving.inside.turn_queue import TurnQueue, Whose
from serving.policy.turns import WEIGHTS, Rules
from serving.step_model.profile import DEFAULT_PROFILE, Profile
from serving.wire import remote
from serving.wire.channel import Occupancy, Sender
from serving.wire.events import PrefixHit, Rows
from serving.wire.keys import (
    ATTEMPT_ARG,
    CONFIG_FILE,
    CONFIG_KEY,
    ENDPOINT_KEY,
    FAIR,
    PLUGIN,
    PROFILE_KEY,
    PROMPT_ARG,
    TENANT_ARG,
    TURN_KEY,
    TURNS_KEY,
    WEIGHT_ARG,
    WEIGHTS_FILE,
)
from telemetry.engine_time import SystemCause
from telemetry.usage import UNKNOWN_TENANT

# Below vLLM's own logger, so that in the engine process it goes where the engine's log goes.
logger = logging.getLogger("vllm.loraledger.meter")


class MeterScheduler(AsyncScheduler):  # type: ignore[misc]
    """Schedules as vLLM does, and tells the collector who was in each step and how long it took."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings = (self.vllm_config.additional_config or {}).get(CONFIG_KEY)
        if not settings:
            raise ServingError(f"could not start the meter: vLLM's additional_config has no {CONFIG_KEY!r}")
        if not adapter_timers.installed():
            raise ServingError(
                f"could not start the meter: vLLM did not load our plugin; VLLM_PLUGINS must name {PLUGIN}"
            )
        self.take_turns(self._turn_queue(settings))
        if ENDPOINT_KEY in settings:
            beside = remote.start(settings)
            settings = {"address": beside.address, "emitter": beside.emitter, "engine": beside.engine}
        _begin_grammars(self.structured_output_manager)
        self._sender = Sender(settings["address"])
        self._recorder = Recorder(self._sender.send)
        self._prefixes = PrefixOwners(self.hash_block_size, _report_cross_salt)
        self._waits_for_files = False
        adapter_timers.LOG.drain()
        adapter_timers.LOG.on_change = self._adapters_changed
        utility_calls.after_each(lambda entry_ns: self._recorder.did(SystemCause.UTILITY, entry_ns))
        self._recorder.hello(settings["emitter"], settings["engine"])
        self._tell_held(at_once=True)

    def take_turns(self, queue: TurnQueue | None) -> None:
        """From now on, before any request, that queue says who is next; vLLM's own order without one."""
        self.turns = queue
        if queue is not None:
            self.waiting = queue

    def add_request(self, request: Any) -> None:
        """See vLLM. Tells that the request is here."""
        entry_ns = time.monotonic_ns()
        known = request.request_id in self.requests
        super().add_request(request)
        if request.lora_request is not None and request.lora_request.lora_int_id not in adapter_timers.LOG.host:
            self._waits_for_files = True
        if not known:
            self._metered(self._tell_entered, request)
        self._recorder.did(SystemCause.INTAKE, entry_ns)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """See vLLM. Notes who is in the step."""
        entry_ns = time.monotonic_ns()
        if self._waits_for_files:
            self._refuse_missing_adapters()
        if self.turns is not None:
            self.turns.step(len(self.running))
        output = super().schedule(*args, **kwargs)
        if self.turns is not None:
            self.turns.stepped(output.num_scheduled_tokens)
        self._metered(self._note_step, output, entry_ns)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """See vLLM. The step ends when this returns."""
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        self._metered(self._tell_step, scheduler_output, time.monotonic_ns())
        return outputs

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: Any) -> Any:
        """See vLLM. Outside a step the requests are told as aborted."""
        finished = super().finish_requests(request_ids, finished_status)
        self._metered(self._tell_aborted)
        return finished

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        given_up = request.status is RequestStatus.FINISHED_ABORTED
        self._metered(self._recorder.left, request.request_id, given_up)
        if self.turns is not None:
            self.turns.left(request)
        return super()._free_request(request, *args, **kwargs)

    def shutdown(self) -> None:
        """See vLLM. Measured time ends, and what was said is sent."""
        self._metered(self._recorder.bye)
        self._metered(self._sender.close)
        super().shutdown()

    def _turn_queue(self, settings: Mapping[str, Any]) -> TurnQueue | None:
        if settings.get(TURNS_KEY) != FAIR or self.policy is not SchedulingPolicy.FCFS:
            return None
        profile = Profile.load(Path(settings[PROFILE_KEY])) if settings.get(PROFILE_KEY) else DEFAULT_PROFILE
        slots = self.lora_config.max_loras if self.lora_config else 1
        return TurnQueue(Rules(slots, int(settings.get(TURN_KEY, TURN_MS)) * 1_000_000), profile, _whose)

    def _metered(self, tell: Callable[..., None], *args: Any) -> None:
        try:
            tell(*args)
        except Exception:
            self._sender.skip()
            logger.exception("could not meter: %s", getattr(tell, "__name__", tell))

    def _tell_entered(self, request: Any) -> None:
        extra = _extra(request)
        adapter = request.lora_request
        self._recorder.entered(
            request.request_id,
            _attempt(request),
            str(extra.get(TENANT_ARG) or UNKNOWN_TENANT),
            adapter_timers.label(adapter.lora_name) if adapter is not None else None,
            request.num_prompt_tokens,
            str(extra.get(PROMPT_ARG) or ""),
        )

    def _note_step(self, output: Any, entry_ns: int) -> None:
        new = output.scheduled_new_reqs
        # Some model runners take a request that resumes after a preemption as new.
        cached = [(r.req_id, r.num_computed_tokens) for r in new if not self.requests[r.req_id].num_preemptions]
        hits = self._hits(cached) if cached else ()
        self._recorder.began(id(output), entry_ns, _rows(output, new), cached, output.preempted_req_ids or (), hits)

    def _hits(self, started: Iterable[tuple[str, int]]) -> list[PrefixHit]:
        """Who had computed what these requests found; in the order in which vLLM looked it up."""
        hits: list[PrefixHit] = []
        for name, cached_tokens in started:
            request = self.requests[name]
            user = BlockOwner(_attempt(request), request.cache_salt)
            hits += self._prefixes.started(name, user, request.block_hashes, cached_tokens)
        return hits

    def _tell_step(self, output: Any, end_ns: int) -> None:
        recorder = self._recorder
        recorder.ended(id(output), end_ns, self.has_requests)
        empty = not recorder.in_step and not self.running
        if empty or recorder.holds_due:
            self._tell_held(at_once=empty)
        recorder.did(SystemCause.METER, end_ns)

    def _tell_aborted(self) -> None:
        self._recorder.aborted(self.has_requests())

    def _adapters_changed(self) -> None:
        self._waits_for_files = True
        self._metered(self._tell_adapters)

    def _tell_adapters(self) -> None:
        self._recorder.loaded(adapter_timers.LOG.drain())
        self._tell_held(at_once=True)

    def _tell_held(self, at_once: bool) -> None:
        pool = self.kv_cache_manager.block_pool
        # Block 0 is a placeholder that is never given out.
        total = pool.num_gpu_blocks - 1
        log = adapter_timers.LOG
        held = Occupancy(total - pool.get_num_free_blocks(), total, log.slots, tuple(log.host.values()))
        self._recorder.holds(held, at_once)

    def _refuse_missing_adapters(self) -> None:
        """Fail waiting requests whose adapter would be read inside the step and is not there: it would end the engine.

        The gateway loads adapters ahead, from directories that never change; this is for what comes past it.
        """
        host = adapter_timers.LOG.host
        unread = [r for r in self.waiting if r.lora_request is not None and r.lora_request.lora_int_id not in host]
        self._waits_for_files = bool(unread)
        missing = [r for r in unread if not _has_files(Path(r.lora_request.lora_path))]
        if missing:
            self.waiting.remove_requests(missing)
            self.deferred_waiting.difference_update(missing)
            # vLLM ends these with an error in the next update_from_output.
            self.grammar_compile_error_reqs.update(r.request_id for r in missing)


def _begin_grammars(manager: Any) -> None:
    """Make the one backend of structured outputs now; vLLM would make it at the first such request, while others wait."""
    config, tokenizer = manager.vllm_config, getattr(manager, "tokenizer", None)
    guided = config.structured_outputs_config.backend == "guidance" and manager.backend is None
    if guided and tokenizer is not None and GuidanceBackend.is_tokenizer_supported(tokenizer):
        manager.backend = GuidanceBackend(config, tokenizer, config.model_config.get_vocab_size())


def _extra(request: Any) -> dict[str, Any]:
    return (request.sampling_params.extra_args if request.sampling_params else None) or {}


def _whose(request: Any) -> Whose:
    extra, adapter = _extra(request), request.lora_request
    weight = extra.get(WEIGHT_ARG, 1)
    # Only what comes past the gateway says anything else.
    known = isinstance(weight, int) and weight in WEIGHTS
    tenant = str(extra.get(TENANT_ARG) or UNKNOWN_TENANT)
    return Whose(tenant, adapter.lora_name if adapter is not None else None, weight if known else 1)


def _attempt(request: Any) -> str:
    return str(_extra(request).get(ATTEMPT_ARG) or request.request_id)


def _report_cross_salt(payer: str, user: str) -> None:
    logger.error("isolation: attempt %s found a prefix that attempt %s computed under another cache salt", user, payer)


def _has_files(directory: Path) -> bool:
    return (directory / CONFIG_FILE).is_file() and (directory / WEIGHTS_FILE).is_file()


def _rows(output: Any, new: Any) -> Rows:
    """Who is in the step, taken from the lists that vLLM makes for its workers before it counts the step's tokens as computed."""
    ongoing, scheduled = output.scheduled_cached_reqs, output.num_scheduled_tokens
    requests, before = ongoing.req_ids, ongoing.num_computed_tokens
    if new:
        requests = [*requests, *(request.req_id for request in new)]
        before = [*before, *(request.num_computed_tokens for request in new)]
    if output.total_num_scheduled_tokens == len(requests):
        # Nothing but decoding: the common case, and the one with the most rows.
        tokens = [1] * len(requests)
    else:
        tokens = [scheduled[request] for request in requests]
    return Rows(requests, tokens, before)

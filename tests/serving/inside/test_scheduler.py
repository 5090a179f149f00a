"""vLLM's real scheduler with the meter in it, driven step by step without an engine.

Also the contract test with the pinned vLLM: if its scheduler changes shape, this fails before an engine starts.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from catalog.owners import TimeOwner

pytest.importorskip("vllm")

from serving.engine.door import AdapterFiles
from serving.engine.tiny_model import TinyModel
from serving.errors import ServingError
from serving.inside import adapter_timers as lora_events
from serving.inside import plugin as vllm_plugin
from serving.metering.accounting import Accountant
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.channel import Message, Occupancy, Receiver
from serving.wire.events import Aborted, Bye, EngineStep, Entered, Hello, PrefixHit, Woke
from serving.wire.keys import WEIGHTS_FILE

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

BLOCK = 32


class Driver:
    """A scheduler with two steps in flight and a device that answers token 7 to everything."""

    def __init__(self, tiny: TinyModel, address: str, blocks: int, **settings: Any) -> None:
        import torch
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.utils.hashing import get_hash_fn_by_name
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        from serving.inside.scheduler import MeterScheduler

        lora_events.install()
        config = AsyncEngineArgs(
            model=str(tiny.base_path),
            enable_lora=True,
            max_loras=2,
            max_cpu_loras=4,
            max_lora_rank=64,
            enable_prefix_caching=True,
            max_model_len=512,
            max_num_seqs=4,
            max_num_batched_tokens=128,
            kv_cache_memory_bytes=64 << 20,
            block_size=BLOCK,
            additional_config={"loraledger": {"address": address, "emitter": "eng-1", "engine": "cpu-0", **settings}}
            if address
            else {},
        ).create_engine_config()
        config.scheduler_config.async_scheduling = True
        config.cache_config.num_gpu_blocks = blocks
        hash_function = get_hash_fn_by_name(config.cache_config.prefix_caching_hash_algo)
        init_none_hash(hash_function)
        self.hasher = get_request_block_hasher(BLOCK, hash_function)
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=4, head_size=64, dtype=torch.bfloat16)
        self.scheduler = MeterScheduler(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(
                num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["l0"], spec)]
            ),
            structured_output_manager=StructuredOutputManager(config),
            block_size=BLOCK,
            hash_block_size=BLOCK,
            log_stats=True,
        )
        self.stopped = False
        self.in_flight: list[Any] = []
        self.ended: dict[str, Any] = {}
        self.tokens: Counter[str] = Counter()

    def add(
        self,
        name: str,
        tokens: int = 40,
        adapter: AdapterFiles | None = None,
        tenant: Any = "bank",
        path: Path | None = None,
        max_tokens: int = 3,
        first: int = 100,
        attempt: str = "",
        salt: str = "s",
    ) -> None:
        from vllm import SamplingParams
        from vllm.lora.request import LoRARequest
        from vllm.v1.request import Request

        lora = None
        if adapter is not None:
            number = int(adapter.name.rpartition("-")[2]) + 1
            lora = LoRARequest(lora_name=adapter.served_name, lora_int_id=number, lora_path=str(path or adapter.path))
        extra = {"ll_attempt": f"gw-1:{attempt or name}", "ll_tenant": tenant} if tenant else None
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True, extra_args=extra)
        self.scheduler.add_request(
            Request(
                name,
                list(range(first, first + tokens)),
                params,
                None,
                lora_request=lora,
                cache_salt=salt,
                block_hasher=self.hasher,
            )
        )

    def schedule(self) -> None:
        step = self.scheduler.schedule()
        # A prompt that is not complete after this step gets no token.
        partial = {name for name in step.num_scheduled_tokens if self.scheduler.requests[name].is_prefill_chunk}
        self.in_flight.append((step, partial))

    def answer(self) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        step, partial = self.in_flight.pop(0)
        names = list(step.num_scheduled_tokens)
        places = {name: place for place, name in enumerate(names)}
        tokens = [[] if name in partial else [7] for name in names]
        out = self.scheduler.update_from_output(
            step, ModelRunnerOutput(req_ids=names, req_id_to_index=places, sampled_token_ids=tokens)
        )
        for outputs in out.values():
            for one in outputs.outputs:
                self.tokens[one.request_id] += len(one.new_token_ids)
            self.ended |= {o.request_id: o.finish_reason for o in outputs.outputs if o.finish_reason is not None}

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.scheduler.shutdown()

    def run(self) -> None:
        while self.scheduler.has_requests() or self.in_flight:
            if self.scheduler.has_requests() and len(self.in_flight) < 2:
                self.schedule()
            else:
                self.answer()


Start = Callable[[str, int], Driver]
World = tuple[Driver, Callable[[], list[Message]]]


@pytest.fixture(scope="module")
def start(tiny: TinyModel) -> Start:
    return lambda address, blocks: Driver(tiny, address, blocks)


@pytest.fixture
def blocks() -> int:
    return 200


@pytest.fixture
def world(start: Start, tmp_path: Path, blocks: int) -> Iterator[World]:
    address = f"ipc://{tmp_path}/m"
    receiver = Receiver(address)
    driver = start(address, blocks)

    def heard() -> list[Message]:
        """All events so far; ends the scheduler."""
        driver.stop()
        events: list[Message] = []
        while not any(isinstance(event, Bye) for event in events):
            assert receiver.wait(5)
            while (message := receiver.take()) is not None:
                events.append(message)
        heard.gaps = receiver.gaps  # type: ignore[attr-defined]
        return [event for event in events if not isinstance(event, Occupancy)]

    yield driver, heard
    driver.stop()
    receiver.close()


def accounted(events: list[Message]) -> Accountant:
    accountant = Accountant(DEFAULT_PROFILE, "cpu-0")
    for event in events:
        assert not isinstance(event, Occupancy)
        accountant.take(event)
    for window in accountant.windows(2**62):
        window.check()
    return accountant


def test_two_steps_in_flight_never_overlap_and_every_attempt_is_measured(
    world: World, adapters: list[AdapterFiles]
) -> None:
    driver, heard = world
    for n in range(8):
        driver.add(f"r{n}", 40 + 30 * n, adapters[n % 3] if n % 4 else None, tenant="bank" if n % 2 else "shop")
    driver.run()
    events = heard()

    assert len(driver.ended) == 8
    assert [type(event) for event in events[:3]] == [Hello, Woke, Entered]
    assert isinstance(events[-1], Bye)
    steps = [event for event in events if isinstance(event, EngineStep)]
    assert any(one.end_ns == other.start_ns for one, other in pairwise(steps)), "steps were not pipelined"
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(steps))
    assert [step.work_left for step in steps] == [True] * (len(steps) - 1) + [False]
    entered = {event.request: event for event in events if isinstance(event, Entered)}
    assert entered["r1"] == Entered("r1", "gw-1:r1", "bank", "adapter-1", 70, entered["r1"].at_ns)
    accountant = accounted(events)
    assert accountant.totals.owners[TimeOwner.UNATTRIBUTED] == 0
    for n in range(8):
        found = accountant.measured(f"gw-1:r{n}")
        assert found is not None
        assert (found.input_tokens, found.output_tokens, found.preemptions) == (40 + 30 * n, 3, 0)
    assert sum(accountant.totals.tenant_ns.values()) == accountant.totals.owners[TimeOwner.TENANTS]


def test_cached_tokens_are_told_with_the_first_row_only(world: World) -> None:
    driver, heard = world
    driver.add("first", 100)
    driver.run()
    driver.add("second", 100)
    driver.run()
    events = heard()
    told = [pair for event in events if isinstance(event, EngineStep) for pair in event.cached]
    assert told == [("first", 0), ("second", 3 * BLOCK)]
    rows = [row for event in events if isinstance(event, EngineStep) for row in event.rows if row.request == "second"]
    assert [(row.before, row.tokens) for row in rows] == [(96, 4), (100, 1), (101, 1)]
    found = accounted(events).measured("gw-1:second")
    assert found is not None
    assert found.cached_tokens == 96


def told_hits(events: list[Message]) -> list[PrefixHit]:
    return [hit for event in events if isinstance(event, EngineStep) for hit in event.hits]


def test_who_computed_what_a_request_found_is_told_and_re_shared_inside_the_tenant(
    world: World, adapters: list[AdapterFiles]
) -> None:
    """A longer prompt goes on where another ended; other tenants, other adapters and answers have no part in it."""
    driver, heard = world
    driver.add("first", 100)
    driver.add("same step", 100)
    driver.run()
    driver.add("longer", 170)
    driver.run()
    driver.add("last", 200)
    driver.add("stranger", 100, tenant="shop", salt="t")
    driver.add("tuned", 100, adapters[0])
    driver.run()
    events = heard()
    assert told_hits(events) == [
        PrefixHit("same step", "gw-1:first", 0, 96),
        PrefixHit("longer", "gw-1:first", 0, 96),
        PrefixHit("last", "gw-1:first", 0, 96),
        PrefixHit("last", "gw-1:longer", 96, 160),
    ]
    accountant = accounted(events)
    lines = accountant.reshared()
    assert [line.seq for line in lines] == [0, 1, 2]
    assert {line.tenant for line in lines} == {"bank"}
    carried: dict[str, int] = {}
    for line in lines:
        line.check()
        for move in line.moves:
            carried[move.attempt] = carried.get(move.attempt, 0) + move.ns
    assert set(carried) == {"gw-1:first", "gw-1:same step", "gw-1:longer", "gw-1:last"}
    assert carried["gw-1:first"] < 0 < carried["gw-1:same step"] < carried["gw-1:last"]
    assert accountant.cross_tenant_hits == frozenset()


def test_tenants_of_one_sharing_group_find_each_others_prefixes_and_are_not_re_shared(world: World) -> None:
    driver, heard = world
    driver.add("first", 100)
    driver.run()
    driver.add("sister", 100, tenant="bank 2")
    driver.run()
    events = heard()
    assert told_hits(events) == [PrefixHit("sister", "gw-1:first", 0, 96)]
    accountant = accounted(events)
    assert accountant.reshared() == []
    assert accountant.cross_tenant_hits == {("bank", "bank 2")}


@pytest.mark.parametrize("blocks", [6])
def test_a_prefix_that_had_to_be_given_away_belongs_to_who_computed_it_again(world: World) -> None:
    driver, heard = world
    driver.add("first", 100)
    driver.run()
    driver.add("crowd", 150, first=700)
    driver.run()
    driver.add("again", 100)
    driver.run()
    driver.add("last", 100)
    driver.run()
    assert told_hits(heard()) == [PrefixHit("last", "gw-1:again", 0, 96)]


@pytest.mark.parametrize("blocks", [8])
def test_a_preempted_request_pays_for_its_repetition_in_nobodys_name(world: World) -> None:
    driver, heard = world
    for n, name in enumerate(("a", "b", "c")):
        driver.add(name, 60, max_tokens=50, first=100 * n)
    driver.run()
    events = heard()
    preempted = {name for event in events if isinstance(event, EngineStep) for name in event.preempted}
    assert told_hits(events) == [], "what a request finds of itself when it comes back is no hit"
    assert preempted, "seven blocks were enough for three requests of four blocks each"
    accountant = accounted(events)
    assert accountant.totals.owners[TimeOwner.RECOMPUTE] > 0
    for name in ("a", "b", "c"):
        found = accountant.measured(f"gw-1:{name}")
        assert found is not None
        assert (found.input_tokens, found.output_tokens) == (60, 50)
        assert bool(found.preemptions) == (name in preempted)


def test_aborts_are_told_alone_between_steps_and_with_the_step_inside_one(
    world: World,
) -> None:
    from vllm.v1.request import RequestStatus

    driver, heard = world
    driver.add("inside")
    driver.add("between")
    driver.add("waiting")
    driver.schedule()
    driver.scheduler.finish_requests(["inside"], RequestStatus.FINISHED_ABORTED)
    driver.answer()
    driver.scheduler.finish_requests(["between", "unknown"], RequestStatus.FINISHED_ABORTED)
    driver.run()
    driver.scheduler.finish_requests(["unknown"], RequestStatus.FINISHED_ABORTED)
    events = heard()
    steps = [event for event in events if isinstance(event, EngineStep)]
    assert "inside" in steps[0].finished
    assert [event.requests for event in events if isinstance(event, Aborted)] == [("between",)]
    assert steps[-1].rows == ()
    assert accounted(events).measured("gw-1:between") is not None


def test_a_client_that_leaves_before_during_or_after_prefill_pays_for_what_ran(world: World) -> None:
    from vllm.v1.request import RequestStatus

    driver, heard = world
    driver.add("before", 300)
    driver.scheduler.finish_requests(["before"], RequestStatus.FINISHED_ABORTED)
    driver.add("during", 300, first=500)
    driver.schedule()
    driver.answer()
    driver.scheduler.finish_requests(["during"], RequestStatus.FINISHED_ABORTED)
    driver.add("after", 40, max_tokens=50, first=900)
    for _ in range(3):
        driver.schedule()
        driver.answer()
    driver.scheduler.finish_requests(["after"], RequestStatus.FINISHED_ABORTED)
    driver.run()
    accountant = accounted(heard())
    before, during, after = (accountant.measured(f"gw-1:{name}") for name in ("before", "during", "after"))
    assert before is not None
    assert during is not None
    assert after is not None
    assert (before.slices, before.input_tokens, before.output_tokens, before.cached_tokens) == ((), 0, 0, None)
    assert (during.input_tokens, during.output_tokens) == (300, 0)
    assert sum(part.base_ns for part in during.slices) > 0
    assert after.output_tokens == 3
    assert accountant.totals.owners[TimeOwner.UNATTRIBUTED] == 0
    tally = accountant.tally()
    assert (tally.requests, tally.aborted_requests) == (3, 3)
    assert (tally.aborted_prompt_tokens, tally.aborted_output_tokens) == (340, 3)


def test_samples_of_one_prompt_are_one_attempt_and_a_retry_is_another(world: World) -> None:
    from vllm.v1.request import RequestStatus

    driver, heard = world
    driver.add("0_chat", 100, attempt="1")
    driver.add("1_chat", 100, attempt="1")
    driver.run()
    driver.add("chat", 100, attempt="2", first=700)
    driver.schedule()
    driver.scheduler.finish_requests(["chat"], RequestStatus.FINISHED_ABORTED)
    driver.run()
    driver.add("chat", 100, attempt="3", first=700)
    driver.run()
    accountant = accounted(heard())
    both, failed, retried = (accountant.measured(f"gw-1:{n}") for n in (1, 2, 3))
    assert both is not None
    assert failed is not None
    assert retried is not None
    assert (both.input_tokens, both.output_tokens) == (100, 6)
    assert (failed.input_tokens, retried.input_tokens, retried.output_tokens) == (100, 100, 3)
    assert all(sum(part.measured_ns for part in found.slices) > 0 for found in (both, failed, retried))
    tally = accountant.tally()
    assert (tally.requests, tally.prompt_tokens, tally.again_prompt_tokens) == (4, 400, 100)
    assert (tally.claimed_attempts, tally.in_flight_requests) == (0, 0)


def test_a_request_past_the_gateway_is_metered_under_its_own_name(
    world: World,
) -> None:
    driver, heard = world
    driver.add("stranger", tenant=None)
    driver.run()
    (entered,) = (event for event in heard() if isinstance(event, Entered))
    assert (entered.attempt, entered.tenant) == ("stranger", "unknown")


def test_a_missing_adapter_fails_its_request_and_nobody_elses(
    world: World, adapters: list[AdapterFiles], tmp_path: Path
) -> None:
    from vllm.v1.engine import FinishReason

    driver, heard = world
    driver.add("lost", adapter=adapters[0], path=tmp_path / "gone")
    driver.add("fine", adapter=adapters[1])
    driver.run()
    assert (adapters[1].path / WEIGHTS_FILE).is_file()
    assert driver.ended == {"lost": FinishReason.ERROR, "fine": FinishReason.LENGTH}
    assert accounted(heard()).measured("gw-1:lost") is not None


def test_a_meter_that_fails_is_seen_and_the_engine_goes_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError("no name")

    caplog.set_level(logging.CRITICAL, "vllm")
    driver, heard = world
    driver.add("r0", tenant=Unspeakable())
    driver.run()
    events = heard()
    assert driver.ended
    assert not any(isinstance(event, Entered) for event in events)
    assert heard.gaps == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("metered", [True, False])
def test_one_flag_chooses_the_metering_scheduler(tiny: TinyModel, metered: bool) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs

    vllm_plugin.register()
    flag = {"additional_config": {"loraledger": {"engine": "cpu-0"}}} if metered else {}
    arguments = AsyncEngineArgs(model=str(tiny.base_path), max_model_len=512, kv_cache_memory_bytes=64 << 20, **flag)
    chosen = arguments.create_engine_config().scheduler_config.scheduler_cls
    assert chosen == ("serving.inside.scheduler.MeterScheduler" if metered else None)


def test_an_engine_without_the_meters_address_does_not_start(start: Start) -> None:
    with pytest.raises(ServingError, match="additional_config"):
        start("", 200)

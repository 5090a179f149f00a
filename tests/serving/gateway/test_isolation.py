"""Asked from outside: whatever a client says of salt, priority, identity or arguments, the world that others and the meter see is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.fake_engine import Device

LONG = "word " * 100
OTHER = "other " * 100
ROUTES = {"/v1/chat/completions": "messages", "/v1/completions": "prompt"}


async def world(bench: Any, path: str, said: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """What everybody sees of two tenants' requests on an engine that has room for one at a time; `said` is the clinic's own."""

    def body(text: str, **fields: Any) -> dict[str, Any]:
        field = ROUTES[path]
        words = [{"role": "user", "content": text}] if field == "messages" else text
        return {field: words, "max_tokens": 4, "model": "tiny-llama", **fields}

    replies = [await bench.post(body(LONG), "bank", path)]
    bench.engine.switches.stepping.clear()
    waiting = []
    for tenant, text, fields, own in (("bank", OTHER, {}, {}), ("bank", LONG, {}, {}), ("clinic", LONG, said, headers)):
        waiting.append(asyncio.create_task(bench.post(body(text, **fields), tenant, path, **own)))
        async with asyncio.timeout(5):
            while len(bench.engine.seen) < len(replies) + len(waiting):
                await asyncio.sleep(0)
    bench.engine.switches.stepping.set()
    replies += await asyncio.gather(*waiting)
    replies.append(await bench.post(body(LONG), "bank", path))
    bench.clock.advance(600_000_000_000)
    assert [reply.status_code for reply in replies] == [200] * 5
    records = {
        record.seq: {
            name: getattr(record, name) for name in record.__struct_fields__ if name not in ("request_id", "trace_id")
        }
        for record in bench.records()
    }
    return {
        "records": records,
        "opened": [(one.seq, one.tenant) for one in bench.opened()],
        "answers": [
            [choice.get("message") or choice.get("text") for choice in reply.json()["choices"]] for reply in replies
        ],
        "usage": [reply.json()["usage"] for reply in replies],
        "windows": bench.engine.windows(),
        "order": [(path, list(sent["vllm_xargs"].items()), sent["cache_salt"]) for path, _, sent in bench.engine.seen],
        "unmeasured": bench.engine.accountant.gaps,
    }


SALT = "the salt that the other tenant's requests have"
HOSTILE: list[dict[str, Any]] = [
    {"cache_salt": SALT},
    {"priority": -100},
    {"request_id": "chatcmpl-mine"},
    {"session_id": "mine"},
    {"data_parallel_rank": 1},
    {"vllm_xargs": {"ll_tenant": "bank", "ll_attempt": "gw-test:0"}},
    {"ll_tenant": "bank", "ll_attempt": "gw-test:0", "lora_request": {"lora_name": "risk"}},
    {"kv_transfer_params": {"do_remote_prefill": True}, "ec_transfer_params": {"a": 1}},
]
HEADERS = {
    "x-request-id": "mine", "x-session-id": "mine", "x-data-parallel-rank": "1", "x-priority": "-100",
    "x-tenant": "bank", "traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01",
}  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("said", [*HOSTILE, {}], ids=lambda said: next(iter(said), "headers"))
def test_what_a_client_says_of_itself_changes_nothing_that_another_or_the_meter_sees(
    said: dict[str, Any], path: str, run_bench: Callable[..., None]
) -> None:
    found: list[dict[str, Any]] = []

    async def plain(bench: Any) -> None:
        found.append(await world(bench, path, {}, {}))

    run_bench(plain, device=Device(max_num_seqs=1))
    (sound,) = found
    salts = [salt for _, _, salt in sound["order"]]
    assert salts[0] == salts[1] == salts[2] == salts[4] != salts[3]
    lie = {name: salts[0] if value is SALT else value for name, value in said.items()}
    first = len(sound["records"])

    async def hostile(bench: Any) -> None:
        found.append(await world(bench, path, lie, {} if said else HEADERS))

    run_bench(hostile, device=Device(max_num_seqs=1), home="again")
    assert found[1] == sound
    cached = [sound["records"][seq]["cached_tokens"] for seq in range(first)]
    assert (cached[0], cached[3]) == (0, 0), "nothing of the bank's was there for the clinic"
    assert cached[2] == cached[4] == 96

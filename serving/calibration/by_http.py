"""Drives calibration load through an engine by HTTP: any vLLM server whose meter keeps its steps in a file.

It speaks to the engine itself, past any gateway: nobody is billed, and prompts are random token ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

import httpx

from serving.calibration.phases import MOST_AT_ONCE, Phase, phases

PAUSE_S: Final = 1.5
"""Between phases, so that the meter can tell them apart (`engine.step_file`)."""
TIMEOUT_S: Final = 120.0


class EngineRefused(RuntimeError):
    """The engine did not take the load; the message says what it answered."""


async def drive(url: str, count: int, seed: int, slots: int, say: Callable[[str], None]) -> None:
    """Run `count` phases over the models that the server lists, at most `slots` adapters in one. EngineRefused or httpx.HTTPError."""
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
        listed = _checked(await client.get("/v1/models"))["data"]
        base = next(model for model in listed if not model.get("parent"))
        adapters = [model["id"] for model in listed if model.get("parent")]
        plan = phases(Random(seed), count, adapters, slots, base.get("max_model_len") or 2048, MOST_AT_ONCE)
        for number, phase in enumerate(plan, 1):
            await _run(client, base["id"], phase)
            say(f"phase {number} of {count}: {len(phase.calls)} requests, {phase.at_once} at once")
            await asyncio.sleep(PAUSE_S)


async def _run(client: httpx.AsyncClient, base: str, phase: Phase) -> None:
    room = asyncio.Semaphore(phase.at_once)

    async def ask(model: str, tokens: tuple[int, ...], output: int) -> None:
        body = {"model": model, "prompt": list(tokens), "max_tokens": output, "ignore_eos": True, "temperature": 0}
        async with room:
            _checked(await client.post("/v1/completions", json=body))

    await asyncio.gather(*(ask(call.adapter or base, call.tokens, call.output) for call in phase.calls))


def _checked(reply: httpx.Response) -> Any:
    if reply.is_error:
        raise EngineRefused(f"{reply.request.url} answered {reply.status_code}: {reply.text[:300]}")
    return reply.json()

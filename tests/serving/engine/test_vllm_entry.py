"""Whatever comes to the engine's entry carries an attempt and its tenant's salt, or does not enter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from serving.engine.vllm_entry import PastTheGateway, watch_entry, watched
from serving.wire.request_context import REQUEST_CONTEXT, RequestContext


@dataclass
class Params:
    extra_args: dict[str, Any] | None = None


@dataclass
class Client:
    """As much of vLLM's client as the entry knows."""

    entered: list[tuple[Any, Any, dict[str, Any]]] = field(default_factory=list)
    closed: bool = False
    pause: bool = False
    reason: str = "length"

    async def add_request(self, request_id: str, prompt: Any, params: Any, **options: Any) -> str:
        if self.pause:
            await asyncio.sleep(0)
        self.entered.append((prompt, params, options))
        return request_id

    async def generate(self, prompt: Any, params: Any, request_id: str) -> AsyncIterator[Any]:
        await self.add_request(request_id, prompt, params)
        try:
            for tokens, reason in (([1], None), ([2, 3], None), ([4], self.reason)):
                yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens, finish_reason=reason)])
        finally:
            self.closed = True


def client() -> Any:
    made = Client()
    watch_entry(made)
    return made


def test_a_ticket_overrules_whatever_a_request_carries() -> None:
    async def test() -> None:
        engine, context = client(), RequestContext("gw-1:7", "bank", "salt")
        REQUEST_CONTEXT.set(context)
        stolen = {"type": "token", "prompt_token_ids": [1], "cache_salt": "another's"}
        given = Params({"ll_tenant": "shop", "x": 1})
        engine.pause = True
        options = {"priority": -5, "session_id": "s", "arrival_time": 1.0}
        await asyncio.gather(*(engine.add_request(f"r{number}", stolen, given, **options) for number in range(2)))
        for number, (prompt, params, passed) in enumerate(engine.entered):
            assert prompt["cache_salt"] == "salt"
            assert params.extra_args == {"ll_attempt": "gw-1:7", "ll_tenant": "bank", "ll_prompt": str(number)}
            assert passed == {"priority": 0, "session_id": None, "arrival_time": 1.0}
        assert given.extra_args == {"ll_tenant": "shop", "x": 1}, "another prompt may share them"
        assert context.entered == 2

    asyncio.run(test())


def test_a_clients_own_weight_is_overwritten_and_the_tenants_goes_with_each_request() -> None:
    async def test() -> None:
        engine = client()
        for weight, said in ((1, {}), (3, {"ll_weight": 3})):
            REQUEST_CONTEXT.set(RequestContext("gw-1:7", "bank", "salt", weight))
            await engine.add_request("r", {"type": "token", "prompt_token_ids": [1]}, Params({"ll_weight": 1000}))
            _, params, _ = engine.entered[-1]
            assert params.extra_args == {"ll_attempt": "gw-1:7", "ll_tenant": "bank", "ll_prompt": "0", **said}

    asyncio.run(test())


@pytest.mark.parametrize(
    ("prompt", "params"),
    [("a", Params()), ({"encoder_prompt": {}, "decoder_prompt": {}}, Params()), ({"type": "token"}, SimpleNamespace())],
)
def test_what_cannot_carry_one_does_not_enter(prompt: Any, params: Any) -> None:
    async def test() -> None:
        engine = client()
        REQUEST_CONTEXT.set(RequestContext("gw-1:7", "bank", "salt"))
        with pytest.raises(PastTheGateway):
            await engine.add_request("r", prompt, params)
        assert engine.entered == []

    asyncio.run(test())


def test_without_a_ticket_only_what_names_its_attempt_enters() -> None:
    async def test() -> None:
        engine = client()
        with pytest.raises(PastTheGateway, match="no attempt"):
            await engine.add_request("r", {"type": "token"}, Params())
        await engine.add_request("r", {"type": "token"}, Params({"ll_attempt": "gw-1:8"}))
        assert len(engine.entered) == 1

    asyncio.run(test())


def test_tokens_are_counted_as_they_are_handed_over_and_a_hang_up_reaches_the_engine() -> None:
    async def test() -> None:
        engine, context = client(), RequestContext("gw-1:7", "bank", "salt")
        REQUEST_CONTEXT.set(context)
        outputs = engine.generate({"type": "token"}, Params(), "r")
        await anext(outputs)
        await anext(outputs)
        assert (context.handed, engine.closed) == (3, False)
        await outputs.aclose()
        assert engine.closed

    asyncio.run(test())


@pytest.mark.parametrize(
    ("reason", "unfinished"), [("length", False), ("repetition", False), ("abort", True), ("error", True)]
)
def test_what_the_engine_gave_up_is_noted(reason: str, unfinished: bool) -> None:
    async def test() -> None:
        engine, context = client(), RequestContext("gw-1:7", "bank", "salt")
        engine.reason = reason
        REQUEST_CONTEXT.set(context)
        async for _ in engine.generate({"type": "token"}, Params(), "r"):
            assert not context.unfinished or context.handed == 4
        assert context.unfinished is unfinished

    asyncio.run(test())


def test_the_application_says_that_the_entry_is_watched() -> None:
    async def test() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            pass

        context = RequestContext("gw-1:7", "bank", "salt")
        await watched(app)({}, None, None)  # type: ignore[arg-type]
        REQUEST_CONTEXT.set(context)
        await watched(app)({}, None, None)  # type: ignore[arg-type]
        assert context.watched

    asyncio.run(test())

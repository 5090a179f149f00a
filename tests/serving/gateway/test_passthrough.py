"""What is passed on enters no engine, says nothing of it, and one tenant's share of it holds up no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from starlette.types import Receive, Scope, Send

from serving.attempt.client import Client
from serving.attempt.limits import Limits
from serving.engine.door import EngineDoor
from serving.gateway.clients import reply
from serving.gateway.passthrough import AT_ONCE, AT_ONCE_EACH, TEXT_BYTES, Passthrough
from serving.wire.request_context import REQUEST_CONTEXT

Run = Callable[..., None]
COUNT = "/v1/messages/count_tokens"


@dataclass
class Door:
    """As much of an engine as is asked here; its application answers when it is let."""

    base_model: str = "tiny-llama"
    up: bool = True
    status: int | None = 200
    heard: list[dict[str, Any]] = field(default_factory=list)
    let: asyncio.Event = field(default_factory=asyncio.Event)

    async def healthy(self) -> bool:
        return self.up

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert REQUEST_CONTEXT.get() is None, "it must not enter the engine"
        assert {name for name, _ in scope["headers"]} == {b"content-type", b"content-length"}
        self.heard.append(json.loads((await receive())["body"]))
        await self.let.wait()
        if self.status is None:
            raise RuntimeError("a path inside the server")
        await reply(send, self.status, b'{"count": 1}')


async def ask(
    passthrough: Passthrough, bench: Any, tenant: str, body: bytes, path: str = "/tokenize"
) -> tuple[int, Any, set[bytes]]:
    sent: list[Any] = []
    given = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return given.pop() if given else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    view = bench.source.view
    client = Client(receive, send)
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"authorization", b"Bearer x")]}
    await passthrough.serve(scope, client, view, next(each for each in view.catalog.tenants if each.id == tenant))
    client.close()
    return sent[0]["status"], json.loads(sent[1]["body"]), {name for name, _ in sent[0]["headers"]}


def test_the_engine_hears_the_base_models_name_and_nothing_that_steers_it(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        door = Door()
        door.let.set()
        passthrough = Passthrough(cast("EngineDoor", door), Limits())
        body = {"model": "coder", "prompt": "a", "cache_salt": "s", "priority": 1}
        assert (await ask(passthrough, bench, "clinic", json.dumps(body).encode()))[:2] == (200, {"count": 1})
        assert door.heard == [{"model": "tiny-llama", "prompt": "a"}]
        for refused in (b'{"model": "risk"}', b'{"model": "nobody"}'):
            assert (await ask(passthrough, bench, "clinic", refused))[0] == 404
        for refused in (b"[]", b'{"model": 1}', b'{"prompt": "\\ud800"}'):
            assert (await ask(passthrough, bench, "clinic", refused))[0] == 400
        assert (await ask(passthrough, bench, "clinic", b" " * (TEXT_BYTES + 1)))[0] == 413
        assert len(door.heard) == 1

    run_bench(test)


@pytest.mark.parametrize("status", [500, None])
def test_what_the_front_end_breaks_on_is_the_body_while_the_engine_is_up(run_bench: Run, status: int | None) -> None:
    async def test(bench: Any) -> None:
        door = Door(status=status)
        door.let.set()
        passthrough = Passthrough(cast("EngineDoor", door), Limits())
        code, body, _ = await ask(passthrough, bench, "clinic", b"{}", COUNT)
        assert (code, body["type"], body["error"]["type"]) == (400, "error", "invalid_request_error")
        assert "path" not in json.dumps(body)
        door.up = False
        code, body, _ = await ask(passthrough, bench, "clinic", b"{}")
        assert (code, body["error"]["type"]) == (500, "server_error")

    run_bench(test)


def test_a_tenant_has_a_share_of_it(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        door = Door()
        passthrough = Passthrough(cast("EngineDoor", door), Limits())
        many = [asyncio.create_task(ask(passthrough, bench, "clinic", b"{}")) for _ in range(AT_ONCE_EACH)]
        await asyncio.sleep(0)
        code, body, headers = await ask(passthrough, bench, "clinic", b"{}")
        assert (code, body["error"]["code"]) == (429, "requests_beside")
        assert b"retry-after" in headers
        other = asyncio.create_task(ask(passthrough, bench, "bank", b"{}"))
        while len(door.heard) < AT_ONCE:
            await asyncio.sleep(0)
        door.let.set()
        assert {task.result()[0] for task in (await asyncio.wait({*many, other}))[0]} == {200}
        assert (await ask(passthrough, bench, "clinic", b"{}"))[0] == 200

    run_bench(test)

"""The fake engine's OpenAI-compatible app: answers as vLLM's does, internals included, so that a gateway has something to hide."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


@dataclass(slots=True, eq=False)
class Request:
    """One sequence in the fake engine. `tokens` gets each sampled word, and None at the end."""

    id: str
    attempt: str
    tenant: str
    model: str
    adapter: str | None
    salt: str
    prompt: tuple[str, ...]
    max_tokens: int
    priority: int = 0
    computed: int = 0
    cached: int = 0
    sampled: int = 0
    tokens: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)

    @property
    def length(self) -> int:
        """Tokens held in the KV cache."""
        return max(self.computed, len(self.prompt))

    @property
    def finished(self) -> bool:
        """Whether it has all its tokens."""
        return self.sampled >= self.max_tokens

    def sample(self) -> None:
        """One more word, the same for the same model, prompt and position."""
        seed = f"{self.model}\0{' '.join(self.prompt)}\0{self.sampled}"
        self.sampled += 1
        self.tokens.put_nowait("w" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:4])
        if self.finished:
            self.tokens.put_nowait(None)


class Scheduler(Protocol):
    """What the app needs of the engine."""

    @property
    def switches(self) -> Any:
        """What is to go wrong."""
        ...

    @property
    def device(self) -> Any:
        """Its limits."""
        ...

    def serves(self, model: str) -> bool:
        """Whether that model is known."""
        ...

    def submit(self, request: Request) -> None:
        """Take a request."""
        ...

    def abort(self, request: Request) -> None:
        """Drop a request."""
        ...


class EngineBroken(Exception):
    """The fault `raise`."""


class FakeOpenAI:
    """ASGI app with chat and text completions, streamed or whole; and, like vLLM's, routes that must not be public."""

    def __init__(self, engine: Scheduler) -> None:
        self._engine = engine
        self._count = 0
        self.seen: list[tuple[str, dict[str, str], dict[str, object]]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body", False):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["path"]
        if path not in (CHAT, COMPLETIONS):
            await _json(send, 200, {"internal": path})
            return
        body = json.loads(raw)
        self.seen.append((path, headers, body))
        faults = self._engine.switches.faults
        fault = faults.pop(0) if faults else None
        if fault == "raise":
            raise EngineBroken("cuda error at /opt/engine/kernel.cu")
        if fault == "error":
            await _error(send, 500, f"EngineCore died while serving {body['model']}")
            return
        if refusal := self._refusal(path, body):
            await _error(send, *refusal)
            return
        await _Reply(self._engine, self._requests(path, headers, body), path, body, headers, fault).run(receive, send)

    def count_tokens(self, path: str, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Words of each prompt; None for what is refused as malformed."""
        if path == CHAT:
            return (len(_words(path, body)),) if isinstance(body.get("messages"), list) else None
        prompt = body.get("prompt")
        prompts = prompt if isinstance(prompt, list) and not isinstance(next(iter(prompt), 0), int) else [prompt]
        return tuple(len(_words(path, {"prompt": one})) for one in prompts)

    def _refusal(self, path: str, body: dict[str, Any]) -> tuple[int, str] | None:
        if not self._engine.serves(body.get("model", "")):
            return 404, f"The model `{body.get('model')}` does not exist."
        given = body.get("messages" if path == CHAT else "prompt")
        if not given or (path == CHAT and not isinstance(given, list)):
            return 400, f"messages or prompt: field required (model {body['model']})"
        limit = self._engine.device.max_model_len
        if len(_words(path, body)) > limit:
            return 400, f"Maximum context length of {body['model']} is {limit} tokens."
        return None

    def _requests(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> list[Request]:
        xargs = body.get("vllm_xargs") or {}
        wanted = body.get("max_completion_tokens") or body.get("max_tokens") or 16
        name, at, _ = body["model"].partition("@")
        choices = body.get("n") or 1
        requests = []
        for number, prompt in enumerate(_prompts(path, body)):
            self._count += 1
            # vLLM's names: one for each prompt, and one below it for each of several choices.
            whole = f"cmpl-{headers.get('x-request-id', 'none')}-{number}-{self._count:08x}"
            requests += [
                Request(
                    id=f"{choice}_{whole}" if choices > 1 else whole,
                    attempt=str(xargs.get("ll_attempt", "")),
                    tenant=str(xargs.get("ll_tenant", "")),
                    model=body["model"],
                    adapter=name if at else None,
                    salt=str(body.get("cache_salt", "")),
                    prompt=prompt,
                    max_tokens=wanted,
                    priority=int(body.get("priority") or 0),
                )
                for choice in range(choices)
            ]
        return requests


@dataclass(slots=True)
class _Reply:
    engine: Scheduler
    requests: list[Request]
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    fault: str | None

    async def run(self, receive: Receive, send: Send) -> None:
        for request in self.requests:
            self.engine.submit(request)
        work = asyncio.create_task(self._stream(send) if self.body.get("stream") else self._whole(send))
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            ended = work.done()
            work.cancel()
            await asyncio.wait({work})
            for request in self.requests:
                self.engine.abort(request)
        if ended:
            work.result()

    def _object(self, kind: str) -> dict[str, Any]:
        prefix = "chatcmpl" if self.path == CHAT else "cmpl"
        return {
            "id": f"{prefix}-{self.headers.get('x-request-id', 'none')}",
            "object": kind,
            "created": 0,
            "model": self.body["model"],
            "kv_transfer_params": {"remote_engine_id": "secret"},
        }

    def _usage(self, completion: int, of: int | None = None) -> dict[str, Any]:
        """Of the whole reply, or of choice `of`. Each prompt counts once."""
        first = self.requests[:: self.body.get("n") or 1] if of is None else [self.requests[of]]
        prompt = sum(len(request.prompt) for request in first)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    async def _whole(self, send: Send) -> None:
        choices = []
        for i, request in enumerate(self.requests):
            words = []
            while (word := await request.tokens.get()) is not None:
                words.append(word)
            text = " ".join(words)
            content = {"message": {"role": "assistant", "content": text}} if self.path == CHAT else {"text": text}
            choices.append({"index": i, "finish_reason": "length", **content})
        usage = self._usage(sum(r.sampled for r in self.requests))
        usage["prompt_tokens_details"] = {"cached_tokens": self.requests[0].cached}
        kind = "chat.completion" if self.path == CHAT else "text_completion"
        await _json(send, 200, {**self._object(kind), "choices": choices, "usage": usage})

    async def _stream(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        kind = "chat.completion.chunk" if self.path == CHAT else "text_completion"
        options = self.body.get("stream_options") or {}
        for i, request in enumerate(self.requests):
            if self.path == CHAT:
                await self._chunk(send, kind, i, {"delta": {"role": "assistant", "content": ""}}, 0, options)
            count = 0
            while (word := await request.tokens.get()) is not None:
                count += 1
                text = word if count == 1 else f" {word}"
                content = {"delta": {"content": text}} if self.path == CHAT else {"text": text}
                if self.fault == "stream_error" and count == 2:
                    broken = {"error": {"message": f"{self.body['model']} broke", "code": 500}}
                    await _event(send, json.dumps(broken))
                    await _event(send, "[DONE]")
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
                reason = "length" if count == request.max_tokens else None
                await self._chunk(send, kind, i, {**content, "finish_reason": reason}, count, options)
        if options.get("include_usage"):
            usage = self._usage(sum(r.sampled for r in self.requests))
            usage["prompt_tokens_details"] = {"cached_tokens": self.requests[0].cached}
            await _event(send, json.dumps({**self._object(kind), "choices": [], "usage": usage}))
        await _event(send, "[DONE]")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _chunk(
        self, send: Send, kind: str, index: int, content: dict[str, Any], count: int, options: dict[str, Any]
    ) -> None:
        chunk = {**self._object(kind), "choices": [{"index": index, **content}]}
        if options.get("continuous_usage_stats"):
            chunk["usage"] = self._usage(count, index)
        await _event(send, json.dumps(chunk))


def _prompts(path: str, body: dict[str, Any]) -> list[tuple[str, ...]]:
    prompt = body.get("prompt") if path == COMPLETIONS else None
    many = isinstance(prompt, list) and all(isinstance(one, str | list) for one in prompt)
    return [_words(path, {"prompt": one}) for one in prompt] if many and prompt else [_words(path, body)]


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _event(send: Send, data: str) -> None:
    await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})


async def _json(send: Send, status: int, body: dict[str, Any]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode(), "more_body": False})


async def _error(send: Send, status: int, message: str) -> None:
    await _json(send, status, {"error": {"message": message, "type": "Error", "param": None, "code": status}})


def _words(path: str, body: Mapping[str, Any]) -> tuple[str, ...]:
    def texts() -> Iterator[str]:
        if path == COMPLETIONS:
            prompt = body.get("prompt")
            yield " ".join(map(str, prompt)) if isinstance(prompt, list) else str(prompt)
            return
        for message in body.get("messages") or ():
            yield f"<{message.get('role')}>"
            yield str(message.get("content"))

    return tuple(word for text in texts() for word in text.split())

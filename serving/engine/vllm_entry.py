"""Stands where requests enter vLLM: whatever route made them, they carry their attempt's identity and its tenant's cache salt.

A request that belongs to no attempt does not enter. Importing this costs nothing.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from serving.errors import ServingError
from serving.wire.keys import ATTEMPT_ARG, PROMPT_ARG
from serving.wire.request_context import BROKEN, REQUEST_CONTEXT, Refused, RequestContext, identity

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class PastTheGateway(ServingError):
    """A request came to the engine that no attempt answers for."""


def watch_entry(client: Any) -> None:
    """Let nothing into the engine behind vLLM's `client` from now on but what carries an attempt."""
    add_request, generate = client.add_request, client.generate

    @functools.wraps(add_request)
    async def add(request_id: str, prompt: Any, params: Any, *args: Any, **options: Any) -> Any:
        context = REQUEST_CONTEXT.get()
        if context is None:
            if not _marked(params):
                raise PastTheGateway(f"request {request_id} belongs to no attempt")
            return await add_request(request_id, prompt, params, *args, **options)
        prompt, params = _salted(prompt, context), _stamped(params, context)
        try:
            queue = await add_request(request_id, prompt, params, *args, **(options | _plain(options)))
        except BaseException as error:
            refused = _refused(error) if isinstance(error, Exception) else None
            context.refused = context.refused or refused
            # A hang-up, or an engine that dies meanwhile, may leave some choices inside.
            context.entered += refused is None or not refused.clients_fault
            raise
        context.entered += 1
        return queue

    @functools.wraps(generate)
    async def handed(*args: Any, **options: Any) -> AsyncGenerator[Any, None]:
        context = REQUEST_CONTEXT.get()
        async with aclosing(generate(*args, **options)) as outputs:
            async for output in outputs:
                if context is not None:
                    context.handed += sum(len(choice.token_ids) for choice in output.outputs)
                    # Responses and messages have no word for it, and would end as if all were well.
                    context.unfinished |= any(choice.finish_reason in BROKEN for choice in output.outputs)
                yield output

    client.add_request, client.generate = add, handed


def watched(app: ASGIApp) -> ASGIApp:
    """The application before a watched client; it says on each context that what is not noted did not happen."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if (context := REQUEST_CONTEXT.get()) is not None:
            context.watched = True
        await app(scope, receive, send)

    return serve


def _marked(params: Any) -> bool:
    return bool((getattr(params, "extra_args", None) or {}).get(ATTEMPT_ARG))


def _salted(prompt: Any, context: RequestContext) -> Any:
    """The prompt with the tenant's salt. vLLM's renderers make mappings; nothing else could carry one."""
    if not isinstance(prompt, dict):
        raise PastTheGateway(f"attempt {context.attempt} has a prompt of type {type(prompt).__name__}")
    if "encoder_prompt" in prompt or "decoder_prompt" in prompt:
        raise PastTheGateway(f"attempt {context.attempt} has a prompt in two parts")
    return {**prompt, "cache_salt": context.cache_salt}


def _stamped(params: Any, context: RequestContext) -> Any:
    """Parameters that name the attempt, and no other extra argument. Choices of one prompt share them, prompts do not."""
    if not hasattr(params, "extra_args"):
        raise PastTheGateway(f"attempt {context.attempt} asks for something that generates nothing")
    stamped = copy.copy(params)
    number, context.prompts = context.prompts, context.prompts + 1
    stamped.extra_args = {**identity(context), PROMPT_ARG: str(number)}
    return stamped


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """No attempt overtakes another, and none chooses where it runs."""
    plain = {"priority": 0, "data_parallel_rank": None, "session_id": None, "kv_hints": None}
    return {name: value for name, value in plain.items() if name in options}


def _refused(error: Exception) -> Refused:
    from vllm.entrypoints.serve.exception_handling.error_response import create_error_response

    said = create_error_response(error).error
    return Refused(int(said.code), said.message, said.param)

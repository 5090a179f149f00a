"""How many tokens vLLM's own renderer makes of a request: the same chat template and tokenizer that will serve it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

log = logging.getLogger(__name__)


async def count_tokens(renderer: Any, path: str, body: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Tokens of each prompt; None for what vLLM will refuse. Template and tokenizer run in the renderer's own threads."""
    try:
        asked, rendered = _READERS[path]
        inputs = await rendered(renderer, await asyncio.to_thread(asked, renderer, body))
        return None if inputs is None else tuple(len(prompt["prompt_token_ids"]) for prompt in inputs)
    except Exception as error:
        log.debug("vLLM makes no prompts of a request to %s: %s", path, error)
        return None


async def _chat(renderer: Any, request: Any) -> list[Any] | None:
    rendered = await renderer.render_chat(request, skip_mm_cache=True)
    # Anything but a pair is the error that the client is going to read.
    return rendered[1] if isinstance(rendered, tuple) else None


async def _completion(renderer: Any, request: Any) -> list[Any] | None:
    rendered = await renderer.render_completion(request, skip_mm_cache=True)
    return rendered if isinstance(rendered, list) else None


async def _response(renderer: Any, request: Any) -> list[Any] | None:
    rendered = await renderer.render_responses(
        request, previous_messages=None, previous_response_outputs=None, tool_server=None, skip_mm_cache=True
    )
    made = getattr(rendered, "engine_input", None)
    return None if made is None else [made]


def _chat_request(_: Any, body: Mapping[str, Any]) -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    # vLLM parses tool calls in place, and the body is still to be sent.
    return ChatCompletionRequest.model_validate(json.loads(json.dumps(body)))


def _completion_request(_: Any, body: Mapping[str, Any]) -> Any:
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest

    return CompletionRequest.model_validate(dict(body))


def _response_request(_: Any, body: Mapping[str, Any]) -> Any:
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

    return ResponsesRequest.model_validate(json.loads(json.dumps(body)))


def _message_request(renderer: Any, body: Mapping[str, Any]) -> Any:
    """The chat request that vLLM makes of a messages request."""
    from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest
    from vllm.entrypoints.anthropic.serving import AnthropicServingMessages as Serving

    request = AnthropicMessagesRequest.model_validate(json.loads(json.dumps({**body, "model": "any"})))
    return Serving.to_chat_completion_request(
        request, merge_inline_system=Serving._should_merge_inline_system(renderer)
    )


_Asked = Callable[[Any, Mapping[str, Any]], Any]
_Rendered = Callable[[Any, Any], Awaitable[list[Any] | None]]
_READERS: Final[Mapping[str, tuple[_Asked, _Rendered]]] = {
    "/v1/chat/completions": (_chat_request, _chat),
    "/v1/completions": (_completion_request, _completion),
    "/v1/responses": (_response_request, _response),
    "/v1/messages": (_message_request, _chat),
}
"""By path, what makes vLLM's request of a body, and what renders it."""

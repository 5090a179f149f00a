"""How many tokens vLLM's own renderer makes of a request: the same chat template and tokenizer that will serve it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

log = logging.getLogger(__name__)

CHAT: Final = "/v1/chat/completions"


async def count_tokens(renderer: Any, path: str, body: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Tokens of each prompt; None for what vLLM will refuse. Template and tokenizer run in the renderer's own threads."""
    try:
        if path == CHAT:
            request = await asyncio.to_thread(_chat_request, body)
            rendered = await renderer.render_chat(request, skip_mm_cache=True)
            # Anything but a pair is the error that the client is going to read.
            inputs = rendered[1] if isinstance(rendered, tuple) else None
        else:
            request = await asyncio.to_thread(_completion_request, body)
            rendered = await renderer.render_completion(request, skip_mm_cache=True)
            inputs = rendered if isinstance(rendered, list) else None
        return None if inputs is None else tuple(len(prompt["prompt_token_ids"]) for prompt in inputs)
    except Exception as error:
        log.debug("vLLM makes no prompts of a request to %s: %s", path, error)
        return None


def _chat_request(body: Mapping[str, Any]) -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    # vLLM parses tool calls in place, and the body is still to be sent.
    return ChatCompletionRequest.model_validate(json.loads(json.dumps(body)))


def _completion_request(body: Mapping[str, Any]) -> Any:
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest

    return CompletionRequest.model_validate(dict(body))

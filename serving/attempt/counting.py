"""How long the prompts of a request are, in tokens: counted by the engine where that matters, estimated where it does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final

from serving.engine.door import EngineDoor
from serving.protocol.request import Call
from serving.protocol.rewrite import permitted

log = logging.getLogger(__name__)

BYTES_PER_TOKEN: Final = 3
"""What the estimate goes by: rather more tokens than there are. A Chinese character is three bytes of UTF-8."""
MESSAGE_TOKENS: Final = 8
"""What a chat template puts around each message or tool, by the estimate."""


async def prompt_tokens(door: EngineDoor, call: Call, timeout_s: float) -> tuple[int, ...]:
    """Tokens of each prompt, as the engine's own chat template and tokenizer make them, off the event loop.

    Prompts that are token ids need no counting. An estimate where the engine cannot tell, or not within `timeout_s`: what it
    cannot render it refuses afterwards.
    """
    if (given := given_tokens(call)) is not None:
        return given
    counted: tuple[int, ...] | None = None
    try:
        async with asyncio.timeout(timeout_s):
            counted = await door.count_tokens(call.path, permitted(call.body))
    except TimeoutError:
        log.warning("prompts could not be counted within %g s; their length is estimated", timeout_s)
    if counted is None:
        counted = await asyncio.to_thread(estimated_tokens, call)
    return counted


def estimated_tokens(call: Call) -> tuple[int, ...]:
    """A cheap guess from the bytes of everything that becomes prompt: messages, tools and what they hold."""
    if call.operation.prompts is not None:
        return tuple(len(p) if isinstance(p, list) else _tokens(p) for p in call.operation.prompts(call.body))
    parts = [call.body.get(name) for name in call.operation.parts]
    pieces = sum(len(part) for part in parts if isinstance(part, list))
    return (sum(map(_tokens, parts)) + MESSAGE_TOKENS * pieces,)


def given_tokens(call: Call) -> tuple[int, ...] | None:
    """The lengths of prompts that are token ids, all of them; None otherwise."""
    prompts = call.operation.prompts(call.body) if call.operation.prompts is not None else ()
    if not prompts or not all(isinstance(p, list) and (not p or isinstance(p[0], int)) for p in prompts):
        return None
    return tuple(map(len, prompts))


def _tokens(value: Any) -> int:
    size = sum(len(text) if text.isascii() else len(text.encode("utf-8", "replace")) for text in _texts(value))
    return size // BYTES_PER_TOKEN + 1


def _texts(value: Any) -> Iterator[str]:
    """All text in a JSON value, names included."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as pairs:
                waiting.extend(pairs)
                waiting.extend(pairs.values())
            case list() as items:
                waiting.extend(items)

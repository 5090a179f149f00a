"""The operations that reach the engine: for each, how to read what was asked, and how the reply is worded. A table of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from serving.protocol.dialects import CHOICES, MESSAGES, RESPONSES, Dialect

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """One way to ask for generation. `name` is the GenAI operation name.

    `texts` are the user's own words, for routing; `parts` are the fields that become prompt; `prompts`, where one request may
    have several, has a value for each.
    `bounds` are the fields that bound an answer's length, the strongest first; the last is the one the gateway sets;
    `default_tokens` is the bound of a client that does not mention one, None: the model's length.
    `chunked_usage` tells whether a stream has to be asked for its usage, `several` whether `n` is heard.
    `stateless` names fields that would keep something for later requests, with what may stand in them; they are sent as
    `fixed` has them, whatever the client said.
    """

    path: str
    name: str
    dialect: Dialect
    texts: Callable[[Body], Iterator[str]]
    parts: tuple[str, ...]
    bounds: tuple[str, ...]
    prompts: Callable[[Body], list[Any]] | None = None
    default_tokens: int | None = None
    chunked_usage: bool = False
    several: bool = False
    stateless: Mapping[str, str] | None = None
    fixed: Mapping[str, Any] | None = None


def prompts_of(body: Body) -> list[Any]:
    """The prompts of a completion request: strings, or lists of token ids, or what vLLM's validation will refuse."""
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        return [prompt] if prompt and isinstance(prompt[0], int) else prompt
    return [prompt]


def _completion_texts(body: Body) -> Iterator[str]:
    return (prompt for prompt in prompts_of(body) if isinstance(prompt, str))


def _user_texts(items: Any) -> Iterator[str]:
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("role") == "user":
            content = item.get("content")
            if isinstance(content, str):
                yield content
            for part in content if isinstance(content, list) else ():
                if isinstance(part, dict) and isinstance(part.get("text"), str):
                    yield part["text"]


def _message_texts(body: Body) -> Iterator[str]:
    return _user_texts(body.get("messages"))


def _input_texts(body: Body) -> Iterator[str]:
    given = body.get("input")
    return iter((given,)) if isinstance(given, str) else _user_texts(given)


_NOT_KEPT: Final = "Responses are not kept here, so that no tenant can reach another's: "

OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.path: operation
    for operation in (
        Operation(
            "/v1/chat/completions",
            "chat",
            CHOICES,
            _message_texts,
            parts=("messages", "tools", "functions", "documents"),
            bounds=("max_completion_tokens", "max_tokens"),
            chunked_usage=True,
            several=True,
        ),
        Operation(
            "/v1/completions",
            "text_completion",
            CHOICES,
            _completion_texts,
            parts=("prompt",),
            bounds=("max_tokens",),
            prompts=prompts_of,
            # OpenAI's default.
            default_tokens=16,
            chunked_usage=True,
            several=True,
        ),
        Operation(
            "/v1/responses",
            "chat",
            RESPONSES,
            _input_texts,
            parts=("input", "instructions", "tools", "previous_input_messages"),
            bounds=("max_output_tokens",),
            stateless={
                "store": _NOT_KEPT + "send `store: false` or leave it out.",
                "background": _NOT_KEPT + "ask without `background`, or stream.",
                "previous_response_id": _NOT_KEPT + "send the whole conversation as `input`.",
                "conversation": _NOT_KEPT + "send the whole conversation as `input`.",
            },
            fixed={"store": False, "background": False},
        ),
        Operation(
            "/v1/messages",
            "chat",
            MESSAGES,
            _message_texts,
            parts=("system", "messages", "tools"),
            bounds=("max_tokens",),
        ),
    )
}
"""By path. Nothing else makes the engine work."""

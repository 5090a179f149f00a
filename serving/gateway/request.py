"""What a client sent, read once: the JSON body and the few facts that routing and admission need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from serving.gateway.dialects import CHOICES, Dialect
from serving.gateway.errors import bad_body
from serving.gateway.json_body import TooIntricate, decode

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
OPERATIONS: Final[Mapping[str, str]] = {CHAT: "chat", COMPLETIONS: "text_completion"}
"""The routes that reach the engine, and their GenAI operation names. Nothing else of vLLM's is reachable."""

COMPLETION_DEFAULT_TOKENS: Final = 16
"""OpenAI's default of `max_tokens` for completions that do not mention it; chat may go on to the model's length."""
TRUE_WORDS: Final = frozenset({"true", "t", "yes", "y", "on", "1"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request for generation. `body` is the client's own JSON object; `model` None when it names none.

    `text` is all text of the user's. `output_tokens` is the client's own bound on each answer, None when it set none;
    `choices` answers are wanted to each of `prompts` prompts.
    """

    path: str
    body: Mapping[str, Any]
    model: str | None
    text: str
    output_tokens: int | None
    choices: int
    prompts: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    user: str | None

    @property
    def output_field(self) -> str:
        """The field by which the client bounds, or could bound, the length of an answer."""
        return "max_completion_tokens" if self.body.get("max_completion_tokens") is not None else "max_tokens"

    @property
    def dialect(self) -> Dialect:
        """How the engine words its reply."""
        return CHOICES

    @property
    def operation(self) -> str:
        """The GenAI operation name."""
        return OPERATIONS[self.path]


def read_call(path: str, raw: bytes) -> Call:
    """Read a request body. Raises Refusal (400) on what is not JSON or what the gateway must understand but cannot.

    Everything else is left to vLLM's own validation.
    """
    try:
        body: Any = decode(raw)
    except TooIntricate:
        raise bad_body("The request body has too many lists, objects and names.") from None
    except (ValueError, RecursionError) as error:
        raise bad_body("The request body is not valid JSON.") from error
    if not isinstance(body, dict):
        raise bad_body("The request body must be a JSON object.")
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise bad_body("`model` must be a string.", "model")
    if _truth(body.get("use_beam_search")):
        raise bad_body("`use_beam_search` is not supported.", "use_beam_search")
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    texts = tuple(_user_texts(path, body))
    default = COMPLETION_DEFAULT_TOKENS if path == COMPLETIONS and "max_tokens" not in body else None
    limits = (body.get("max_completion_tokens") if path == CHAT else None, body.get("max_tokens"), default)
    return Call(
        path=path,
        body=body,
        model=model,
        text="\n".join(texts),
        output_tokens=next((n for n in map(_count, limits) if n is not None), None),
        choices=max(1, _count(body.get("n")) or 1, _count(body.get("best_of")) or 1),
        prompts=max(1, len(prompts_of(body))) if path == COMPLETIONS else 1,
        stream=_truth(body.get("stream")),
        include_usage=_truth(options.get("include_usage")),
        continuous_usage=_truth(options.get("include_usage")) and _truth(options.get("continuous_usage_stats")),
        user=body["user"] if isinstance(body.get("user"), str) else None,
    )


def _truth(value: Any) -> bool:
    """What vLLM's lax parsing takes for true."""
    return value.lower() in TRUE_WORDS if isinstance(value, str) else bool(value == 1)


def _count(value: Any) -> int | None:
    """A count as vLLM's lax parsing reads it; None for what is no count (its validation says so)."""
    try:
        return max(0, int(value)) if value is not None else None
    except (TypeError, ValueError, OverflowError):
        return None


def _content(message: Any) -> Iterator[str]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def prompts_of(body: Mapping[str, Any]) -> list[Any]:
    """The prompts of a completion request: strings, or lists of token ids, or what vLLM's validation will refuse."""
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        return [prompt] if prompt and isinstance(prompt[0], int) else prompt
    return [prompt]


def _user_texts(path: str, body: Mapping[str, Any]) -> Iterator[str]:
    if path == COMPLETIONS:
        yield from (p for p in prompts_of(body) if isinstance(p, str))
        return
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user":
            yield from _content(message)

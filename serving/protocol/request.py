"""What a client sent, read once: the JSON body and the few facts that routing and admission need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from serving.protocol.errors import bad_body
from serving.protocol.fields import check_fields, read_object
from serving.protocol.operations import OPERATIONS, Operation

TRUE_WORDS: Final = frozenset({"true", "t", "yes", "y", "on", "1"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request for generation. `body` is the client's own JSON object; `model` None when it names none.

    `text` is all text of the user's. `output_tokens` is the client's own bound on each answer, None when it set none;
    `choices` answers are wanted to each of `prompts` prompts.
    """

    operation: Operation
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
    def path(self) -> str:
        """Where it was sent, and is sent on to."""
        return self.operation.path

    @property
    def output_field(self) -> str:
        """The field by which the client bounds, or could bound, the length of an answer."""
        bounds = self.operation.bounds
        return next((name for name in bounds if self.body.get(name) is not None), bounds[-1])


def read_call(path: str, raw: bytes) -> Call:
    """Read a request body. Raises Refusal (400) on what is not JSON or what the gateway must understand but cannot.

    Everything else is left to vLLM's own validation.
    """
    operation = OPERATIONS[path]
    body = read_object(raw)
    check_fields(body)
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise bad_body("`model` must be a string.", "model")
    if _truth(body.get("use_beam_search")):
        raise bad_body("`use_beam_search` is not supported.", "use_beam_search")
    for name, why in (operation.stateless or {}).items():
        if body.get(name) not in (None, False):
            raise bad_body(f"`{name}` is not supported. {why}", name)
    options = body.get("stream_options") or {}
    include = operation.chunked_usage and _truth(options.get("include_usage"))
    limits = [body.get(name) for name in operation.bounds]
    if operation.bounds[-1] not in body:
        limits.append(operation.default_tokens)
    asked = [body.get("n"), body.get("best_of")] if operation.several else []
    return Call(
        operation=operation,
        body=body,
        model=model,
        text="\n".join(operation.texts(body)),
        output_tokens=next((n for n in map(_count, limits) if n is not None), None),
        choices=max(1, *(_count(number) or 1 for number in asked)) if asked else 1,
        prompts=max(1, len(operation.prompts(body))) if operation.prompts is not None else 1,
        stream=_truth(body.get("stream")),
        include_usage=include,
        continuous_usage=include and _truth(options.get("continuous_usage_stats")),
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

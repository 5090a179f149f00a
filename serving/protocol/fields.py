"""What a request body may hold before anybody reads it further: JSON that every part behind the gateway can take.

vLLM checks the sense of its fields; it breaks on some that no type of it foresaw. Those are refused here, by name. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from catalog.patterns import Matcher
from serving.protocol.errors import Refusal, bad_body
from serving.protocol.json_body import LARGE, TooIntricate, decode

MAX_DEPTH: Final = 64
"""Levels of nesting; a schema or a tool call of real life has a dozen."""
INT64: Final = 1 << 63
INT32: Final = (1 << 31) - 1
COUNTS: Final = (
    "n",
    "best_of",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tool_calls",
    "min_tokens",
    "top_k",
    "top_logprobs",
    "prompt_logprobs",
    "truncate_prompt_tokens",
    "thinking_token_budget",
)
"""Fields that hold a whole number which the engine keeps in 32 bits."""
REALS: Final = (
    "temperature",
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "length_penalty",
)
"""Fields that hold a number which the engine keeps in 32 bits of floating point."""
MAX_REAL: Final = 1e6
OBJECTS: Final = (
    "structured_outputs",
    "stream_options",
    "logit_bias",
    "response_format",
    "chat_template_kwargs",
    "text",
)
"""Fields that hold an object."""
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
_LONG_NUMBER: Final = Matcher("[0-9]{19}")
_LONGEST: Final = 40


def read_object(raw: bytes) -> dict[str, Any]:
    """A request body. Raises Refusal (400) that names what is wrong and where."""
    try:
        body = decode(raw)
    except TooIntricate:
        raise bad_body("The request body has too many values, lists, objects and names.") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise _not_json(raw) from None
    if not isinstance(body, dict):
        raise bad_body("The request body must be a JSON object.")
    if _LONG_NUMBER.found_in(raw) or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        _check_values(body)
    return body


def _not_json(raw: bytes) -> Refusal:
    """Why it is none; half a character pair and numbers without bounds are JSON to some, so they are named."""
    try:
        if len(raw) <= LARGE and isinstance(body := json.loads(raw.decode(), parse_int=_whole), dict):
            _check_values(body)
    except Refusal as refusal:
        return refusal
    except RecursionError:
        return _too_deep()
    except ValueError:
        pass
    return bad_body("The request body is not valid JSON.")


def check_fields(body: Mapping[str, Any], reals: tuple[str, ...] = REALS) -> None:
    """Refuse (400) values in known fields that the engine has no room for. What is merely senseless is left to vLLM."""
    for name in COUNTS:
        _check_number(body, name, INT32, whole=True)
    for name in reals:
        _check_number(body, name, MAX_REAL, whole=False)
    _check_number(body, "seed", INT64 - 1, whole=True)
    for name in OBJECTS:
        if body.get(name) is not None and not isinstance(body[name], dict):
            raise bad_body(f"`{name}` must be an object.", name)


def _check_number(body: Mapping[str, Any], name: str, limit: float, whole: bool) -> None:
    value = body.get(name)
    if value is None:
        return
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_body(f"`{name}` must be a number.", name)
    if whole and isinstance(value, float) and not value.is_integer():
        raise bad_body(f"`{name}` must be a whole number.", name)
    if not -limit <= value <= limit:
        raise bad_body(f"`{name}` is out of range.", name)


def _parsed(text: str) -> float | None:
    """A number in quotes, as vLLM's lax parsing takes it."""
    try:
        return float(text[:_LONGEST])
    except ValueError:
        return None


def _check_values(body: dict[str, Any]) -> None:
    """Refuse half of a character pair, a number beyond 64 bits and deep nesting, wherever they are."""
    waiting: list[tuple[str, Any, int]] = [(name, value, 1) for name, value in body.items()]
    for name in body:
        _check_scalar(name, name)
    while waiting:
        field, value, depth = waiting.pop()
        if not isinstance(value, dict | list):
            _check_scalar(field, value)
            continue
        if depth >= MAX_DEPTH:
            raise _too_deep(field)
        waiting += ((field, inner, depth + 1) for inner in _inner(value))


def _inner(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif value and all(type(item) is int for item in value):
        # Prompts of a million token ids: the two outermost say it for all.
        yield from (min(value), max(value))
    else:
        yield from value


def _check_scalar(field: str, value: Any) -> None:
    field = _HALF_PAIR.sub("?", field)
    if isinstance(value, str):
        if not _is_text(value):
            raise bad_body(f"`{field}` holds half of a UTF-16 surrogate pair, which is no text.", field)
    elif isinstance(value, int | float) and not (math.isfinite(value) and _fits(value)):
        raise bad_body(f"`{field}` holds a number that is out of range.", field)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fits(value: float) -> bool:
    """Whether a whole number has room in 64 bits, with or without a sign."""
    return not isinstance(value, int) or -INT64 <= value < 2 * INT64


def _whole(digits: str) -> int | float:
    """A whole number; one that nobody could use is not worth its conversion."""
    return int(digits) if len(digits) <= _LONGEST else math.inf


def _too_deep(field: str | None = None) -> Refusal:
    where = f"`{field}`" if field else "The request body"
    return bad_body(f"{where} is nested too deeply: at most {MAX_DEPTH} levels.", field)

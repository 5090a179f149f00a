"""Refusals: every way in which the gateway itself answers a request, with what the client reads and the ledger books.

Refusal                 an OpenAI-style error reply, a status of the usage record and an error type
ClientGone              nobody is there to answer
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from telemetry.usage import ErrorType, Status


class ClientGone(Exception):
    """The client hung up; the attempt ends as `client_abort`."""


@dataclass(eq=False)
class Refusal(Exception):
    """The request ends here: `http_status` and `body()` for the client, `status` and `error_type` for the usage record.

    A connection whose request was not read to its end `closes`; `named` are headers of this one refusal.
    """

    http_status: int
    code: str
    message: str
    param: str | None = None
    status: Status = Status.BAD_REQUEST
    error_type: ErrorType | None = None
    retry_after_s: int | None = None
    closes: bool = False
    named: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        """The reply's JSON, in OpenAI's form."""
        return error_body(self.http_status, self.code, self.message, self.param)

    def headers(self) -> Mapping[str, str]:
        """Headers beyond the content type."""
        wait = {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}
        return {**wait, **({"connection": "close"} if self.closes else {}), **self.named}


def error_body(http_status: int, code: str, message: str, param: str | None = None) -> bytes:
    """OpenAI's error object."""
    kind = "invalid_request_error" if http_status < 500 else "server_error"
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


_rejected: Final = partial(Refusal, status=Status.REJECTED, error_type=ErrorType.REJECTED)
_failed: Final = partial(Refusal, status=Status.SERVER_ERROR, error_type=ErrorType.ENGINE_ERROR)


def unauthenticated() -> Refusal:
    """No key, or a key nobody has."""
    text = "Incorrect API key provided. Send it as `Authorization: Bearer KEY`."
    return _rejected(401, "invalid_api_key", text, closes=True)


def too_many_unauthenticated(retry_after_s: int) -> Refusal:
    """Too many attempts without a good key from one address."""
    text = f"Too many requests without a correct API key from this address. Retry in {retry_after_s} s."
    return _rejected(429, "too_many_invalid_keys", text, retry_after_s=retry_after_s, closes=True)


def too_large(limit: int) -> Refusal:
    """The body is longer than the gateway reads."""
    text = f"The request body is larger than {limit} bytes."
    return Refusal(413, "request_too_large", text, closes=True)


def too_slow() -> Refusal:
    """The body did not arrive in time."""
    text = "The request body did not arrive in time."
    return Refusal(408, "request_timeout", text, closes=True)


def bad_body(fact: str, param: str | None = None) -> Refusal:
    """The body is not a request."""
    return Refusal(400, "invalid_body", fact, param)


def refused_by_engine(http_status: int, fact: str, param: str | None) -> Refusal:
    """vLLM did not take the request, and said why: before a reply began, or inside one."""
    text = fact or "The engine refused the request."
    return Refusal(http_status, "invalid_request", text, param)


def unreadable() -> Refusal:
    """vLLM's front end broke on the body, before anything of it entered the engine."""
    text = "The engine could not read this request. Check the types and values of its fields."
    return Refusal(400, "invalid_request", text)


def not_found(why: str | None = None) -> Refusal:
    """No route leads there, or none for whoever asks."""
    return Refusal(404, "not_found", f"There is nothing here: {why}." if why else "There is nothing here.")


def wrong_method(allowed: Iterable[str]) -> Refusal:
    """There is something, for other methods."""
    methods = ", ".join(allowed)
    return Refusal(405, "method_not_allowed", f"Use {methods}.", named={"allow": methods})


def unknown_model(model: str | None) -> Refusal:
    """The tenant has no such model. The words are the same whether another tenant has it or nobody."""
    what = f"The model `{model[:128]}` does not exist." if model else "No model serves this request."
    return Refusal(404, "model_not_found", what, "model", error_type=ErrorType.ROUTE_FAILED)


def over_quota(reason: str, fact: str, retry_after_s: int) -> Refusal:
    """A quota of the tenant is used up for now."""
    text = f"Quota {reason} reached: {fact}. Retry in {retry_after_s} s."
    return _rejected(429, reason, text, retry_after_s=retry_after_s)


def too_many_choices(asked: int, prompts: int, cap: int, param: str) -> Refusal:
    """One request asks for more answers than the tenant may have at once."""
    what = f"{prompts} prompts with {asked // prompts} answers each" if prompts > 1 else f"{asked} answers"
    text = f"`{param}` is too large: this request asks for {what}, and one request may have {cap} (`max_choices`)."
    return Refusal(400, "too_many_choices", text, param)


def beyond_model(tokens: int, limit: int) -> Refusal:
    """A prompt of token ids alone is longer than the engine's longest sequence."""
    text = f"`prompt` has {tokens} tokens, and this model takes at most {limit} for prompt and answer together."
    return Refusal(400, "context_length_exceeded", text, "prompt")


def never_fits(reason: str, fact: str, longest: int, param: str) -> Refusal:
    """A quota of the tenant is smaller than this one request. `longest` is the output with which it would fit, 0 for none."""
    remedy = f"lower `{param}` to at most {longest}" if longest else "shorten the prompt or ask for fewer answers"
    text = f"This request can never be served under quota {reason}: {fact}. Either {remedy}, or have the quota raised."
    return Refusal(400, "exceeds_quota", text, param if longest else None)


def load_failed(model: str, busy: bool) -> Refusal:
    """The adapter could not be made resident. What exactly failed is in the log, not in the reply: it names paths."""
    text = f"The model `{model}` could not be loaded"
    failed = partial(_failed, error_type=ErrorType.LOAD_FAILED)
    if busy:
        return failed(503, "model_busy", f"{text}: every place for an adapter is in use. Retry.", retry_after_s=1)
    return failed(503, "model_load_failed", f"{text}.")


def engine_failed(request_id: str) -> Refusal:
    """The engine broke under the request."""
    text = f"The engine could not complete the request. Name request {request_id} when you report it."
    return _failed(500, "engine_error", text)


def engine_down(retry_after_s: int) -> Refusal:
    """There is no engine now; another one is being started."""
    text = f"The engine is being started again. Retry in {retry_after_s} s."
    return _failed(503, "engine_restarting", text, retry_after_s=retry_after_s)


def timed_out(seconds: float) -> Refusal:
    """The engine did not finish within the gateway's limit."""
    text = f"The engine did not finish within {seconds:g} seconds."
    return _failed(504, "engine_timeout", text, status=Status.TIMEOUT)


def shutting_down() -> Refusal:
    """The gateway stops."""
    return _failed(503, "shutting_down", "The server is shutting down. Retry.", retry_after_s=1)

"""What the engine's reply means for the attempt: by everything that is known of it, not by its HTTP status alone. Pure."""

from __future__ import annotations

from typing import Final

from serving.attempt.answer import Answer
from serving.protocol import errors
from serving.protocol.errors import Refusal
from serving.wire.request_context import RequestContext
from telemetry.usage import ErrorType

OUT_OF_MEMORY: Final = "out of memory"
NOT_IMPLEMENTED: Final = 501
"""vLLM's word for what this model cannot do: the request was wrong to ask."""


def refusal_of(answer: Answer, context: RequestContext, request_id: str) -> Refusal | None:
    """What the client must read instead of the engine's reply, and the ledger books; None when the reply stands.

    A reply stands when it came to its end, and neither it nor the engine said anywhere that something went wrong; also when vLLM refuses the request by
    an HTTP status. Words about the client's own request are passed on, all others stay inside.
    """
    status, failure, refused = answer.status, answer.reply.failure, context.refused
    # A 404 would be about the adapter, which we made resident ourselves: not the client's fault.
    bad_status = status is None or status >= 500 or status == 404
    sound = failure is None and not context.unfinished
    if answer.complete and not bad_status and (status != 200 or sound):
        return None
    if refused is not None and refused.clients_fault:
        return errors.refused_by_engine(refused.http_status, answer.names.restored(refused.message), refused.param)
    if failure is not None and failure.clients_fault and status == 200:
        return errors.refused_by_engine(
            failure.http_status or 400, answer.names.restored(failure.message), failure.param
        )
    if status == NOT_IMPLEMENTED and failure is not None:
        return errors.refused_by_engine(400, answer.names.restored(failure.message), failure.param)
    failed = errors.engine_failed(request_id)
    if failure is not None and OUT_OF_MEMORY in failure.message.lower():
        failed.error_type = ErrorType.OOM
    return failed

"""What the engine did for an attempt, as the meter tells."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from serving.attempt.answer import Answer
from serving.attempt.attempt import Attempt
from serving.engine.door import EngineDoor
from serving.metering.accounting import Measured
from telemetry.usage import Status

log = logging.getLogger(__name__)

LATE_LOOK_S: Final = 0.05
LATE_LOOKS: Final = 10


async def engine_work(
    door: EngineDoor, attempt: Attempt, answer: Answer, timeout_s: float
) -> tuple[Measured | None, bool]:
    """The meter's figures, and whether the engine worked on the attempt at all."""
    if not attempt.facts.reached_engine:
        return None, False
    key = attempt.facts.attempt_key
    try:
        if not await _entered(door, attempt, answer):
            return None, False
        return await door.measured(key, timeout_s), True
    except Exception:
        log.exception("record %s: the meter could not be asked", key)
        return None, True


async def _entered(door: EngineDoor, attempt: Attempt, answer: Answer) -> bool:
    """Whether the engine's scheduler ever saw the attempt; what an engine broke on, or a client left, may never get there.

    Where nobody watches the engine's entry the meter's word may come a moment after the engine's, so it is given that moment.
    """
    key, context, reply = attempt.facts.attempt_key, attempt.context, answer.reply
    if context is not None and context.watched and not context.entered:
        return False
    worked = reply.delivered > 0 or (answer.complete and answer.status == 200 and reply.failure is None)
    if worked or door.knows(key):
        return True
    seen = context is not None and context.entered > 0
    if not seen and answer.complete and attempt.facts.status is Status.BAD_REQUEST:
        return False
    for _ in range(LATE_LOOKS):
        await asyncio.sleep(LATE_LOOK_S)
        if door.knows(key):
            return True
    return False

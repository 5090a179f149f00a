"""Attempts without a good key: limited by address, and booked in one record a minute, however many there are."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from starlette.types import Message, Scope

from catalog.durations import MINUTE_NS
from serving.attempt.answer import Answer
from serving.attempt.attempt import Attempt
from serving.attempt.client import Client
from serving.attempt.services import Services
from serving.attempt.telling import guarded
from serving.gateway.attempts import Attempts
from serving.gateway.clients import neighbourhood
from serving.policy.admission import Bucket
from serving.protocol import errors
from serving.protocol.errors import Refusal
from telemetry import names
from telemetry.usage import UNAUTHENTICATED, ErrorType, Status

MOST_ADDRESSES: Final = 4096
"""Addresses that are told apart; beyond, the one that came longest ago is forgotten."""
TOGETHER_S: Final = 60.0


class Unauthenticated:
    """Callers without a good key, and how often they come.

    The first is booked by itself, and those of the minute after it together, by one attempt that stands for them and is
    booked as rejected when the minute is over. So it goes on, a record a minute.
    """

    def __init__(self, services: Services, attempts: Attempts) -> None:
        self._per_minute, self._mono_ns = services.limits.unauthenticated_per_minute, services.clock.mono_ns
        self._metrics, self._attempts = services.metrics, attempts
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._attempt: Attempt | None = None
        self._booking: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._next_s = 0.0

    def refusal(self, scope: Scope) -> Refusal:
        """What the caller is told: 401, or 429 when its address did this too often."""
        address = neighbourhood((scope.get("client") or ("",))[0])
        now_ns = self._mono_ns()
        full = Bucket(self._per_minute * MINUTE_NS, now_ns)
        bucket = self._buckets.pop(address, full).refilled(self._per_minute, now_ns)
        wait_s = bucket.wait_s(1, self._per_minute)
        self._buckets[address] = bucket if wait_s else bucket.minus(1)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return errors.too_many_unauthenticated(wait_s) if wait_s else errors.unauthenticated()

    def count(self) -> str | None:
        """One more, whatever it is told; the id of the request that stands for it and all others of its minute.

        None: it is booked by itself, since no record was begun in the last minute.
        """
        who, rejected = UNAUTHENTICATED, ErrorType.REJECTED.value
        with guarded("a caller without a good key is not in the metrics"):
            self._metrics.add(names.REQUESTS, tenant=who, adapter=names.OTHER, status=Status.REJECTED.value)
            self._metrics.add(names.REQUEST_ERRORS, tenant=who, adapter=names.OTHER, error_type=rejected)
        now_s = asyncio.get_running_loop().time()
        if self._attempt is not None:
            self._attempt.facts.tries += 1
        elif now_s >= self._next_s:
            self._next_s = now_s + TOGETHER_S
            return None
        else:
            self._attempt = self._attempts.open("/v1/*", UNAUTHENTICATED, None)
            self._attempt.end(Status.REJECTED, ErrorType.REJECTED)
            self._booking = asyncio.create_task(self._book_later())
        return self._attempt.facts.request_id

    async def end(self) -> None:
        """Book what has been counted; its record is written on return."""
        self._over.set()
        if self._booking is not None:
            await self._booking

    async def _book_later(self) -> None:
        try:
            async with asyncio.timeout_at(self._next_s):
                await self._over.wait()
        except TimeoutError:
            pass
        finally:
            self._next_s = asyncio.get_running_loop().time() + TOGETHER_S
            attempt, self._attempt = self._attempt, None
            if attempt is not None:
                answer = Answer(Client(_silence, _nowhere), attempt.facts.request_id)
                answer.refuse(errors.unauthenticated())
                attempt.facts.finished_ns = attempt.now()
                await self._attempts.close(attempt, answer)


async def _silence() -> Message:
    """The receiving side of nobody."""
    return {"type": "http.disconnect"}


async def _nowhere(message: Message) -> None:
    """The sending side of nobody."""

"""Attempts without a good key: limited by address, and booked in one record a minute, however many there are."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Scope

from catalog.durations import MINUTE_NS
from serving.attempt.attempt import Attempt
from serving.attempt.telling import guarded
from serving.gateway.addresses import neighbourhood
from serving.policy.admission import Bucket
from serving.protocol import errors
from serving.protocol.errors import Refusal
from telemetry.metrics import Metrics
from telemetry.names import OTHER, REQUEST_ERRORS, REQUESTS
from telemetry.usage import UNAUTHENTICATED, ErrorType, Status

MOST_ADDRESSES: Final = 4096
"""Addresses that are told apart; beyond, the one that came longest ago is forgotten."""
TOGETHER_S: Final = 60.0


class Unauthenticated:
    """Callers without a good key, and how often they come.

    The first is booked by itself, and those of the minute after it together: `open_attempt` opens the attempt that stands
    for them, `close_attempt` books it as rejected when the minute is over. So it goes on, a record a minute.
    """

    def __init__(
        self,
        per_minute: int,
        mono_ns: Callable[[], int],
        metrics: Metrics,
        open_attempt: Callable[[], Attempt],
        close_attempt: Callable[[Attempt], Awaitable[None]],
    ) -> None:
        self._per_minute, self._mono_ns, self._metrics = per_minute, mono_ns, metrics
        self._open, self._close = open_attempt, close_attempt
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

    def count(self) -> None:
        """One more, whatever it is told."""
        who, rejected = UNAUTHENTICATED, ErrorType.REJECTED.value
        with guarded("a caller without a good key is not in the metrics"):
            self._metrics.add(REQUESTS, tenant=who, adapter=OTHER, status=Status.REJECTED.value)
            self._metrics.add(REQUEST_ERRORS, tenant=who, adapter=OTHER, error_type=rejected)

    def alone(self) -> bool:
        """Whether it is booked by itself: no record was begun in the last minute."""
        now_s = asyncio.get_running_loop().time()
        if self._attempt is not None or now_s < self._next_s:
            return False
        self._next_s = now_s + TOGETHER_S
        return True

    def join(self) -> str:
        """Count it in with the others of its minute; the id of the request that stands for all of them."""
        if self._attempt is not None:
            self._attempt.facts.tries += 1
        else:
            self._attempt = self._open()
            self._booking = asyncio.create_task(self._book_later())
        return self._attempt.facts.request_id

    async def end(self) -> None:
        """Book what has been counted; its record is written on return."""
        self._over.set()
        if self._booking is not None:
            await self._booking

    async def _book_later(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(self._next_s):
                await self._over.wait()
        except TimeoutError:
            pass
        finally:
            self._next_s = loop.time() + TOGETHER_S
            attempt, self._attempt = self._attempt, None
            if attempt is not None:
                await self._close(attempt)

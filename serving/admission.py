"""Whether a tenant may send one more request now: token buckets and KV blocks in flight, as values with time passed in.

Levels are kept in units of 1/60e9 of a request or token, so that a rate per minute refills exactly in whole nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from catalog.model import Quotas

MINUTE_NS: Final = 60_000_000_000
IN_FLIGHT_RETRY_S: Final = 1
"""Retry-After when only other requests' ends can make room; nobody knows when they end."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket holding at most one minute's worth. `level` may be negative after a settlement."""

    level: int
    at_ns: int

    def refilled(self, per_minute: int, now_ns: int) -> Bucket:
        """The bucket at `now_ns`; a clock that went back refills nothing."""
        elapsed = max(0, now_ns - self.at_ns)
        return Bucket(min(per_minute * MINUTE_NS, self.level + elapsed * per_minute), max(now_ns, self.at_ns))

    def minus(self, amount: int) -> Bucket:
        """The bucket after `amount` whole units left it."""
        return replace(self, level=self.level - amount * MINUTE_NS)

    def wait_s(self, amount: int, per_minute: int) -> int:
        """Seconds, rounded up, until `amount` units are there; 0 when they are."""
        missing = amount * MINUTE_NS - self.level
        return max(0, -(-missing // (per_minute * 1_000_000_000)))


@dataclass(frozen=True, slots=True)
class Load:
    """What a tenant uses right now. None: that quota has not been needed yet, so its bucket is full."""

    requests: Bucket | None = None
    tokens: Bucket | None = None
    kv_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """What one request is going to need: an estimate of its tokens, and the KV blocks that hold them.

    `prompt_tokens` are those of `tokens` that are prompt; the rest is output.
    """

    tokens: int
    kv_blocks: int
    prompt_tokens: int = 0

    @classmethod
    def estimate(
        cls, prompt_chars: int, prompt_tokens: int, output_tokens: int, choices: int, limit: int, block: int
    ) -> Ask:
        """Prompt characters at three to a token, tokens given as such, plus the asked output of each of `choices`.

        `limit` is the most tokens one sequence can have in the engine; `block` the tokens in one KV block.
        """
        prompt = prompt_chars // 3 + 1 + prompt_tokens
        each = min(prompt + output_tokens, limit)
        prompt = min(prompt, limit)
        tokens = prompt + choices * max(0, each - prompt)
        return cls(tokens=tokens, kv_blocks=-(-tokens // block), prompt_tokens=prompt)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer is 429: `reason` names the quota, `retry_after_s` is at least 1."""

    reason: str
    retry_after_s: int
    fact: str


def admit(quotas: Quotas, load: Load, ask: Ask, now_ns: int) -> Load | Refusal:
    """Take what `ask` needs from the quotas, all or nothing.

    A request larger than a whole minute's tokens needs a full bucket, no more: it would never be admitted otherwise.
    """
    requests, tokens = load.requests, load.tokens
    if quotas.kv_blocks_in_flight is not None and load.kv_blocks + ask.kv_blocks > quotas.kv_blocks_in_flight:
        fact = (
            f"{load.kv_blocks} KV blocks in flight and {ask.kv_blocks} more asked for, of {quotas.kv_blocks_in_flight}"
        )
        return Refusal("kv_blocks_in_flight", IN_FLIGHT_RETRY_S, fact)
    if (rate := quotas.requests_per_minute) is not None:
        requests = (requests or Bucket(rate * MINUTE_NS, now_ns)).refilled(rate, now_ns)
        if wait := requests.wait_s(1, rate):
            return Refusal("requests_per_minute", wait, f"more than {rate} requests in a minute")
        requests = requests.minus(1)
    if (rate := quotas.tokens_per_minute) is not None:
        tokens = (tokens or Bucket(rate * MINUTE_NS, now_ns)).refilled(rate, now_ns)
        if wait := tokens.wait_s(min(ask.tokens, rate), rate):
            return Refusal("tokens_per_minute", wait, f"more than {rate} tokens in a minute")
        tokens = tokens.minus(ask.tokens)
    return Load(requests, tokens, load.kv_blocks + ask.kv_blocks)


def settle(quotas: Quotas, load: Load, ask: Ask, used_tokens: int | None, now_ns: int) -> Load:
    """Give back what an admitted request held; `used_tokens` replaces the estimate (None: not known, the estimate stays)."""
    tokens = load.tokens
    if (rate := quotas.tokens_per_minute) is not None and tokens is not None and used_tokens is not None:
        tokens = tokens.refilled(rate, now_ns).minus(used_tokens - ask.tokens)
        tokens = replace(tokens, level=min(tokens.level, rate * MINUTE_NS))
    return Load(load.requests, tokens, max(0, load.kv_blocks - ask.kv_blocks))

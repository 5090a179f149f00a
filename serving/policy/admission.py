"""Whether a tenant may send one more request now: token buckets, seats and KV blocks in flight, as values with time passed in.

Levels are kept in units of 1/60e9 of a request or token, so that a rate per minute refills exactly in whole nanoseconds.
Every sequence counts: a request for eight answers is eight requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from catalog.durations import MINUTE_NS, SECOND_NS
from catalog.model import Quotas

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
        return max(0, -(-missing // (per_minute * SECOND_NS)))


@dataclass(frozen=True, slots=True)
class Load:
    """What a tenant uses right now. None: that quota has not been needed yet, so its bucket is full."""

    requests: Bucket | None = None
    tokens: Bucket | None = None
    kv_blocks: int = 0
    seats: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """The most that one request is going to take of the engine: tokens, the KV blocks that hold them, `seats` sequences.

    `prompt_tokens` are those of `tokens` that are prompt; the rest is output.
    """

    tokens: int
    kv_blocks: int
    prompt_tokens: int = 0
    seats: int = 1


@dataclass(frozen=True, slots=True)
class Demand:
    """What one request wants: `prompts` in tokens, each answered by `choices` sequences of at most `output` tokens (None: no bound).

    `limit` is the most tokens that one sequence can have in the engine, `block` the tokens in one KV block.
    """

    prompts: tuple[int, ...]
    choices: int
    limit: int
    block: int
    output: int | None = None

    @property
    def most_output(self) -> int:
        """The longest output that the engine has room for, by its longest prompt; at least 1, which the engine will refuse."""
        return max(1, self.limit - max(self.prompts, default=0))

    def ask(self, output: int) -> Ask:
        """What it takes when each sequence may have `output` tokens.

        A prompt counts once, however many choices answer it. Each of them holds blocks of its own but for whole ones of the
        prompt, which they share; the block of the prompt's last token is never shared.
        """
        tokens = blocks = prompt_tokens = 0
        for given in self.prompts:
            prompt = min(given, self.limit)
            length = min(prompt + output, self.limit)
            shared = max(0, prompt - 1) // self.block
            tokens += prompt + self.choices * (length - prompt)
            prompt_tokens += prompt
            blocks += shared + self.choices * -(-(length - shared * self.block) // self.block)
        return Ask(tokens, blocks, prompt_tokens, max(1, self.choices * len(self.prompts)))


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """The answer is 429: `reason` names the quota, `retry_after_s` is at least 1."""

    reason: str
    retry_after_s: int
    fact: str


@dataclass(frozen=True, slots=True)
class Misfit:
    """The answer is 400: whatever ends or refills, the quota `reason` is smaller than this one request."""

    reason: str
    fact: str


def misfit(quotas: Quotas, ask: Ask) -> Misfit | None:
    """Why the request can never be admitted, even with nothing else in flight and full buckets; None when it can."""
    needs = (
        ("requests_per_minute", quotas.requests_per_minute, ask.seats, "sequences"),
        ("seats_in_flight", quotas.seats_in_flight, ask.seats, "sequences"),
        ("kv_blocks_in_flight", quotas.kv_blocks_in_flight, ask.kv_blocks, "KV blocks"),
        ("tokens_per_minute", quotas.tokens_per_minute, ask.tokens, "tokens"),
    )
    for reason, quota, needed, unit in needs:
        if quota is not None and needed > quota:
            return Misfit(reason, f"it needs up to {needed} {unit}, of {quota}")
    return None


def longest_output(demand: Demand, fits: Callable[[Ask], bool]) -> int:
    """The most output tokens of each sequence with which the request fits; 0 when it does not even with one."""
    low, high = 0, demand.most_output
    while low < high:
        middle = (low + high + 1) // 2
        if fits(demand.ask(middle)):
            low = middle
        else:
            high = middle - 1
    return low


def admit(quotas: Quotas, load: Load, ask: Ask, now_ns: int) -> Load | QuotaRefusal:
    """Take what `ask` needs from the quotas, all or nothing; for a request that is no `misfit`."""
    requests, tokens = load.requests, load.tokens
    held = (
        ("kv_blocks_in_flight", quotas.kv_blocks_in_flight, load.kv_blocks, ask.kv_blocks, "KV blocks"),
        ("seats_in_flight", quotas.seats_in_flight, load.seats, ask.seats, "sequences"),
    )
    for reason, quota, taken, more, unit in held:
        if quota is not None and taken + more > quota:
            fact = f"{taken} {unit} in flight and {more} more asked for, of {quota}"
            return QuotaRefusal(reason, IN_FLIGHT_RETRY_S, fact)
    if (rate := quotas.requests_per_minute) is not None:
        requests = (requests or Bucket(rate * MINUTE_NS, now_ns)).refilled(rate, now_ns)
        if wait := requests.wait_s(ask.seats, rate):
            return QuotaRefusal("requests_per_minute", wait, f"more than {rate} requests in a minute")
        requests = requests.minus(ask.seats)
    if (rate := quotas.tokens_per_minute) is not None:
        tokens = (tokens or Bucket(rate * MINUTE_NS, now_ns)).refilled(rate, now_ns)
        if wait := tokens.wait_s(ask.tokens, rate):
            return QuotaRefusal("tokens_per_minute", wait, f"more than {rate} tokens in a minute")
        tokens = tokens.minus(ask.tokens)
    return Load(requests, tokens, load.kv_blocks + ask.kv_blocks, load.seats + ask.seats)


def settle(quotas: Quotas, load: Load, ask: Ask, used_tokens: int | None, now_ns: int) -> Load:
    """Give back what an admitted request held; `used_tokens` replaces the estimate (None: not known, the estimate stays)."""
    tokens = load.tokens
    if (rate := quotas.tokens_per_minute) is not None and tokens is not None and used_tokens is not None:
        # What comes back may be more than a bucket holds.
        tokens = tokens.refilled(rate, now_ns).minus(used_tokens - ask.tokens).refilled(rate, now_ns)
    return Load(load.requests, tokens, max(0, load.kv_blocks - ask.kv_blocks), max(0, load.seats - ask.seats))

"""Who carries a shared prefix, in a view by request: a zero-sum line beside the measured shares.

A prefix is computed by the first request that needs it; those that hit the stored copy later (or in the same step) pay nothing for
it. The tenant's bill is right as it is, since prefixes are shared inside a tenant only. By request, the first one carries the cost
of all. This line deals what the payer's share holds for the prefix tokens equally to the payer and those that used them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from serving.metering.profile import Profile, RowWork
from serving.metering.split import deal, split_step


class Hit(NamedTuple):
    """A request found its first `tokens` tokens already computed by request `payer`."""

    payer: str
    tokens: int


def reshare(
    steps: Iterable[tuple[int, Sequence[RowWork]]], hits: Mapping[str, Hit], profile: Profile
) -> dict[str, int]:
    """Nanoseconds by request (`RowWork.key`) to be added to its share; they add up to 0.

    `steps` are (net time, rows) of the steps in which the payers ran, `hits` is by the request that hit. Users of different
    lengths of one prefix pay only for what they used. A payer that itself hit another's prefix pays on for what it computed.
    """
    lines: dict[str, int] = dict.fromkeys([*hits, *(hit.payer for hit in hits.values())], 0)
    ladders = {payer: _ladder(payer, hits) for payer in {hit.payer for hit in hits.values()}}
    for duration_ns, rows in steps:
        if not any(row.prefill and row.key in ladders for row in rows):
            continue
        for row, share in zip(rows, split_step(duration_ns, rows, profile), strict=True):
            if row.key in ladders and row.prefill:
                paid = share.base_ns + share.adapter_ns
                weight = _weight(row, rows, profile)
                for low, high, users in ladders[row.key]:
                    _move(row, low, high, users, paid, weight, profile, lines)
    return lines


def _ladder(payer: str, hits: Mapping[str, Hit]) -> list[tuple[int, int, tuple[str, ...]]]:
    """Token ranges [low, high) of the payer's prompt, each with those that used it; the payer stands first."""
    of = {user: hit.tokens for user, hit in hits.items() if hit.payer == payer and hit.tokens > 0}
    rungs = []
    low = 0
    for high in sorted(set(of.values())):
        rungs.append((low, high, (payer, *sorted(user for user, tokens in of.items() if tokens >= high))))
        low = high
    return rungs


def _move(
    row: RowWork,
    low: int,
    high: int,
    users: Sequence[str],
    paid_ns: int,
    weight: Fraction,
    profile: Profile,
    lines: dict[str, int],
) -> None:
    """What the row paid for its tokens in [low, high) goes to all users equally."""
    low, high = max(low, row.before), min(high, row.before + row.prefill)
    if low >= high or not weight:
        return
    own = profile.own(high - low, 0, low)
    if row.adapter is not None:
        own += 2 * profile.lora_token * (high - low)
    cost_ns = int(paid_ns * own / weight)
    for user, ns in zip(users, deal(cost_ns, [1] * len(users), users), strict=True):
        lines[user] += ns
    lines[row.key] -= cost_ns


def _weight(row: RowWork, rows: Sequence[RowWork], profile: Profile) -> Fraction:
    """The row's weight in the split of its step, in half picoseconds."""
    weight = profile.own(row.prefill, row.decode, row.before) + Fraction(2 * profile.a, len(rows))
    if row.adapter is not None:
        weight += 2 * profile.lora_token * (row.prefill + row.decode)
        weight += Fraction(2 * profile.any_lora, sum(other.adapter is not None for other in rows))
        weight += Fraction(2 * profile.per_adapter, sum(other.adapter == row.adapter for other in rows))
    return weight

"""The re-share line of a set of requests whose steps and hits are all known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from serving.metering.reshare import PrefixBook
from serving.step_model.profile import Profile, RowWork
from serving.step_model.split import own_curves, split_step


class Hit(NamedTuple):
    """A request found its first `tokens` tokens already computed by request `payer`."""

    payer: str
    tokens: int


def reshare(
    steps: Iterable[tuple[int, Sequence[RowWork]]], hits: Mapping[str, Hit], profile: Profile
) -> dict[str, int]:
    """What a `PrefixBook` moves for steps and hits that are all known: nanoseconds by request (`RowWork.key`), which add up to 0.

    `steps` are (net time, rows) of the steps in which the payers ran, `hits` is by the request that hit. Users of different
    lengths of one prefix pay only for what they used. A payer that itself hit another's prefix pays on for what it computed.
    """
    payers = {hit.payer for hit in hits.values()}
    book = PrefixBook(most_payers=len(payers), most_users=len(hits) + 1)
    for duration_ns, rows in steps:
        if any(row.prefill and row.key in payers for row in rows):
            shares = split_step(duration_ns, rows, profile)
            for row, share, curve in zip(rows, shares, own_curves(rows, profile), strict=True):
                if row.prefill and row.key in payers:
                    book.paid(row.key, "", row, curve, sum(share), 0)
    lines = dict.fromkeys([*hits, *(hit.payer for hit in hits.values())], 0)
    for user, hit in hits.items():
        for request, ns in book.used(user, "", hit.payer, 0, hit.tokens, 0).items():
            lines[request] += ns
    return lines

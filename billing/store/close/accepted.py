"""Gaps that the provider took on, in the chain of documents: each once, with who, when and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from billing.close.acceptance import Acceptance, accept
from billing.close.blocks import Block, Kind
from billing.store.clickhouse import Ledger
from billing.store.errors import GapMissing
from billing.store.invoice.issuing import accepted_gaps, issue
from billing.store.invoice.settling import post


def accepted_tokens(accepted: Sequence[Acceptance]) -> dict[tuple[str, ...], int]:
    """How many tokens (or preemptions) of a counter were accepted so far, by what was compared in which process."""
    found: dict[tuple[str, ...], int] = {}
    for one in accepted:
        if one.kind is Kind.COUNTERS:
            found[one.key[:-1]] = int(one.key[-1])
    return found


def choose(blocks: Sequence[Block], wanted: Sequence[str], accepted: Sequence[Acceptance], month: str) -> list[Block]:
    """The open gaps of these ids, or of the only id that begins so; those that were accepted before are left out.

    GapMissing for none or several.
    """
    done = {one.gap for one in accepted}
    chosen = []
    for one in wanted:
        matching = [block for block in blocks if one and block.id.startswith(one)]
        if len(matching) == 1:
            chosen += matching
        elif matching or not any(one and gap.startswith(one) for gap in done):
            raise GapMissing(one, len(matching), month)
    return list(dict.fromkeys(chosen))


def accept_gaps(
    ledger: Ledger, blocks: Sequence[Block], month: str, currency: str, reason: str, by: str, now: datetime
) -> list[Acceptance]:
    """Book gaps to the provider, into the chain and the postings; those that were not yet. Again, nothing happens.

    AcceptanceInvalid without a reason or for what nobody can take on, and then none is accepted.
    """
    wanted = [accept(block, month, currency, reason, by, now) for block in blocks]

    def make() -> list[Acceptance]:
        done = {one.number for one in accepted_gaps(ledger)}
        return [one for one in wanted if one.number not in done]

    accepted = issue(ledger, make, now)
    post(ledger)
    return accepted

"""Who computed a stored prefix: the engine's side of the line that re-shares it. Work only for requests that are new.

A block is known by its hash, which vLLM makes of everything up to it: tokens, adapter and cache salt. So a block that was given
away and computed again has its newest owner, whatever its number, and no other tenant's request can have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from serving.wire.events import PrefixHit

MOST_BLOCKS: Final = 1 << 17
"""Blocks whose owner is remembered, about; those that were neither computed nor used for longest are forgotten first."""


class BlockOwner(NamedTuple):
    """The attempt that computed a block, and its cache salt."""

    attempt: str
    salt: str | None


class PrefixOwners:
    """Remembers the newest owner of every block of a prompt. `cross_salt` is told (owner, user) of a hit across cache salts."""

    def __init__(
        self, block_tokens: int, cross_salt: Callable[[str, str], None], most_blocks: int = MOST_BLOCKS
    ) -> None:
        self._block_tokens = block_tokens
        self._cross_salt = cross_salt
        self._most_blocks = most_blocks
        # Two generations: what is computed or used is young, and when there is too much of it, it grows old and the old is forgotten.
        self._young: dict[Hashable, BlockOwner] = {}
        self._old: dict[Hashable, BlockOwner] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def started(
        self, request: str, user: BlockOwner, blocks: Sequence[Hashable], cached_tokens: int
    ) -> list[PrefixHit]:
        """A request is in a step for the first time: who had computed its first `cached_tokens` tokens, in runs.

        `blocks` are the hashes of its prompt's full blocks; it owns those that it did not find. What it found of its own
        attempt, or of somebody who is not known any more, is in no run.
        """
        found = cached_tokens // self._block_tokens
        hits: list[PrefixHit] = []
        cross_salt_owners: dict[str, None] = {}
        for (owner, low), (_, high) in pairwise([*self._runs(islice(blocks, found)), (None, found)]):
            if owner is None or owner.attempt == user.attempt:
                continue
            if owner.salt != user.salt:
                cross_salt_owners.setdefault(owner.attempt)
            else:
                hits.append(PrefixHit(request, owner.attempt, low * self._block_tokens, high * self._block_tokens))
        for owner_attempt in cross_salt_owners:
            self._cross_salt(owner_attempt, user.attempt)
        self._young.update(dict.fromkeys(islice(blocks, found, None), user))
        if 2 * len(self._young) > self._most_blocks:
            self._young, self._old = {}, self._young
        return hits

    def _runs(self, blocks: Iterable[Hashable]) -> list[tuple[BlockOwner | None, int]]:
        """Blocks that follow each other with one owner: who it is, and the place of the first."""
        young, old = self._young, self._old
        runs: list[tuple[BlockOwner | None, int]] = []
        last: BlockOwner | object | None = runs
        for place, block in enumerate(blocks):
            owner = young.get(block)
            if owner is None:
                owner = old.get(block)
                if owner is not None:
                    young[block] = owner
            if owner is not last:
                runs.append((owner, place))
                last = owner
        return runs

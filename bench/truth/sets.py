"""The request sets of the truth bench: data in `sets.json`, written before anything was measured on them; its hash is in the result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from serving.calibration.phases import CalibrationCall, draw_tokens

FILE: Final = Path(__file__).with_name("sets.json")
MORE: Final = {7: 12, 8: 8}
"""Further runs of each subset of that size, the same in every set: on a busy machine these two sizes blur an exact value most."""


@dataclass(frozen=True, slots=True)
class TruthSet:
    """Eight requests on one model; `name` is `<model>-<set>`, `calls` have `r0` to `r7` as keys."""

    name: str
    model: str
    about: str
    calls: tuple[CalibrationCall, ...]

    @property
    def staggered(self) -> bool:
        """Whether the requests do not all arrive at once."""
        return any(call.arrival_ns for call in self.calls)

    @property
    def tenants(self) -> tuple[str, ...]:
        """In order of appearance."""
        return tuple(dict.fromkeys(call.tenant for call in self.calls))

    def chosen(self, mask: int) -> list[CalibrationCall]:
        """The calls whose bit is set."""
        return [call for i, call in enumerate(self.calls) if mask >> i & 1]


def content() -> dict[str, Any]:
    """The file as it is."""
    loaded: dict[str, Any] = json.loads(FILE.read_text())
    return loaded


def digest() -> str:
    """SHA-256 of the file, in hex."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


@cache
def load() -> dict[str, TruthSet]:
    """The sets by name, in the order in which they are measured. Prompts depend on the file's seed and the set only."""
    raw = content()
    found = {}
    for name in raw["order"]:
        model, _, set_name = name.partition("-")
        random = Random(f"{raw['seed']} {set_name}")
        prefixes: dict[str, tuple[int, ...]] = {}
        calls = []
        for i, request in enumerate(raw["sets"][set_name]["requests"]):
            head: tuple[int, ...] = ()
            if "prefix" in request:
                head = prefixes.setdefault(request["prefix"], draw_tokens(random, request["shared"]))
            adapter = request["adapter"]
            calls.append(
                CalibrationCall(
                    f"r{i}",
                    request["tenant"],
                    head + draw_tokens(random, request["prompt"] - len(head)),
                    request["output"],
                    None if adapter is None else f"adapter-{adapter}",
                    request.get("arrival_ms", 0) * 1_000_000,
                )
            )
        found[name] = TruthSet(name, model, raw["sets"][set_name]["about"], tuple(calls))
    return found


def schedule(name: str) -> list[tuple[int, int]]:
    """(round, mask) of every run of a set, in the order they are made.

    Each round has every subset once, shuffled, and its part of the extra runs of some sizes; `MORE` is one round after them.
    """
    raw = content()
    random = Random(f"{raw['seed']} {name} order")
    runs = []
    for number in range(raw["rounds"]):
        masks = list(range(1, 256))
        for size, extra in raw["extra"].items():
            times = (extra + number) // raw["rounds"]
            masks += [mask for mask in range(1, 256) if mask.bit_count() == int(size)] * times
        random.shuffle(masks)
        runs += [(number, mask) for mask in masks]
    more = [mask for mask in range(1, 256) for _ in range(MORE.get(mask.bit_count(), 0))]
    random.shuffle(more)
    return runs + [(raw["rounds"], mask) for mask in more]

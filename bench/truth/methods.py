"""What different methods would have charged the requests of a run: ours and those that others use. All sum to the same total."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.truth.reshare import Hit, reshare
from bench.truth.sets import TruthSet
from serving.calibration.phases import CalibrationCall
from serving.step_model.profile import Profile, RowWork
from serving.step_model.split import split_step

Steps = Sequence[tuple[int, Sequence[RowWork]]]
Shares = dict[str, float]


def ours(truth_set: TruthSet, steps: Steps, profile: Profile) -> Shares:
    """What is billed: every step split by the model, nothing else. By request the first one pays for a shared prefix."""
    shares = dict.fromkeys((call.key for call in truth_set.calls), 0.0)
    for duration_ns, rows in steps:
        for row, share in zip(rows, split_step(duration_ns, rows, profile), strict=True):
            shares[row.key] += sum(share)
    return shares


def ours_by_request(truth_set: TruthSet, steps: Steps, profile: Profile) -> Shares:
    """The same with the zero-sum line that deals a shared prefix to all who used it; tenants' sums are unchanged."""
    shares = ours(truth_set, steps, profile)
    for key, ns in reshare(steps, prefix_hits(truth_set, steps), profile).items():
        shares[key] += ns
    return shares


def token_average(truth_set: TruthSet, steps: Steps, profile: Profile) -> Shares:
    """Input and output tokens times the average rate, as a bill by tokens does it."""
    return _by_weight(steps, {call.key: len(call.tokens) + call.output for call in truth_set.calls})


def output_tokens(truth_set: TruthSet, steps: Steps, profile: Profile) -> Shares:
    """Output tokens times the average rate."""
    return _by_weight(steps, {call.key: call.output for call in truth_set.calls})


def equal_split(truth_set: TruthSet, steps: Steps, profile: Profile) -> Shares:
    """Every step's time equally to the requests in it."""
    return _by_step(truth_set, steps, lambda row: 1)


def token_proportional(truth_set: TruthSet, steps: Steps, profile: Profile) -> Shares:
    """Every step's time in proportion to the tokens computed in it."""
    return _by_step(truth_set, steps, lambda row: row.prefill + row.decode)


METHODS: Final[Mapping[str, Callable[[TruthSet, Steps, Profile], Shares]]] = {
    "ours": ours_by_request,
    "ours_without_reshare": ours,
    "token_average": token_average,
    "output_tokens": output_tokens,
    "equal_split": equal_split,
    "token_proportional": token_proportional,
}


def prefix_hits(truth_set: TruthSet, steps: Steps) -> dict[str, Hit]:
    """Who began with cached tokens, and who had computed them: the first request of its tenant with the same beginning."""
    calls = {call.key: call for call in truth_set.calls}
    hits: dict[str, Hit] = {}
    seen: list[str] = []
    for _, rows in steps:
        for row in rows:
            if row.key in seen:
                continue
            if row.before:
                payer = next(key for key in seen if key not in hits and _alike(calls[key], calls[row.key], row.before))
                hits[row.key] = Hit(payer, row.before)
            seen.append(row.key)
    return hits


def _alike(one: CalibrationCall, other: CalibrationCall, tokens: int) -> bool:
    return one.tenant == other.tenant and one.adapter == other.adapter and one.tokens[:tokens] == other.tokens[:tokens]


def _by_weight(steps: Steps, weights: Mapping[str, int]) -> Shares:
    total = sum(duration_ns for duration_ns, _ in steps)
    whole = sum(weights.values())
    return {key: total * weight / whole for key, weight in weights.items()}


def _by_step(truth_set: TruthSet, steps: Steps, weight: Callable[[RowWork], int]) -> Shares:
    shares = dict.fromkeys((call.key for call in truth_set.calls), 0.0)
    for duration_ns, rows in steps:
        whole = sum(weight(row) for row in rows)
        for row in rows:
            shares[row.key] += duration_ns * weight(row) / whole
    return shares

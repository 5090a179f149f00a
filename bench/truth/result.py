"""From raw runs to the committed result: exact values with their intervals, every method's error, what the profile predicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from bench.truth import shapley
from bench.truth.measure import Run, aside, by_subset, profile_of, read_runs
from bench.truth.methods import METHODS, Shares, Steps
from bench.truth.sets import TruthSet, content, digest, load
from serving.calibration.fit import errors_ppm
from serving.calibration.phases import CalibrationCall
from serving.step_model.profile import Profile, RowWork
from serving.step_model.sample import StepSample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Result = dict[str, Any]
PLAYERS: Final = 8
EVERYBODY: Final = (1 << PLAYERS) - 1
DRAWS: Final = 4000
SUMMED: Final = ("ours", "token_average", "equal_split", "output_tokens", "token_proportional")
TARGETS: Final = {
    "at_once.tenants.mean": 0.025,
    "at_once.tenants.worst": 0.06,
    "at_once.requests.worst": 0.08,
    "staggered.tenants.mean": 0.08,
    "times_better_than_token_average": 10.0,
    "times_better_on_each_set": 6.0,
}
"""Means are those of the worst set. An error that the truth's own interval holds is not counted: nothing can be said of it."""
BLURRED: Final = 0.05
"""A set whose tenants' intervals are wider to each side, on average, says nothing: other work blurred it."""
DRIFTED: Final = 0.1
"""Nor does one that took this much more or less than its profile predicts: the machine was another than when it was calibrated."""


def of_set(truth_set: TruthSet, work: Path) -> Result | None:
    """Everything about one set, or None when not all its subsets are measured."""
    runs = [run for run in read_runs(work / f"runs-{truth_set.name}.jsonl") if run["counts"]]
    by_mask = by_subset(runs)
    if len(by_mask) < EVERYBODY:
        return None
    if any(run["sets"] != digest() for run in runs):
        raise SystemExit(f"{truth_set.name} was measured on other sets than {digest()}")
    profile = profile_of(truth_set.model, work)
    values = shapley.exact(shapley.medians(by_mask, PLAYERS))
    drawn = shapley.resampled(by_mask, PLAYERS, DRAWS, content()["seed"])
    whole = [steps_of(run, truth_set) for run in runs if run["mask"] == EVERYBODY]
    total = median(by_mask[EVERYBODY])
    found: dict[str, Any] = {
        "about": truth_set.about,
        "arrivals": "staggered" if truth_set.staggered else "at once",
        "model": truth_set.model,
        "runs": len(runs),
        "runs_off_core": sum(run["off_core"] > 0.02 for run in runs),
        "rounds": content()["rounds"],
        "measured_from": min(run["at"] for run in runs),
        "measured_until": max(run["at"] for run in runs),
        "all_together_ms": _ms(total),
        "solo_over_together": round(sum(median(by_mask[1 << i]) for i in range(PLAYERS)) / total, 3),
        "noise_of_one_run": round(shapley.noise_of_one_run(by_mask), 4),
        "measured_again_after_noise_of": _noise_before(truth_set, work),
        "profile": profile.hash,
        "predicted_over_measured": _drift(profile, [steps_of(run, truth_set) for run in runs]),
    }
    groups = {
        "requests": {call.key: [i] for i, call in enumerate(truth_set.calls)},
        "tenants": {
            tenant: [i for i, call in enumerate(truth_set.calls) if call.tenant == tenant]
            for tenant in truth_set.tenants
        },
    }
    charged = {name: _mean_shares([method(truth_set, s, profile) for s in whole]) for name, method in METHODS.items()}
    charged["game_of_the_model"] = _game_of_the_model(truth_set, runs, profile)
    for view, members in groups.items():
        truth = {key: sum(values[i] for i in numbers) for key, numbers in members.items()}
        clouds = {key: drawn[:, numbers].sum(axis=1) for key, numbers in members.items()}
        found[view] = _view(truth, clouds, charged, members, truth_set.calls, total)
    found["statement"] = _statement(found)
    return found


def _game_of_the_model(truth_set: TruthSet, runs: Sequence[Run], profile: Profile) -> Shares:
    """Exact values of what the model predicts for the steps of every subset, as parts of the whole.

    Its error is the model's own. What the split differs from it is the definition: the split shares the steps that ran, and the
    game batches the others anew without a request.
    """
    predicted: dict[int, list[int]] = {}
    for run in runs:
        took = sum(profile.predict_ns(rows) for _, rows in steps_of(run, truth_set))
        predicted.setdefault(run["mask"], []).append(took)
    values = shapley.exact(shapley.medians(predicted, PLAYERS))
    return {call.key: value / sum(values) for call, value in zip(truth_set.calls, values, strict=True)}


def _statement(one: Result) -> str:
    """`yes`, or why nothing can be said of the set."""
    if one["tenants"]["truth_half_width"] > BLURRED:
        return f"no: the truth is known to ± {one['tenants']['truth_half_width']:.1%} only"
    if abs(one["predicted_over_measured"]["sum"] - 1) > DRIFTED:
        return (
            f"no: its steps took {1 / one['predicted_over_measured']['sum']:.2f} times what they took when calibrated"
        )
    return "yes"


def _view(
    truth: Mapping[str, float],
    clouds: Mapping[str, Array],
    charged: Mapping[str, Shares],
    members: Mapping[str, Sequence[int]],
    calls: Sequence[CalibrationCall],
    total: float,
) -> dict[str, Any]:
    import numpy as np

    out: dict[str, Any] = {"truth": {}, "errors": {}}
    for key, value in truth.items():
        low, high = np.percentile(clouds[key], [2.5, 97.5])
        out["truth"][key] = {"ms": _ms(value), "ci95_ms": [_ms(low), _ms(high)]}
    out["truth_half_width"] = round(
        fmean((np.percentile(c, 97.5) - np.percentile(c, 2.5)) / 2 / truth[key] for key, c in clouds.items()), 4
    )
    for name, shares in charged.items():
        said = {key: sum(shares[calls[i].key] for i in numbers) * total for key, numbers in members.items()}
        errors = {key: said[key] / truth[key] - 1 for key in truth}
        cloud = np.mean([np.abs(said[key] / clouds[key] - 1) for key in truth], axis=0)
        out["errors"][name] = {
            "mean": round(fmean(abs(error) for error in errors.values()), 4),
            "mean_ci95": [round(float(bound), 4) for bound in np.percentile(cloud, [2.5, 97.5])],
            "worst": round(max(abs(error) for error in errors.values()), 4),
            "each": {key: round(error, 4) for key, error in errors.items()},
            "beyond_the_truth": sorted(key for key in truth if not _holds(clouds[key], said[key])),
        }
    return out


def _holds(cloud: Array, said: float) -> bool:
    import numpy as np

    low, high = np.percentile(cloud, [2.5, 97.5])
    return bool(low <= said <= high)


def steps_of(run: Run, truth_set: TruthSet) -> Steps:
    """The run's steps as the meter saw them."""
    return [
        (
            duration_ns,
            [
                RowWork(prefill, decode, before, truth_set.calls[i].adapter, 0, truth_set.calls[i].key)
                for i, prefill, decode, before in rows
            ],
        )
        for duration_ns, rows in run["steps"]
    ]


def _mean_shares(of_runs: Sequence[Shares]) -> Shares:
    """Fractions of the run's time, averaged over the runs of all requests together."""
    return {key: fmean(shares[key] / sum(shares.values()) for shares in of_runs) for key in of_runs[0]}


def _drift(profile: Profile, runs: Iterable[Steps]) -> dict[str, Any]:
    """The profile against steps that it was not fitted on: the sums' ratio, and the median error by step class."""
    steps = [StepSample(0, duration_ns, tuple(rows)) for run in runs for duration_ns, rows in run]
    predicted = sum(profile.predict_ns(step.rows) for step in steps)
    return {
        "sum": round(predicted / sum(step.duration_ns for step in steps), 4),
        "median_error": {name: ppm / 1_000_000 for name, ppm in errors_ppm(profile, steps).items()},
    }


def summary(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Per method the error of tenants and requests over the sets that arrive at once and over the staggered ones.

    Sets that allow no statement are left out. `mean` is the mean over sets of the set's mean, `worst_set` the largest set's mean, `worst` the largest single error.
    """
    out: dict[str, Any] = {}
    for name in SUMMED:
        out[name] = {}
        for view, into in (("tenants", "per_tenant"), ("requests", "per_request")):
            for arrivals in ("at once", "staggered"):
                stated = [one for one in found.values() if one["arrivals"] == arrivals and one["statement"] == "yes"]
                parts = [one[view]["errors"][name] for one in stated]
                if parts:
                    out[name].setdefault(into, {})[arrivals.replace(" ", "_")] = {
                        "mean": round(fmean(part["mean"] for part in parts), 4),
                        "worst_set": max(part["mean"] for part in parts),
                        "worst": max(part["worst"] for part in parts),
                    }
    return out


def targets(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each target with what was measured over the sets that allow a statement, and whether it was met."""
    out: dict[str, dict[str, Any]] = {}
    stated = [one for one in found.values() if one["statement"] == "yes"]
    for name, limit in TARGETS.items():
        if name.startswith("times"):
            at_once = [one["tenants"]["errors"] for one in stated if one["arrivals"] == "at once"]
            if at_once:
                times = _times(at_once, each=name.endswith("each_set"))
                out[name] = {"target": limit, "measured": times, "met": times >= limit}
            continue
        arrivals, view, figure = name.split(".")
        parts = [one[view] for one in stated if one["arrivals"] == arrivals.replace("_", " ")]
        beyond = [_beyond(part, figure) for part in parts if part["errors"]["ours"]["beyond_the_truth"]]
        if beyond:
            out[name] = {"target": limit, "measured": max(beyond), "met": max(beyond) <= limit}
        elif parts:
            most = max(part["errors"]["ours"][figure] for part in parts)
            out[name] = {"target": limit, "measured": most, "met": True, "within_the_truth": most > limit}
    return out


def _beyond(view: Result, figure: str) -> float:
    """The mean error of a set of which some error is beyond the truth's interval; or the largest such error."""
    errors = view["errors"]["ours"]
    if figure == "mean":
        return float(errors["mean"])
    return max(abs(float(errors["each"][key])) for key in errors["beyond_the_truth"])


def _times(errors: Sequence[Result], each: bool) -> float:
    """How many times smaller the mean error of a tenant is than the token average's: over all sets, or in the worst of them."""
    pairs = [(float(one["token_average"]["mean"]), max(float(one["ours"]["mean"]), 1e-4)) for one in errors]
    if each:
        return round(min(theirs / ours for theirs, ours in pairs), 2)
    return round(fmean(theirs for theirs, _ in pairs) / fmean(ours for _, ours in pairs), 2)


def build(work: Path, machine: Mapping[str, Any]) -> dict[str, Any]:
    """The whole result over the sets that are complete."""
    found = {name: one for name, truth_set in load().items() if (one := of_set(truth_set, work)) is not None}
    if not found:
        raise SystemExit(f"no set is complete in {work}")
    figures = summary(found)
    models = dict.fromkeys(one["model"] for one in found.values())
    return {
        **figures,
        "targets": targets(found),
        "sets_sha256": digest(),
        "machine": dict(machine),
        "profiles": {model: _profile_line(profile_of(model, work)) for model in models},
        "not_measured": [name for name in load() if name not in found],
        "sets": found,
    }


def _profile_line(profile: Profile) -> dict[str, Any]:
    import json

    line: dict[str, Any] = json.loads(profile.to_json())
    return line


def _noise_before(truth_set: TruthSet, work: Path) -> float | None:
    first = read_runs(aside(truth_set, work))
    return round(shapley.noise_of_one_run(by_subset(first)), 4) if first else None


def _ms(ns: float) -> float:
    return round(float(ns) / 1e6, 2)

"""The step models there are, by method: which one a profile is for, and how it splits a step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serving.step_model import linear as split
from serving.step_model import roofline as roofline
from serving.step_model.linear import Curve, RowShare
from serving.step_model.profile import Profile, ProfileInvalid, RowWork
from serving.step_model.roofline import RooflineProfile

StepModel = Profile | RooflineProfile
"""A profile of any method: `method`, `hash`, `predict_ns`, `kv_saved_ns`, `to_json`."""


def split_step(duration_ns: int, rows: Sequence[RowWork], model: StepModel) -> list[RowShare]:
    """Share a step's time among its rows by the model's method; the sum is exact."""
    if isinstance(model, RooflineProfile):
        return roofline.split_step(duration_ns, rows, model)
    return split.split_step(duration_ns, rows, model)


def own_curves(rows: Sequence[RowWork], model: StepModel) -> list[Curve]:
    """What of each row's share is its prefill tokens' own, by the model's method."""
    if isinstance(model, RooflineProfile):
        return roofline.own_curves(rows, model)
    return split.own_curves(rows, model)


def from_json(text: str | bytes, source: str = "(text)") -> StepModel:
    """Read a profile of any method; ProfileInvalid when it is none."""
    try:
        raw: Any = json.loads(text)
    except ValueError as error:
        raise ProfileInvalid(source, f"not JSON: {error}") from error
    method = raw.get("method") if isinstance(raw, dict) else None
    if method == RooflineProfile.method:
        return RooflineProfile.from_json(text, source)
    if method == Profile.method:
        return Profile.from_json(text, source)
    raise ProfileInvalid(source, f"method {method!r} is neither {Profile.method} nor {RooflineProfile.method}")


def load(path: Path) -> StepModel:
    """Read a profile file; OSError when it cannot be opened, ProfileInvalid when it is not one."""
    return from_json(path.read_bytes(), str(path))

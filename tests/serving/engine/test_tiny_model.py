"""The tiny model is the same wherever it is made, and is made once."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from serving.engine.tiny_model import (
    MID,
    RANKS,
    Shape,
    TinyModel,
    builtin_path,
    is_builtin,
    make_builtin,
    make_tiny_model,
)

pytest.importorskip("torch")


def digest(directory: Path) -> str:
    content = hashlib.sha256()
    for file in sorted(directory.rglob("*")):
        if file.is_file():
            content.update(str(file.relative_to(directory)).encode() + file.read_bytes())
    return content.hexdigest()


def test_it_is_made_once_and_the_same_everywhere(tiny: TinyModel, tmp_path: Path) -> None:
    told: list[str] = []
    made = make_tiny_model(tmp_path, told.append)
    assert digest(made.base_path.parent) == digest(tiny.base_path.parent)
    assert len(told) == 2 + len(RANKS)
    assert make_tiny_model(tmp_path, told.append) == made
    assert len(told) == 2 + len(RANKS)
    assert [entry.name for entry in tmp_path.iterdir()] == [made.base_path.parent.name]


def test_builtin_names_lead_to_it(tiny: TinyModel) -> None:
    assert builtin_path("builtin:tiny", tiny) == tiny.base_path
    assert builtin_path("builtin:adapter/7", tiny) == tiny.adapter_paths[7]
    assert not is_builtin("/models/llama")
    for wrong in ("builtin:adapter/8", "builtin:adapter/-1", "builtin:adapter/", "builtin:other"):
        with pytest.raises(ValueError, match="unknown builtin path"):
            builtin_path(wrong, tiny)


def test_other_shapes_come_from_the_same_recipe(tmp_path: Path) -> None:
    """With fewer key heads than heads; `builtin:mid` is made like this, with 50 million parameters."""
    from safetensors import safe_open

    made = make_tiny_model(tmp_path, shape=Shape("small-llama", hidden=64, inter=128, layers=1, heads=4, kv_heads=2))
    with safe_open(str(made.base_path / "model.safetensors"), "pt") as weights:
        assert weights.get_slice("model.layers.0.self_attn.k_proj.weight").get_shape() == [32, 64]
        assert weights.get_slice("model.layers.0.self_attn.q_proj.weight").get_shape() == [64, 64]
    with safe_open(str(made.adapter_paths[2] / "adapter_model.safetensors"), "pt") as weights:
        b = weights.get_slice("base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight")
        assert b.get_shape() == [32, RANKS[2]]
    config = json.loads((made.base_path / "config.json").read_text())
    assert (config["num_key_value_heads"], config["head_dim"]) == (2, 16)
    assert builtin_path("builtin:mid", made) == made.base_path
    weights_of = sum(inputs * outputs for _, inputs, outputs in MID.projections.values()) * MID.layers
    assert 50e6 < weights_of + 2 * 2048 * MID.hidden < 55e6
    with pytest.raises(ValueError, match="unknown builtin base model 'builtin:big'"):
        make_builtin("builtin:big", tmp_path)

"""The tiny model is the same wherever it is made, and is made once."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from serving.tiny_model import RANKS, TinyModel, builtin_path, is_builtin, make_tiny_model

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

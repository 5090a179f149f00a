"""An adapter is copied under the name of its content, or refused with the reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.engine.adapter_store import AdapterStore
from serving.engine.tiny_model import TinyModel
from serving.errors import AdapterLoadFailed
from serving.wire.keys import CONFIG_FILE, WEIGHTS_FILE


@pytest.fixture
def source(tiny: TinyModel, tmp_path: Path) -> Path:
    """A private copy of adapter 0 (rank 8)."""
    return Path(shutil.copytree(tiny.adapter_paths[0], tmp_path / "source"))


def test_the_copy_is_named_by_content_and_outlives_its_source(source: Path, tmp_path: Path) -> None:
    first = AdapterStore(tmp_path).read("law", source, 8)
    again = AdapterStore(tmp_path).read("law", source, 8)
    assert first == again
    assert first.path == tmp_path / "adapters" / first.hash
    assert first.served_name == f"law@{first.hash[:8]}"
    assert first.size_bytes == (source / WEIGHTS_FILE).stat().st_size
    shutil.rmtree(source)
    assert {file.name for file in first.path.iterdir()} == {CONFIG_FILE, WEIGHTS_FILE}
    assert [entry.name for entry in (tmp_path / "adapters").glob("[!.]*")] == [first.hash]


def test_any_change_makes_another_version_beside_the_old_one(source: Path, tmp_path: Path) -> None:
    old = AdapterStore(tmp_path).read("law", source, 8)
    config = json.loads((source / CONFIG_FILE).read_text())
    (source / CONFIG_FILE).write_text(json.dumps(config | {"lora_alpha": 1}))
    new = AdapterStore(tmp_path).read("law", source, 8)
    assert new.served_name != old.served_name
    assert old.path.is_dir()
    assert new.path.is_dir()


def missing_directory(source: Path) -> None:
    shutil.rmtree(source)


def missing_weights(source: Path) -> None:
    (source / WEIGHTS_FILE).unlink()


def missing_config(source: Path) -> None:
    (source / CONFIG_FILE).unlink()


def config_is_not_json(source: Path) -> None:
    (source / CONFIG_FILE).write_text("{")


def config_is_not_lora(source: Path) -> None:
    (source / CONFIG_FILE).write_text('{"peft_type": "IA3", "r": 8}')


def config_says_another_rank(source: Path) -> None:
    config = json.loads((source / CONFIG_FILE).read_text())
    (source / CONFIG_FILE).write_text(json.dumps(config | {"r": 16}))


def weights_are_empty(source: Path) -> None:
    (source / WEIGHTS_FILE).write_bytes(b"")


def weights_are_noise(source: Path) -> None:
    (source / WEIGHTS_FILE).write_bytes(b"\xff" * 4096)


def weights_are_cut_short(source: Path) -> None:
    whole = (source / WEIGHTS_FILE).read_bytes()
    (source / WEIGHTS_FILE).write_bytes(whole[:-1])


def weights_hold_no_lora(source: Path) -> None:
    header = b'{"x": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}'
    (source / WEIGHTS_FILE).write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(
    ("harm", "fact"),
    [
        (missing_directory, "no such directory"),
        (missing_weights, "adapter_model.safetensors is missing"),
        (missing_config, "adapter_config.json is missing"),
        (config_is_not_json, "not JSON"),
        (config_is_not_lora, "not a LoRA configuration"),
        (config_says_another_rank, "has rank 16, the catalog says 8"),
        (weights_are_empty, "not a safetensors file"),
        (weights_are_noise, "not a safetensors file"),
        (weights_are_cut_short, "cut short"),
        (weights_hold_no_lora, "no LoRA weights"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_an_unusable_adapter_is_refused_with_the_reason_and_leaves_nothing(
    source: Path, tmp_path: Path, harm: Callable[[Path], None], fact: str
) -> None:
    harm(source)
    with pytest.raises(AdapterLoadFailed, match=fact) as caught:
        AdapterStore(tmp_path).read("law", source, 8)
    assert (caught.value.adapter, caught.value.path) == ("law", str(source))
    assert not list((tmp_path / "adapters").glob("[!.]*"))


def test_weights_of_another_rank_than_their_configuration_are_refused(
    source: Path, tiny: TinyModel, tmp_path: Path
) -> None:
    shutil.copyfile(tiny.adapter_paths[2] / WEIGHTS_FILE, source / WEIGHTS_FILE)
    with pytest.raises(AdapterLoadFailed, match="rank 16, the catalog says 8"):
        AdapterStore(tmp_path).read("law", source, 8)

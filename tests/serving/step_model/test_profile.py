from dataclasses import replace
from pathlib import Path

import pytest

from serving.step_model.profile import Profile, ProfileInvalid, RowWork

KNOWN = Profile(
    a=3_060_000_000,
    b_p=51_000_000,
    b_d=130_000_000,
    c_p=28_000,
    c_d=500_000,
    any_lora=3_800_000_000,
    per_adapter=3_400_000_000,
    lora_token=44_000_000,
    build="known",
)
"""A profile with every term in it; how the built-in one was fitted is no business of these tests."""


def test_a_profile_survives_its_file_and_its_hash_covers_what_prices(tmp_path: Path) -> None:
    profile = replace(KNOWN, steps=812, error_ppm={"prefill": 28_000, "decode": 56_000})
    path = tmp_path / "profile.json"
    profile.save(path)
    loaded = Profile.load(path)
    assert loaded == profile
    assert loaded.error_ppm == profile.error_ppm
    assert loaded.hash == KNOWN.hash
    assert len(loaded.hash) == 12
    assert replace(profile, b_d=profile.b_d + 1).hash != profile.hash
    assert replace(profile, build="another").hash != profile.hash


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("[", "not JSON"),
        ('{"method": "engine-step/2"}', "method is not engine-step/1"),
        ('{"method": "engine-step/1", "a": 1}', "missing coefficients b_p"),
        (KNOWN.to_json().replace('"b_p":51000000', '"b_p":51000001'), "hash says"),
        (KNOWN.to_json().replace('"b_p":51000000', '"b_p":-1'), "b_p must be picoseconds"),
        (KNOWN.to_json().replace('"b_p":51000000', '"b_p":5.1'), "b_p must be picoseconds"),
        (KNOWN.to_json().replace('"b_p"', '"b_q"'), "unknown fields b_q"),
    ],
)
def test_a_wrong_profile_is_refused_with_its_fault(text: str, fact: str) -> None:
    with pytest.raises(ProfileInvalid, match=fact):
        Profile.from_json(text)


def test_a_prediction_is_the_sum_of_its_terms() -> None:
    """A step without LoRA, then one with two adapters: fixed terms of 3.06, and 3.06 + 3.8 + 2 x 3.4 ms."""
    base = KNOWN.predict_ns([RowWork(0, 1, 99)])
    assert base == 3_060_000 + 130_000 + 100 * 500
    two = KNOWN.predict_ns([RowWork(0, 1, 0, "law"), RowWork(0, 1, 0, "med")])
    assert two == 3_060_000 + 3_800_000 + 2 * (3_400_000 + 130_000 + 500 + 44_000)
    assert KNOWN.predict_ns([]) == 0


def test_cached_tokens_save_what_computing_them_alone_would_cost() -> None:
    assert KNOWN.kv_saved_ns(512, lora=False) == (512 * 51_000 + 14 * 512 * 512, 0)
    assert KNOWN.kv_saved_ns(512, lora=True)[1] == 512 * 44_000
    assert KNOWN.kv_saved_ns(0, lora=True) == (0, 0)

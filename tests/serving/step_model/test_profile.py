from dataclasses import replace
from pathlib import Path

import pytest

from serving.step_model.profile import DEFAULT_PROFILE, Profile, ProfileInvalid, RowWork

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


MIXED = replace(KNOWN, mixed=7, mixed_token=9)
ROOFLINE = replace(KNOWN, weights=10_500_000_000, token=35_700_000)


def test_a_profile_says_by_which_method_it_splits_and_old_ones_keep_their_hash() -> None:
    assert [profile.method for profile in (KNOWN, MIXED, ROOFLINE)] == [
        "engine-step/1",
        "engine-step/3",
        "engine-step/2",
    ]
    assert len({profile.hash for profile in (KNOWN, MIXED, ROOFLINE)}) == 3
    assert DEFAULT_PROFILE.hash == "a90a4dafe1d0"
    for profile in (KNOWN, MIXED, ROOFLINE):
        assert Profile.from_json(profile.to_json()) == profile
    assert "mixed" not in KNOWN.to_json()
    assert '"weights"' not in MIXED.to_json()


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
        ('{"method": "engine-step/4"}', "method 'engine-step/4' is none of engine-step/1"),
        ("[1]", "method None is none of"),
        ('{"method": "engine-step/2", "a": 1}', "missing coefficients b_p"),
        ('{"method": "engine-step/1", "a": 1}', "missing coefficients b_p"),
        (KNOWN.to_json().replace('"b_p":51000000', '"b_p":51000001'), "hash says"),
        (KNOWN.to_json().replace('"b_p":51000000', '"b_p":-1'), "b_p must be picoseconds"),
        (KNOWN.to_json().replace('"b_p":51000000', '"b_p":5.1'), "b_p must be picoseconds"),
        (KNOWN.to_json().replace('"b_p"', '"b_q"'), "unknown fields b_q"),
        (KNOWN.to_json().replace('"b_p"', '"weights":1,"b_p"'), "unknown fields weights"),
        (MIXED.to_json().replace("mixed_token", "mixed_tokens"), "unknown fields mixed_tokens"),
        (MIXED.to_json().replace('"mixed":7,"mixed_token":9', '"mixed":0,"mixed_token":0'), "those of engine-step/1"),
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

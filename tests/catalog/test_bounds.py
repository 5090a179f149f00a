"""Every value of a catalog has a range with sense, and what lies outside is told with its field, its value and the range."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from catalog.load import CatalogInvalid, parse
from catalog.model import Catalog

EXAMPLE = (Path(__file__).parents[2] / "examples" / "catalog.yaml").read_text()
BAD_CHECK_DIGITS = "DE03120300000000202051"
HASH = "sha256:" + "0" * 64


def changed(path: str, value: Any) -> Catalog:
    """The example with one value put in place; `path` is dotted, numbers are list positions, `+` appends."""
    raw = yaml.safe_load(EXAMPLE)
    *steps, last = (int(part) if part.isdecimal() else part for part in path.split("."))
    place = raw
    for step in steps:
        place = place[step]
    if last == "+":
        place.append(value)
    else:
        place[last] = value
    return parse(yaml.safe_dump(raw, allow_unicode=True), "x.yaml")


def problems(path: str, value: Any) -> list[str]:
    with pytest.raises(CatalogInvalid) as caught:
        changed(path, value)
    return caught.value.problems


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("tenants.0.tax_rate", "19", "must be less than or equal to 1 (it is '19')"),
        ("tenants.0.tax_rate", 19, "must be less than or equal to 1 (it is 19)"),
        ("tenants.0.tax_rate", "-0.1", "must be greater than or equal to 0"),
        ("tenants.0.tax_rate", "NaN", "finite"),
        ("tenants.0.tax_rate", True, "must be a number, not true or false"),
        ("tenants.0.plan.margin", "25", "less than or equal to 4"),
        ("tenants.0.plan.minimum", "1e13", "less than or equal to"),
        ("tenants.2.plan.output", "-1", "greater than or equal to 0"),
        ("tenants.0.discounts", [{"id": "a", "fraction": "10"}], "less than or equal to 1"),
        ("tenants.0.discounts", [{"id": "a", "fraction": "0"}], "greater than 0"),
        ("tenants.0.commitment", {"fee": "0"}, "greater than 0"),
        ("tenants.0.commitment", {"fee": "5", "overage": "120"}, "less than or equal to 4"),
        ("tenants.0.slo.p99_seconds", "0", "greater than or equal to 0.001"),
        ("tenants.0.slo.p99_seconds", "1500000", "less than or equal to 3600"),
        ("tenants.0.quotas", {"requests_per_minute": 0}, "greater than or equal to 1"),
        ("tenants.0.quotas", {"tokens_per_minute": True}, "must be a number"),
        ("tenants.0.quotas", {"max_choices": True}, "must be a number"),
        ("tenants.0.time_zone", "Factory", "not a time zone of the IANA database"),
        ("tenants.0.time_zone", "localtime", "not a time zone"),
        ("tenants.0.time_zone", "posixrules", "not a time zone"),
        ("tenants.0.time_zone", "right/Europe/Berlin", "not a time zone"),
        ("tenants.0.time_zone", "Europe", "not a time zone"),
        ("tenants.0.time_zone", "../../etc/passwd", "not a time zone"),
        ("tenants.0.time_zone", "", "not a time zone"),
        ("tenants.0.currency", "EUX", "not the ISO 4217 code"),
        ("tenants.0.currency", "XXX", "not the ISO 4217 code"),
        ("tenants.0.currency", "XAU", "not the ISO 4217 code"),
        ("tenants.0.name", "", "must not be empty"),
        ("tenants.0.name", "   ", "must not be empty"),
        ("tenants.0.name", "Linden\x1bhof", "U+001B, a control character"),
        ("tenants.0.name", "Linden\nhof", "U+000A, a control character"),
        ("tenants.0.name", "Linden\u202ehof", "U+202E, an invisible format character"),
        ("tenants.0.name", "Linden\ufffehof", "U+FFFE, a code point that is no character"),
        ("tenants.0.name", "Linden\ue000hof", "U+E000, a private-use character"),
        ("tenants.0.name", "Linden\u2028hof", "a line separator"),
        ("tenants.0.name", "\u3164", "must contain a letter or a digit"),
        ("tenants.0.name", "\u200d-", "must contain a letter or a digit"),
        ("tenants.0.name", " Lindenhof", "white space"),
        ("tenants.0.name", "x" * 201, "at most 200 characters"),
        ("tenants.0.address", ["Street\x00", "DE"], "U+0000"),
        ("tenants.0.address", ["Street", ""], "must not be empty"),
        ("tenants.0.address", ["Street", "XX"], "not an ISO 3166 country code"),
        ("tenants.0.address", ["Street", "UK"], "not an ISO 3166 country code"),
        ("tenants.0.address", ["Street", "de"], "not an ISO 3166 country code"),
        ("tenants.0.address", ["line"] * 9, "at most 8 items"),
        ("tenants.0.tax_note", "a\x7fb", "U+007F"),
        ("tenants.0.purchase_order", "\t", "must not be empty"),
        ("tenants.0.key_hashes", ["sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"], "empty key"),
        ("tenants.0.adapters", ["clinic-tone", "clinic-tone"], "appears 2 times"),
        ("tenants.0.id", "idle", "reserved"),
        ("adapters.1.name", "auto", "'auto' is reserved"),
        ("adapters.1.name", "tiny-llama", "'tiny-llama' is reserved"),
        ("adapters.1.name", "base", "'base' is reserved"),
        ("adapters.1.name", "law@12345678", "must match pattern"),
        ("adapters.1.name", "", "must match pattern"),
        ("adapters.1.path", "", "must not be empty"),
        ("adapters.1.path", "builtin:adapter/8", "builtin:adapter/0 to builtin:adapter/7"),
        ("adapters.1.rank", 128, "above every engine's max_lora_rank"),
        ("adapters.1.memory_budget_bytes", 1 << 40, "above every engine's memory_bytes"),
        ("base_model.name", "auto", "reserved"),
        ("base_model.path", "builtin:huge", "must be one of builtin:tiny"),
        ("engines.0.gpu_count", 5000, "less than or equal to 1024"),
        ("engines.0.block_size", 24, "power of two"),
        ("engines.0.block_size", 2048, "less than or equal to 1024"),
        ("engines.0.max_model_len", 1 << 20, "holds no sequence of max_model_len"),
        ("engines.0.max_cpu_loras", 1, "below max_loras 2"),
        ("engines.0.kv_cache_bytes", 1 << 30, "above memory_bytes"),
        ("engines.0.max_num_seqs", 2000, "max_num_batched_tokens: 1024 is below max_num_seqs 2000"),
        ("engines.0.rented", [], "at least 1 item"),
        ("engines.0.profile", "", "must not be empty"),
        ("prices.currency", "ABC", "not the ISO 4217 code"),
        ("prices.gpu_hours.0.per_hour", "-1", "greater than or equal to 0"),
        ("prices.gpu_hours.0.start", 20260101, "must be written out"),
        ("prices.gpu_hours.0.start", "20260101", "must be written out"),
        ("prices.gpu_hours.0.start", "2026-01-01T00:00:00", "timezone"),
        ("prices.gpu_hours.0.start", "2300-01-01T00:00:00Z", "must lie between"),
        ("prices.gpu_hours.0.start", "2026-01-01T18:30:00Z", "prices.gpu_hours[0].start: must lie on the hour (UTC)"),
        ("prices.effective_from", "2026-01-01T18:30:00Z", "prices.effective_from: must lie on the hour (UTC)"),
        ("tenants.0.terms", [{"effective_from": "2026-11-01T00:07:00Z"}], "terms[0].effective_from: must lie on a quarter"),
        (
            "tenants.0.terms",
            [{"effective_from": "2026-11-02"}, {"effective_from": "2026-11-01"}],
            "terms[1].effective_from: must be after that of the terms before",
        ),
        ("tenants.0.terms", [{"effective_from": "2026-11-01", "plan": None}], "terms[0].plan: cannot be null"),
        ("tenants.0.terms", [{"effective_from": "2026-11-01", "slo": {}}], "terms[0].slo: Extra inputs"),
        ("tenants.0.terms", [{"effective_from": "2026-11-01", "tax_treatment": "exempt"}], "terms[0]: tax_rate: must be 0"),
        ("prices.charged", {"ok": "tenant"}, "must say who pays for bad_request, client_abort"),
        ("prices.fx", [{"currency": "USD", "day": "1900-01-01", "rate": "1", "source": "ECB"}], "must lie between"),
        ("prices.fx", [{"currency": "USD", "day": "2026-01-01", "rate": "0", "source": "ECB"}], "greater than 0"),
        ("prices.fx", [{"currency": "USD", "day": "2026-01-01", "rate": "1", "source": ""}], "must not be empty"),
        ("seller.iban", BAD_CHECK_DIGITS, "not an IBAN"),
        ("seller.iban", "DE0212030000000020205", "not an IBAN"),
        ("seller.email", "billing", "not an e-mail address"),
        ("seller.email", "a b@example.com", "not an e-mail address"),
        ("seller.email", "a@example..com", "not an e-mail address"),
        ("seller.payment_days", -1, "greater than or equal to 0"),
        ("seller.payment_days", 3000, "less than or equal to 365"),
        ("seller.number_series", "-", "must match pattern"),
        ("seller.credit_series", "LL", "must differ from number_series"),
        ("seller.credit_series", "GAP", "is what accepted gaps are numbered with"),
        ("seller.number_series", "GAP", "is what accepted gaps are numbered with"),
        ("seller.name", "\u0007", "U+0007"),
        ("routing.2.variants", {}, "at least 1"),
        ("routing.2.variants", {"ghost": 1}, "unknown adapter 'ghost'"),
        ("routing.2.variants", {"code-complete": 0}, "greater than or equal to 1"),
        ("routing.2.tenants", ["ghost"], "unknown tenant 'ghost'"),
        ("routing.2.tenants", [], "at least 1"),
        ("routing.1.pattern", "", "at least 1 character"),
        ("routing.1.pattern", r"(a)\1", "no backreferences"),
        ("routing.1.pattern", "(?=a)", "no backreferences, lookahead"),
        ("routing.1.pattern", "(((a{100}){10}){10}){10}", "not a pattern"),
        ("routing.1.pattern", r"\pL{500}", "not a pattern"),
        ("routing.1.pattern", "[ab]{1000}[cd]{1000}[ef]{1000}", "instructions; at most"),
        ("routing.1.pattern", "a" * 1001, "1001 characters; at most"),
    ],
)  # fmt: skip
def test_a_value_out_of_its_range_is_refused_with_the_reason(path: str, value: Any, words: str) -> None:
    found = problems(path, value)
    assert any(words in problem for problem in found), found
    assert any(problem.startswith(path.split(".")[0]) for problem in found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("tenants.0.name", "菩提树医院"),
        ("tenants.0.name", "می‌خواهم"),
        ("tenants.0.name", "O'Neill & Söhne <GmbH> № 1"),
        ("tenants.0.address", ["One", "Oslo", "NO"]),
        ("tenants.0.address", []),
        ("tenants.0.tax_note", "First line.\nSecond line."),
        ("tenants.0.time_zone", "Etc/GMT+12"),
        ("tenants.0.quotas", {"monthly_budget": 0}),
        ("engines.0.rented", [{"start": "2026-01-01T00:00:00Z", "until": "2026-02-01T00:00:00Z"}, {"start": "2026-02-01T00:00:00Z"}]),
        ("seller.iban", "DE02 1203 0000 0000 2020 51"),
        ("seller.email", "o'neill+billing@sub.example.co.uk"),
    ],
)  # fmt: skip
def test_what_is_unusual_and_right_passes(path: str, value: Any) -> None:
    assert changed(path, value)


@pytest.mark.parametrize(
    ("rented", "words"),
    [
        ([("2026-01-01", "2026-03-01"), ("2026-02-01", None)], "rented[1]: begins before rented[0] ends"),
        ([("2026-02-01", None), ("2026-01-01", None)], "rented[0]: begins before rented[1] ends"),
        ([("2026-02-01", "2026-01-01")], "rented[0]: ends before it starts"),
        ([("2026-02-01", "2026-02-01")], "rented[0]: ends before it starts"),
    ],
)
def test_rented_intervals_tile_time(rented: list[tuple[str, str | None]], words: str) -> None:
    intervals = [
        {"start": f"{start}T00:00:00Z"} | ({"until": f"{until}T00:00:00Z"} if until else {}) for start, until in rented
    ]
    assert any(words in problem for problem in problems("engines.0.rented", intervals))


def test_flags_of_vllm_keep_their_numbers_as_json_has_them() -> None:
    flags = {"hf-overrides": {"rope": {"factor": 1.5, "list": [0.5, 2, True, "x"]}}}
    (engine,) = changed("engines.0.vllm", flags).engines
    assert json.loads(json.dumps(engine.vllm)) == flags


def test_a_key_written_in_place_of_its_hash_is_not_shown() -> None:
    found = problems("tenants.0.key_hashes", ["sk-very-secret"])
    assert found
    assert "secret" not in str(found)


def test_one_key_of_two_tenants_is_told_with_both() -> None:
    shared = yaml.safe_load(EXAMPLE)["tenants"][0]["key_hashes"]
    assert any("clinic, bank" in problem for problem in problems("tenants.1.key_hashes", shared))


def _shared(clinic: dict[str, Any], bank: dict[str, Any]) -> list[str]:
    raw = yaml.safe_load(EXAMPLE)
    raw["tenants"][0] |= {"kv_sharing_group": "one", "org": "health", "kv_sharing_consent": ["bank"]} | clinic
    raw["tenants"][1] |= {"kv_sharing_group": "one", "org": "health", "kv_sharing_consent": ["clinic"]} | bank
    try:
        parse(yaml.safe_dump(raw), "x.yaml")
    except CatalogInvalid as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    ("clinic", "bank", "words"),
    [
        ({}, {"org": "finance"}, "several organisations"),
        ({}, {"org": None}, "needs an org"),
        ({}, {"kv_sharing_consent": []}, "tenants[1].kv_sharing_consent: must name every other tenant"),
        ({"kv_sharing_consent": ["shop"]}, {}, "it lacks bank"),
        ({"kv_sharing_consent": ["bank", "ghost"]}, {}, "unknown tenant 'ghost'"),
        ({"kv_sharing_consent": ["bank", "clinic"]}, {}, "needs no consent of its own"),
        ({"kv_sharing_group": None}, {}, "there is none"),
    ],
)
def test_a_prefix_cache_is_shared_within_one_organisation_by_consent_of_each(
    clinic: dict[str, Any], bank: dict[str, Any], words: str
) -> None:
    assert _shared({}, {}) == []
    found = _shared(clinic, bank)
    assert any(words in problem for problem in found), found

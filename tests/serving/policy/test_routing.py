"""Which adapter serves a request: rule order, grants, stickiness, and the same answer every time."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.load import load, parse
from serving.policy.routing import TEXT_LIMIT, Decision, Denial, Policy, decide, observe, replays
from telemetry.routes import RouteInput, RouteRecord

EXAMPLE = Path(__file__).parents[3] / "examples" / "catalog.yaml"
TEXT = EXAMPLE.read_text(encoding="utf-8")
CATALOG = load(EXAMPLE)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy.of(CATALOG)


def route(policy: Policy, tenant: str, model: str | None, text: str = "", sticky: str = "s") -> Decision | Denial:
    return decide(policy, observe(policy, tenant, model, sticky, text))


@pytest.mark.parametrize(
    ("tenant", "model", "text", "adapter", "rule"),
    [
        ("clinic", "clinic-tone", "E11.9", "clinic-tone", "explicit"),
        ("clinic", "tiny-llama", "E11.9", None, "explicit"),
        ("clinic", None, "diagnosis E11.9", "icd10-coder", "icd10-codes"),
        ("clinic", "auto", "diagnosis E11.9", "icd10-coder", "icd10-codes"),
        ("clinic", "auto", "hello", None, "base"),
        ("bank", "auto", "E11.9", "ledger-lingo", "tenant-default"),
        ("campus", "", "hello", None, "base"),
        ("freeride", "brand-voice", "", "brand-voice", "explicit"),
    ],
    ids=[
        "a named adapter is served",
        "the base model by name is the base model",
        "content decides when nothing is named",
        "auto is the same as nothing",
        "without any match the base model serves",
        "a rule for an adapter that is not granted is passed over",
        "an empty name names nothing",
        "a grant may be to another owner's adapter",
    ],
)
def test_the_first_rule_that_fits_decides(
    policy: Policy, tenant: str, model: str | None, text: str, adapter: str | None, rule: str
) -> None:
    assert route(policy, tenant, model, text) == Decision(tenant, adapter, rule, policy.version)


@pytest.mark.parametrize(
    ("model", "reason"),
    [("risk-notes", "denied"), ("nobody", "unknown"), ("clinic-tone@0123abcd", "unknown"), ("base", "unknown")],
)
def test_what_is_not_the_tenants_is_denied_before_any_rule(policy: Policy, model: str, reason: str) -> None:
    answer = route(policy, "clinic", model, "E11.9")
    assert answer == Denial("clinic", model, reason, policy.version)


def test_an_experiment_keeps_each_user_and_splits_by_weight(policy: Policy) -> None:
    seen: Counter[str | None] = Counter()
    for user in range(400):
        first = route(policy, "forge", "auto", sticky=f"user-{user}")
        assert first == route(policy, "forge", None, "other words", sticky=f"user-{user}")
        assert isinstance(first, Decision)
        assert first.rule == "forge-review-trial"
        seen[first.adapter] += 1
    assert 260 <= seen["code-complete"] <= 340
    assert seen["code-complete"] + seen["code-review"] == 400


def test_a_tenant_hash_spreads_over_what_is_granted() -> None:
    rule = "tenant_hash, adapters: [brand-voice, support-macros, risk-notes]}"
    hashed = Policy.of(parse(TEXT.replace("tenant_default}", rule), "test"))
    assert route(hashed, "freeride", None) == Decision("freeride", "brand-voice", "tenant-default", hashed.version)
    chosen = route(hashed, "shop", None)
    assert isinstance(chosen, Decision)
    assert chosen.adapter in ("brand-voice", "support-macros")
    assert route(hashed, "campus", None) == Decision("campus", None, "base", hashed.version)


@given(
    tenant=st.sampled_from(["clinic", "bank", "shop", "forge", "campus", "freeride"]),
    model=st.one_of(st.none(), st.text(), st.sampled_from(["auto", "tiny-llama", "code-review", "brand-voice"])),
    text=st.text(),
    sticky=st.text(),
)
def test_every_decision_is_granted_and_replays_from_its_log_line(
    tenant: str, model: str | None, text: str, sticky: str
) -> None:
    policy = Policy.of(CATALOG)
    asked = observe(policy, tenant, model, sticky, text)
    answer = decide(policy, asked)
    if isinstance(answer, Decision):
        owner = CATALOG.tenant(tenant)
        assert owner is not None
        assert answer.adapter is None or answer.adapter in owner.adapters
        line = RouteRecord(asked, answer.adapter, answer.rule, answer.policy, "cpu-0", "hit")
    else:
        line = RouteRecord(asked, None, None, answer.policy, "cpu-0", answer.reason)
    again = RouteRecord.from_json(line.to_json())
    assert again == line
    assert replays(again, policy)
    assert not replays(RouteRecord(asked, "nobody", "explicit", answer.policy, "cpu-0", "hit"), policy)


def test_the_policy_version_is_the_content(policy: Policy) -> None:
    assert Policy.of(parse(TEXT, "a")).version == policy.version
    assert Policy.of(parse(TEXT.replace("code-complete: 3", "code-complete: 4"), "a")).version != policy.version


def test_no_prompt_and_no_user_name_is_kept(policy: Policy) -> None:
    asked = observe(policy, "clinic", None, "jane@example.com", "jane has E11.9")
    assert asked == RouteInput("clinic", None, asked.sticky, ("icd10-codes",))
    assert "jane" not in asked.sticky


def with_pattern(pattern: str) -> Policy:
    old = "pattern: '\\b[A-TV-Z][0-9]{2}\\.[0-9]{1,2}\\b'"
    assert old in TEXT
    return Policy.of(parse(TEXT.replace(old, "pattern: " + json.dumps(pattern)), "a"))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(\w+\s?)+$", "a" * 28 + "!"),
        (r"^(\w+\s?)+$", "a" * (TEXT_LIMIT - 1) + "!"),
        (r"(x+x+)+y", "x" * TEXT_LIMIT),
        (r"(a|a)*$", "a" * TEXT_LIMIT + "b"),
        (r"(.*)*(.*)*z", "\U0001f600" * TEXT_LIMIT),
    ],
)
def test_no_pattern_and_no_text_take_more_than_linear_time(pattern: str, text: str) -> None:
    policy = with_pattern(pattern)
    begun = time.process_time()
    observe(policy, "clinic", None, "s", text)
    assert time.process_time() - begun < 1


def test_only_rules_whose_adapter_is_granted_are_tried(policy: Policy) -> None:
    assert observe(policy, "clinic", None, "s", "E11.9").matched == ("icd10-codes",)
    assert observe(policy, "bank", None, "s", "E11.9").matched == ()


def test_content_rules_look_at_the_beginning_of_a_text_whatever_it_holds(policy: Policy) -> None:
    far = " " * TEXT_LIMIT + "E11.9"
    assert observe(policy, "clinic", None, "s", far).matched == ()
    assert observe(policy, "clinic", None, "s", far[1024:]).matched == ("icd10-codes",)
    assert observe(policy, "clinic", None, "s", "\ud800 E11.9").matched == ("icd10-codes",)

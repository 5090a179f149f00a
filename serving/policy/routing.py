"""Which adapter serves a request: the catalog's ordered rules over a frozen description of the request.

`model` in the request says how much is asked for: an adapter's name asks for that adapter, the base model's name asks for
the base model, and `auto` or nothing leaves it to the rules. A named model that the tenant may not use is refused before any
rule is asked, with the same words whether it exists or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from catalog.load import version
from catalog.model import (
    BaseRule,
    Catalog,
    ContentRule,
    ExperimentRule,
    ExplicitRule,
    Rule,
    Tenant,
    TenantDefaultRule,
    TenantHashRule,
)
from catalog.patterns import Matcher
from telemetry.routes import RouteInput, RouteRecord

AUTO: Final = "auto"
"""The `model` of a request that leaves the choice to the rules; the same as none."""
TEXT_LIMIT: Final = 65_536
"""Characters of user text, from its beginning, that content rules look at."""
DENIED: Final = "denied"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a request goes: `adapter` None is the base model. `rule` decided, under the catalog version `policy`."""

    tenant: str
    adapter: str | None
    rule: str
    policy: str


@dataclass(frozen=True, slots=True)
class Denial:
    """The request goes nowhere. `reason` is `unknown` or `denied` (it exists, but is not granted); clients see no difference."""

    tenant: str
    model: str | None
    reason: str
    policy: str


@dataclass(frozen=True, slots=True)
class Policy:
    """The routing part of one catalog version, ready to be asked."""

    catalog: Catalog
    version: str
    tenants: Mapping[str, Tenant]
    matchers: Mapping[str, Matcher]

    @classmethod
    def of(cls, catalog: Catalog) -> Policy:
        """The policy that `catalog` declares; its version is the catalog's content hash."""
        matchers = {r.id: Matcher(r.pattern) for r in catalog.routing if isinstance(r, ContentRule)}
        return cls(catalog, version(catalog), {t.id: t for t in catalog.tenants}, matchers)


def observe(policy: Policy, tenant: str, model: str | None, sticky_key: str, text: str) -> RouteInput:
    """Describe a request for `decide`: patterns are matched here, so that the prompt itself is not kept.

    Only rules that could decide for this tenant are tried, on the first `TEXT_LIMIT` characters. The time is linear in them,
    and may still be milliseconds: with a long text, call it from a thread.
    """
    granted = policy.tenants[tenant].adapters
    tried = [rule.id for rule in policy.catalog.routing if isinstance(rule, ContentRule) and rule.adapter in granted]
    head = text[:TEXT_LIMIT].encode("utf-8", "replace") if tried else b""
    matched = tuple(rule for rule in tried if policy.matchers[rule].found_in(head))
    digest = hashlib.sha256(sticky_key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return RouteInput(tenant=tenant, model=model[:128] if model is not None else None, sticky=digest, matched=matched)


def decide(policy: Policy, what: RouteInput) -> Decision | Denial:
    """The first rule that yields an adapter granted to the tenant (or the base model) wins; same inputs, same answer.

    A rule whose target is not granted is passed over; experiments and tenant hashes choose among what is granted.
    """
    tenant, base = policy.tenants[what.tenant], policy.catalog.base_model.name
    named = what.model if what.model not in (None, "", AUTO) else None
    if named is not None and named != base and named not in tenant.adapters:
        exists = policy.catalog.adapter(named) is not None
        return Denial(what.tenant, named, DENIED if exists else UNKNOWN, policy.version)
    for rule in policy.catalog.routing:
        match rule:
            case ExplicitRule():
                if named is None:
                    continue
                adapter = None if named == base else named
            case BaseRule():
                adapter = None
            case _:
                adapter = _target(rule, tenant, what)
                if adapter is None or adapter not in tenant.adapters:
                    continue
        return Decision(what.tenant, adapter, rule.id, policy.version)
    return Denial(what.tenant, named, UNKNOWN, policy.version)


def _target(rule: Rule, tenant: Tenant, what: RouteInput) -> str | None:
    match rule:
        case ContentRule():
            return rule.adapter if rule.id in what.matched else None
        case ExperimentRule():
            granted = {name: weight for name, weight in rule.variants.items() if name in tenant.adapters}
            if tenant.id not in rule.tenants or not granted:
                return None
            return _weighted(granted, _number(rule.id, what.sticky))
        case TenantDefaultRule():
            return tenant.default_adapter
        case TenantHashRule():
            choices = [name for name in rule.adapters if name in tenant.adapters]
            return choices[_number(rule.id, tenant.id) % len(choices)] if choices else None
    return None


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8], "big")


def _weighted(weights: Mapping[str, int], number: int) -> str:
    point = number % sum(weights.values())
    for name, weight in sorted(weights.items()):
        if point < weight:
            return name
        point -= weight
    raise AssertionError("a point below the sum of the weights lies in one of them")


def replays(line: RouteRecord, policy: Policy) -> bool:
    """Whether `policy` gives this very answer again; False when the tenant is gone from it."""
    if line.asked.tenant not in policy.tenants:
        return False
    again = decide(policy, line.asked)
    if isinstance(again, Denial):
        return line.rule is None and line.reason == again.reason
    return (line.adapter, line.rule) == (again.adapter, again.rule)

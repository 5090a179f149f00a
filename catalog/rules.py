"""The routing rules: asked in the catalog's order, the first that yields an adapter decides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from catalog.fields import Name, Pattern, Value, refuse_bool


class ExplicitRule(Value):
    """The request's own `model` field names an adapter (or the base model)."""

    id: Name
    kind: Literal["explicit"]


class ExperimentRule(Value):
    """Sticky split of a tenant's requests: hash of (experiment, sticky key) chooses a variant by integer weight."""

    id: Name
    kind: Literal["experiment"]
    tenants: Annotated[tuple[Name, ...], Field(min_length=1)]
    variants: Annotated[dict[Name, Annotated[int, Field(ge=1, le=1_000_000), refuse_bool]], Field(min_length=1)]


class ContentRule(Value):
    """The prompt matches `pattern` (RE2 syntax: no backreferences, no lookaround): goes to `adapter`."""

    id: Name
    kind: Literal["content"]
    pattern: Pattern
    adapter: Name


class TenantDefaultRule(Value):
    """The tenant's `default_adapter`."""

    id: Name
    kind: Literal["tenant_default"]


class TenantHashRule(Value):
    """Hash of the tenant id chooses among `adapters`."""

    id: Name
    kind: Literal["tenant_hash"]
    adapters: Annotated[tuple[Name, ...], Field(min_length=1)]


class BaseRule(Value):
    """The base model, without an adapter."""

    id: Name
    kind: Literal["base"]


Rule = Annotated[
    ExplicitRule | ExperimentRule | ContentRule | TenantDefaultRule | TenantHashRule | BaseRule,
    Field(discriminator="kind"),
]

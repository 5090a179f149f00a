"""Who is calling: API keys to tenants, and the tenant's secret salt for the prefix cache. Keys exist here only as hashes."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from catalog.model import Catalog, Tenant


def key_hash(key: str) -> str:
    """The form in which a catalog lists a key: `sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def key_of(headers: Mapping[str, str]) -> str:
    """The key of an `Authorization: Bearer KEY`, empty when it holds none; Anthropic's clients send it bare, as `X-Api-Key`."""
    given = headers.get("authorization")
    if given is None:
        return headers.get("x-api-key", "").strip()
    scheme, _, key = given.strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def keyring(catalog: Catalog) -> Mapping[str, Tenant]:
    """Who has each key of a catalog, by its hash. A lookup by hash tells nothing about a key by the time it takes."""
    return {h: tenant for tenant in catalog.tenants for h in tenant.key_hashes}


def caller(keys: Mapping[str, Tenant], headers: Mapping[str, str]) -> Tenant | None:
    """Whose key a request holds; None when there is no key or nobody has it."""
    key = key_of(headers)
    return keys.get(key_hash(key)) if key else None


def cache_salt(secret: bytes, tenant: Tenant) -> str:
    """The prefix-cache salt: equal for one tenant, or for the tenants of one sharing group; 128 bits nobody can guess.

    Tenants and groups are separate name spaces, so a tenant cannot meet a group by taking its name; nor do two
    organisations meet in groups of one name.
    """
    shares = tenant.kv_sharing_group is not None and tenant.org is not None
    whom = f"group/{tenant.org}/{tenant.kv_sharing_group}" if shares else f"tenant/{tenant.id}"
    return hmac.new(secret, whom.encode(), hashlib.sha256).hexdigest()[:32]

"""Keys to tenants, and salts that no other tenant shares."""

from __future__ import annotations

import pytest

from catalog.model import Catalog
from serving.policy.credentials import cache_salt, caller, key_hash, keyring


@pytest.mark.parametrize(
    ("header", "tenant"),
    [
        ("Bearer demo-key-clinic", "clinic"),
        ("bearer   demo-key-bank ", "bank"),
        ("Bearer demo-key-nobody", None),
        ("Bearer demo-key-clinic extra", None),
        ("Basic demo-key-clinic", None),
        ("demo-key-clinic", None),
        ("Bearer ", None),
        ("Bearer \udcff", None),
        ("", None),
        (None, None),
    ],
)
def test_a_header_names_a_tenant_or_nobody(example: Catalog, header: str | None, tenant: str | None) -> None:
    found = caller(keyring(example), {} if header is None else {"authorization": header})
    assert (found.id if found else None) == tenant


def test_a_hash_is_not_a_key(example: Catalog) -> None:
    (listed,) = example.tenants[0].key_hashes
    assert listed == key_hash("demo-key-clinic")
    assert caller(keyring(example), {"authorization": f"Bearer {listed}"}) is None


def test_salts_differ_by_tenant_and_secret_and_are_shared_inside_a_group_only(example: Catalog) -> None:
    one, two = example.tenants[:2]
    salts = {cache_salt(b"a", tenant) for tenant in example.tenants} | {cache_salt(b"b", one)}
    assert len(salts) == len(example.tenants) + 1
    assert {len(salt) for salt in salts} == {32}
    group = {"kv_sharing_group": "bank", "org": "health"}
    grouped = [tenant.model_copy(update=group) for tenant in (one, example.tenants[2])]
    assert len({cache_salt(b"a", tenant) for tenant in grouped}) == 1
    # A group cannot be joined by a tenant who is merely called like it.
    assert cache_salt(b"a", grouped[0]) != cache_salt(b"a", two)
    # Nor does another organisation meet the group, were it ever let into it, or who belongs to none.
    for org in ("finance", None):
        assert cache_salt(b"a", grouped[1].model_copy(update={"org": org})) != cache_salt(b"a", grouped[0])

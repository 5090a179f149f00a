"""Whatever tells owners of engine time apart knows all of them."""

from __future__ import annotations

from dataclasses import fields

from billing.cost.facts import EngineMinute
from billing.documents.wording import OWNERS
from billing.invoice.invoice import Reconciliation
from catalog.owners import BUSY, MEASURED, NO_TENANTS, TimeOwner
from loraledger.page.charts import OWNER_COLOUR


def test_minutes_invoices_documents_and_charts_have_every_owner() -> None:
    minute = EngineMinute(
        "e", 0, 63, **{f"{owner}_ns": 1 << i for i, owner in enumerate(TimeOwner)}, gpu_type="g", gpu_count=1
    )
    names = {field.name for field in fields(EngineMinute) if field.name.endswith("_ns")}
    assert names == {"start_ns", "wall_ns", *(f"{owner}_ns" for owner in TimeOwner)}
    assert minute.busy_ns == sum(getattr(minute, f"{owner}_ns") for owner in BUSY)
    assert sum(getattr(minute, f"{owner}_ns") for owner in MEASURED) == minute.wall_ns
    others = [owner.value for owner in TimeOwner if owner is not TimeOwner.TENANTS]
    assert [field.name for field in fields(Reconciliation)] == ["this_tenant", "other_tenants", *others, "rented"]
    assert list(OWNERS) == ["this_tenant", "other_tenants", *others]
    assert OWNER_COLOUR.keys() == set(TimeOwner)
    assert (TimeOwner.TENANTS, TimeOwner.COLD, *NO_TENANTS) == tuple(TimeOwner)

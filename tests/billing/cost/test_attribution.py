"""Engine time becomes tenants' cost: conserved to the nanosecond and the 18th decimal, nothing clamped or lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.cost.attribution import EngineHourCost, IdleTime, price_engine_hour, share_cold, share_idle
from billing.cost.facts import COLD, PROVIDER, ColdLoad, EngineMinute, NotConserved, TenantQuarter
from billing.errors import EngineHourInvalid
from billing.exact.money import product, total
from catalog.durations import HOUR_NS, MINUTE_NS, QUARTER_NS
from catalog.owners import NO_TENANTS, TimeOwner

D = Decimal
T0 = 1_790_812_800_000_000_000  # 2026-10-01T00:00Z


def minute(index: int = 0, gpu_count: int = 2, **ns: int) -> EngineMinute:
    parts = {"tenants_ns": 0, "cold_ns": 0, "recompute_ns": 0, "system_ns": 0, "unattributed_ns": 0, "idle_ns": 0} | ns
    down_ns = parts.pop("down_ns", 0)
    return EngineMinute(
        engine="e0",
        start_ns=T0 + index * MINUTE_NS,
        wall_ns=sum(parts.values()),
        down_ns=down_ns,
        gpu_type="h200",
        gpu_count=gpu_count,
        **parts,
    )


def quarter(tenant: str, index: int = 0, **values: int | str) -> TenantQuarter:
    fields = {"adapter": "base", "engine": "e0", "status": "ok"} | values
    return TenantQuarter(tenant=tenant, start_ns=T0 + index * QUARTER_NS, **fields)  # type: ignore[arg-type]


def assert_conserved(hour: EngineHourCost) -> None:
    quantities = [row.gpu_hours for row in hour.tenants] + [owner.gpu_hours for owner in hour.owners]
    assert total(quantities) == hour.gpu_hours
    assert total([*(r.cost for r in hour.tenants), *(o.cost for o in hour.owners)]) == hour.cost
    assert hour.cost == product(hour.price, hour.gpu_hours)
    for row in hour.tenants:
        formula = [row.t_b_gpu_hours, row.t_a_gpu_hours, row.t_kv_gpu_hours.copy_negate(), row.t_cold_gpu_hours]
        assert total(formula) == row.gpu_hours


NS = st.integers(0, 15 * MINUTE_NS // 8)


@given(
    st.lists(st.tuples(NS, NS, NS, NS, NS), min_size=1, max_size=12),
    st.tuples(*[NS] * 5),
    st.integers(1, 16),
    st.decimals("0.000001", 10**6, places=6),
)
def test_every_rented_nanosecond_is_priced_once(
    rows: list[tuple[int, ...]], owners: tuple[int, ...], gpus: int, price: Decimal
) -> None:
    quarters = [
        quarter(f"t{i}", i % 4, base_ns=b, adapter_ns=a, cold_ns=c, kv_saved_base_ns=kb, kv_saved_adapter_ns=ka)
        for i, (b, a, c, kb, ka) in enumerate(rows)
    ]
    minutes = [
        minute(
            15 * q,
            gpus,
            tenants_ns=sum(r.base_ns + r.adapter_ns for r in quarters if r.start_ns == T0 + q * QUARTER_NS),
            cold_ns=sum(r.cold_ns for r in quarters if r.start_ns == T0 + q * QUARTER_NS),
        )
        for q in range(4)
    ]
    minutes.append(minute(7, gpus, **{f"{owner}_ns": ns for owner, ns in zip(NO_TENANTS, owners, strict=True)}))
    assert_conserved(price_engine_hour(minutes, quarters, price))


def test_one_hour_of_two_gpus_by_hand() -> None:
    third = HOUR_NS // 3
    minutes = [
        minute(tenants_ns=third, cold_ns=third // 2, system_ns=third // 2, idle_ns=third // 2, down_ns=third // 2)
    ]
    rows = [quarter("a", base_ns=third // 2, adapter_ns=third // 2), quarter("b", status=COLD, cold_ns=third // 2)]
    hour = price_engine_hour(minutes, rows, D("3.60"))
    assert_conserved(hour)
    assert hour.gpu_hours == D(2)
    assert hour.cost == D("7.20")
    assert [row.cost for row in hour.tenants] == [D("2.4000000000048"), D("1.1999999999988")]
    assert {o.owner: o.cost for o in hour.owners} == {
        "recompute": 0,
        "system": D("1.1999999999988"),
        "idle": D("1.1999999999988"),
        "unattributed": 0,
        "down": D("1.1999999999988"),
    }


def test_an_hour_without_requests_is_wholly_idle() -> None:
    hour = price_engine_hour([minute(i, idle_ns=MINUTE_NS) for i in range(60)], [], D("10"))
    assert hour.owner(TimeOwner.IDLE).cost == hour.cost == D(20)


@pytest.mark.parametrize(
    ("minutes", "rows", "missing_ns"),
    [
        pytest.param([minute(tenants_ns=5)], [quarter("a", base_ns=4)], 1, id="a tenant's nanosecond is missing"),
        pytest.param([minute()], [quarter("a", base_ns=5)], -5, id="more allocated than measured"),
        pytest.param([minute(cold_ns=7)], [], 7, id="cold time nobody carries"),
        pytest.param(
            [minute(tenants_ns=5), minute(15, tenants_ns=5)],
            [quarter("a", 0, base_ns=4), quarter("a", 1, base_ns=6)],
            1,
            id="right in the hour, wrong in the quarter",
        ),
        pytest.param([replace(minute(idle_ns=9), wall_ns=10)], [], 1, id="a minute's own parts"),
    ],
)
def test_what_is_not_conserved_is_an_error_that_says_by_how_much(
    minutes: list[EngineMinute], rows: list[TenantQuarter], missing_ns: int
) -> None:
    with pytest.raises(NotConserved) as caught:
        price_engine_hour(minutes, rows, D(1))
    assert caught.value.missing_ns == missing_ns


@pytest.mark.parametrize(
    ("minutes", "rows", "says"),
    [
        ([], [quarter("a")], "no engine minutes"),
        ([minute(), minute(60)], [], "is not of that hour"),
        ([minute(), replace(minute(1), engine="e1")], [], "of e1"),
        ([minute(), minute(1, gpu_count=3)], [], "3 x h200"),
        ([minute(), minute()], [], "is there twice"),
        ([minute()], [quarter("a", 4)], "not at a quarter of that hour"),
        ([minute()], [quarter("a", engine="e1")], "on e1"),
    ],
)
def test_facts_of_another_engine_or_hour_are_refused(
    minutes: list[EngineMinute], rows: list[TenantQuarter], says: str
) -> None:
    with pytest.raises(EngineHourInvalid, match=says):
        price_engine_hour(minutes, rows, D(1))


@given(
    st.lists(
        st.builds(
            ColdLoad,
            st.sampled_from("ef"),
            st.sampled_from("xyz"),
            st.integers(0, 8).map(lambda q: T0 + q * QUARTER_NS),
            st.integers(0, 10**12),
        )
    ),
    st.dictionaries(st.tuples(st.sampled_from("xy"), st.sampled_from("abc")), st.integers(0, 100)),
)
def test_shared_cold_time_sums_to_the_loads(loads: list[ColdLoad], requests: dict[tuple[str, str], int]) -> None:
    rows = share_cold(loads, requests)
    given_ns: Counter[tuple[str, str, int]] = Counter()
    for load in loads:
        given_ns[load.engine, load.adapter, load.start_ns] += load.cold_ns
    shared_ns: Counter[tuple[str, str, int]] = Counter()
    for row in rows:
        shared_ns[row.engine, row.adapter, row.start_ns] += row.cold_ns
        assert row.status == COLD
        assert row.tenant == PROVIDER or requests[row.adapter, row.tenant] > 0
    assert shared_ns == Counter({key: ns for key, ns in given_ns.items() if ns})
    assert len({(r.tenant, r.adapter, r.engine, r.start_ns) for r in rows}) == len(rows)


def test_cold_time_follows_requests_and_a_load_without_one_is_the_providers() -> None:
    loads = [ColdLoad("e0", "x", T0, 10), ColdLoad("e0", "unused", T0, 7)]
    requests = {("x", "b"): 1, ("x", "a"): 2, ("x", "c"): 0, ("y", "c"): 9}
    assert [(r.tenant, r.adapter, r.cold_ns) for r in share_cold(loads, requests)] == [
        (PROVIDER, "unused", 7),
        ("a", "x", 7),
        ("b", "x", 3),
    ]


IDLE = [IdleTime("h200", D("3.5"), D("100.000000000001")), IdleTime("cpu", D("1"), D("10"))]


def test_idle_is_the_providers_unless_the_book_says_otherwise() -> None:
    assert share_idle(IDLE, {"a": 1, "b": 2}, "provider") == {PROVIDER: tuple(IDLE)}
    assert share_idle(IDLE, {"a": 0}, "usage") == {PROVIDER: tuple(IDLE)}
    assert share_idle(IDLE, {}, "residency") == {PROVIDER: tuple(IDLE)}


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**15)).filter(lambda w: any(w.values())))
def test_shared_idle_sums_exactly_and_follows_weights(weights: dict[str, int]) -> None:
    shares = share_idle(IDLE, weights, "usage")
    assert set(shares) == {tenant for tenant, weight in weights.items() if weight}
    for index, pool in enumerate(IDLE):
        assert total(parts[index].gpu_hours for parts in shares.values()) == pool.gpu_hours
    assert total(part.cost for parts in shares.values() for part in parts) == total(pool.cost for pool in IDLE)

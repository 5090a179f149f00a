from __future__ import annotations

import pytest
from msgspec.structs import replace

from billing.cost.attempts import LOST_AFTER_NS, SILENT_NS, Life, faults, gaps, is_lost, lost_record
from catalog.durations import QUARTER_NS
from catalog.model import Catalog
from telemetry.engine_time import Opened
from telemetry.usage import UNAUTHENTICATED, Slice, Status, UsageRecord

AT = 1_790_000_000_000_000_000
OK = UsageRecord(
    "gw-1", 0, "r", "clinic", AT, AT + 5, Status.OK, adapter="icd10-coder", gpu_type="demo-cpu",
    slices=(Slice(AT - AT % QUARTER_NS, 1, 1, 0),),
)  # fmt: skip
OPENED = Opened("gw-1", 7, "r", "bank", AT, "t" * 32, "ledger-lingo", "cpu-0")


def run(start: int, end: int, over: bool, engine: str = "cpu-0") -> Life:
    return Life(engine, AT + start, AT + end, over, "demo-cpu", 1)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        pytest.param(OK, None, id="a sound record has no fault"),
        pytest.param(replace(OK, tenant=UNAUTHENTICATED), None, id="nobody may be a tenant"),
        pytest.param(replace(OK, tenant="ghost"), "tenant 'ghost' is not in the catalog", id="an unknown tenant"),
        pytest.param(
            replace(OK, adapter="x"), "adapter 'x' is not in the catalog", id="an adapter that ran and is unknown"
        ),
        pytest.param(replace(OK, adapter="x", slices=()), None, id="an unknown adapter that never ran"),
        pytest.param(replace(OK, gpu_type="h9"), "GPU type 'h9' has no price", id="a GPU type without a price"),
        pytest.param(replace(OK, arrival_ns=0, finished_ns=1), "has no price", id="a time before the first price"),
        pytest.param(
            replace(OK, input_tokens=1, cached_tokens=2), "cached_tokens 2 > input_tokens 1", id="a contradiction"
        ),
    ],
)
def test_a_record_is_booked_only_when_it_is_sound_and_everything_in_it_is_known(
    record: UsageRecord, reason: str | None, example: Catalog
) -> None:
    found = faults(record, example)
    assert [reason in fault for fault in found] == ([] if reason is None else [True])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("lives", "age", "lost"),
    [
        pytest.param([], 1, False, id="young, engine never heard of"),
        pytest.param([], LOST_AFTER_NS, True, id="older than any request may run"),
        pytest.param([run(-5, 9, False)], 9, False, id="its engine lives"),
        pytest.param([run(-5, 9, True)], 9, True, id="its engine's run is over"),
        pytest.param([run(-9, -5, True), run(-1, 9, False)], 9, False, id="an earlier run is over, its own is not"),
        pytest.param([run(-5, 9, False)], 9 + SILENT_NS, True, id="its engine gave no sign of life for too long"),
        pytest.param([run(5, 9, False)], 9, False, id="runs that began later say nothing"),
        pytest.param([run(-5, 9, True, "gpu-1")], 9, False, id="another engine's run says nothing"),
    ],
)
def test_an_attempt_is_lost_when_it_can_no_longer_close(lives: list[Life], age: int, lost: bool) -> None:
    assert is_lost(OPENED, lives, AT + age) is lost


def test_a_lost_record_knows_who_and_when_and_claims_nothing_else(example: Catalog) -> None:
    record = lost_record(OPENED)
    assert (record.identity, record.tenant, record.status, record.source) == (
        ("gw-1", 7),
        "bank",
        Status.LOST,
        "ledger",
    )
    assert {record.slices, record.finished_ns, record.input_tokens, record.output_tokens_delivered} == {None}
    assert faults(record, example) == []


def test_gaps_are_the_numbers_below_the_highest_that_nobody_has_seen() -> None:
    assert gaps({"gw-1": (4, 5), "gw-2": (9, 7)}) == {"gw-2": 3}

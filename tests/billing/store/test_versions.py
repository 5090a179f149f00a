from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from billing.store.clickhouse import Ledger
from billing.store.versions import apply, change

ROWS = st.dictionaries(st.integers(0, 5), st.integers(0, 3)).map(lambda d: [{"k": k, "v": v} for k, v in d.items()])


@given(ROWS, ROWS)
def test_a_change_turns_the_old_rows_into_the_new_ones_and_touches_no_other(
    old: list[dict[str, Any]], new: list[dict[str, Any]]
) -> None:
    changed = change(old, new, ["k"])
    table = {row["k"]: row for row in old}
    table |= {row["k"]: row for row in changed.write}
    for row in changed.delete:
        del table[row["k"]]
    assert sorted(table) == sorted(row["k"] for row in new)
    assert all(table[row["k"]] == row for row in new)
    assert change(new, new, ["k"]).count == 0


def test_a_row_that_is_gone_is_not_read_any_more_and_can_come_back(ledger: Ledger) -> None:
    ledger.execute(
        "CREATE TABLE kv (k Int64, v Int64, version UInt64, deleted UInt8) ENGINE = ReplacingMergeTree(version, deleted) ORDER BY k",
        "test table",
    )
    states = [[{"k": 1, "v": 1}, {"k": 2, "v": 1}], [{"k": 1, "v": 1}], [{"k": 1, "v": 2}, {"k": 2, "v": 1}], []]
    before: list[dict[str, int]] = []
    for version, after in enumerate(states, 1):
        written = apply(ledger, "kv", change(before, after, ["k"]), version)
        assert ledger.ask("SELECT k, v FROM kv FINAL ORDER BY k").dicts() == after
        assert written == (2, 1, 2, 2)[version - 1]
        before = after

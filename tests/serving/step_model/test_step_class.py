"""Steps that run the same kernels are of one class."""

from __future__ import annotations

import pytest

from serving.step_model.profile import RowWork
from serving.step_model.step_class import STEP_CLASSES, step_class

PREFILL, DECODE = RowWork(10, 0, 0), RowWork(0, 1, 9)
LAW, MED = RowWork(0, 1, 9, "law"), RowWork(10, 0, 0, "med")


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([PREFILL], "prefill-none"),
        ([DECODE, DECODE], "decode-none"),
        ([PREFILL, DECODE], "mixed-none"),
        ([RowWork(5, 1, 0)], "mixed-none"),
        ([LAW, LAW], "decode-alone"),
        ([LAW, DECODE], "decode-beside-base"),
        ([MED, PREFILL], "prefill-beside-base"),
        ([MED, LAW], "mixed-several"),
        ([MED, LAW, DECODE], "mixed-several"),
    ],
)
def test_the_class_is_what_was_computed_and_for_whom(rows: list[RowWork], name: str) -> None:
    assert step_class(rows) == name
    assert name in STEP_CLASSES

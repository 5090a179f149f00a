"""Rows of a mixed batch: each gets its own adapter, and a row without one gets none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
punica_cpu = pytest.importorskip("vllm.lora.punica_wrapper.punica_cpu")

from vllm.lora.ops import torch_ops  # noqa: E402

from serving.inside import cpu_lora  # noqa: E402

IN, RANK, OUT, SLOTS = 16, 4, 24, 3


def mixed_batch() -> SimpleNamespace:
    noise = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, generator=noise)

    return SimpleNamespace(
        inputs=drawn(6, IN),
        lora_a=drawn(SLOTS, 1, RANK, IN),
        lora_b=drawn(SLOTS, 1, OUT, RANK),
        base=drawn(6, OUT),
        indices=torch.tensor([-1, 0, 2, -1, 0, 1]),
    )


def through(operations: Any, batch: SimpleNamespace) -> Any:
    """The base output plus what the adapters add, by the given shrink and expand."""
    low, out = torch.zeros(6, RANK), batch.base.clone()
    operations.bgmv_shrink(batch.inputs, batch.lora_a, low, batch.indices, 2.0)
    operations.bgmv_expand(low, batch.lora_b, out, batch.indices, True)
    return out


def test_stock_operations_give_base_rows_the_last_slots_adapter() -> None:
    """The fault itself, so that the day it is mended upstream is noticed."""
    batch = mixed_batch()
    out = through(torch_ops, batch)
    wrong = batch.base[0] + 2.0 * (batch.inputs[0] @ batch.lora_a[-1, 0].t()) @ batch.lora_b[-1, 0].t()
    torch.testing.assert_close(out[0], wrong)


def test_base_rows_are_untouched_and_adapter_rows_agree_with_the_formula() -> None:
    batch = mixed_batch()
    out = through(cpu_lora, batch)
    for row, slot in enumerate(batch.indices.tolist()):
        gain = 0 if slot < 0 else 2.0 * (batch.inputs[row] @ batch.lora_a[slot, 0].t()) @ batch.lora_b[slot, 0].t()
        torch.testing.assert_close(out[row], batch.base[row] + gain)
    assert torch.equal(out[0], batch.base[0])


def test_a_batch_of_base_rows_only_changes_nothing() -> None:
    batch = mixed_batch()
    batch.indices = torch.full((6,), -1)
    assert torch.equal(through(cpu_lora, batch), batch.base)


def test_slices_and_sequences_agree_with_the_stock_operations_where_those_are_right() -> None:
    batch = mixed_batch()
    lengths, slots = torch.tensor([2, 3, 1]), torch.tensor([1, 0, 2])
    results = []
    for operations in (torch_ops, cpu_lora):
        low, out = torch.ones(6, RANK), batch.base.clone()
        around = (torch.tensor([0, 2, 5]), lengths, slots, 3, 3, 6)
        operations.sgmv_shrink(batch.inputs, batch.lora_a, low, *around, 0.5)
        operations.sgmv_expand_slice(low, batch.lora_b[:, :, :8], out, *around, 8, 8, True)
        operations.sgmv_expand(low, batch.lora_b, out, *around, False)
        results.append(out)
    torch.testing.assert_close(results[0], results[1])


def test_install_reaches_the_wrapper_that_the_engine_calls() -> None:
    cpu_lora.install()
    assert punica_cpu.bgmv_shrink is cpu_lora.bgmv_shrink
    assert punica_cpu.sgmv_expand_slice is cpu_lora.sgmv_expand_slice

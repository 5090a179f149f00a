"""Mends LoRA on vLLM's CPU build: a row without an adapter keeps the base model's output.

The stock operations gather `weights[index]` per row, and the index of a row without an adapter is -1: in a mixed batch it
silently gets the adapter of the last slot, possibly another tenant's. These replacements skip such rows and multiply once per
distinct adapter instead of once per row, which is also several times faster. The GPU operations are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch import Tensor

OPERATIONS: Final = [f"{by}_{does}" for by in ("bgmv", "sgmv") for does in ("shrink", "expand", "expand_slice")]
"""What is replaced, each by what has its name here."""


def install() -> None:
    """Replace the operations in this process; a second call changes nothing."""
    import vllm.lora.punica_wrapper.punica_cpu as punica

    for name in OPERATIONS:
        if not hasattr(punica, name):
            raise ImportError(f"could not mend CPU LoRA: this vLLM has no {name} in {punica.__name__}")
        setattr(punica, name, globals()[name])


def bgmv_shrink(inputs: Tensor, lora_a: Tensor, output: Tensor, indices: Tensor, scaling: float) -> None:
    """Rows of `output` become `scaling * inputs @ A.T` of their own adapter, or zero without one."""
    weights = _flat(lora_a)
    rank = weights.shape[1]
    output[:, :rank] = 0
    for index, rows in _groups(indices):
        output[rows, :rank] = scaling * (inputs[rows].to(output.dtype) @ weights[index].to(output.dtype).t())


def bgmv_expand(inputs: Tensor, lora_b: Tensor, output: Tensor, indices: Tensor, add_inputs: bool) -> None:
    """Rows of `output` gain (or become) `inputs @ B.T` of their own adapter; rows without one stay as they are."""
    bgmv_expand_slice(inputs, lora_b, output, indices, 0, output.shape[1], add_inputs)


def bgmv_expand_slice(
    inputs: Tensor, lora_b: Tensor, output: Tensor, indices: Tensor, offset: int, size: int, add_inputs: bool
) -> None:
    """As `bgmv_expand`, on the columns [offset, offset + size) only; adapter and model may be padded differently."""
    weights = _flat(lora_b)
    width, rank = min(size, weights.shape[1]), weights.shape[2]
    columns = slice(offset, offset + width)
    for index, rows in _groups(indices):
        gained = inputs[rows][:, :rank].to(output.dtype) @ weights[index][:width].to(output.dtype).t()
        if add_inputs:
            output[rows, columns] += gained
        else:
            output[rows, columns] = gained


def _by_sequence(operation: Callable[..., None]) -> Callable[..., None]:
    """As `operation`, with one index per sequence instead of per row. vLLM gives every argument, by its place."""

    def by_sequence(
        inputs: Tensor, weights: Tensor, output: Tensor, starts: Tensor, lengths: Tensor, indices: Tensor, *more: Any
    ) -> None:
        _batches, _longest, _tokens, *options = more
        operation(inputs, weights, output, indices.repeat_interleave(lengths), *options)

    return by_sequence


sgmv_shrink = _by_sequence(bgmv_shrink)
sgmv_expand = _by_sequence(bgmv_expand)
sgmv_expand_slice = _by_sequence(bgmv_expand_slice)


def _flat(weights: Tensor) -> Tensor:
    return weights.squeeze(1) if weights.dim() == 4 else weights


def _groups(indices: Tensor) -> Iterator[tuple[int, Any]]:
    """(adapter slot, its rows) for every adapter among the rows; rows without one belong to no group."""
    found = indices.unique().tolist()  # type: ignore[no-untyped-call]
    for index in found:
        if index >= 0:
            yield index, slice(None) if len(found) == 1 else (indices == index).nonzero(as_tuple=True)[0]

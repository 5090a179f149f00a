"""The base model, the engines that serve it, and the adapters on it."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from catalog import engine_flags
from catalog.fields import Bytes, Instant, Location, Name, Value, must, refuse_bool

BUILTIN: Final = "builtin:"
BUILTIN_KV_BYTES: Final = {"builtin:tiny": 4096, "builtin:mid": 8192}
"""The built-in base models, and the bytes of KV cache that one token takes on each."""
BUILTIN_ADAPTERS: Final = frozenset(f"builtin:adapter/{n}" for n in range(8))


def _builtin(known: Collection[str], fault: str) -> Any:
    return must(lambda path: not path.startswith(BUILTIN) or path in known, fault)


def _as_json(value: Any) -> Any:
    """A value as vLLM reads it, in JSON: a catalog's decimals are exact, vLLM's numbers are floats."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _as_json(inner) for name, inner in value.items()}
    return [_as_json(inner) for inner in value] if isinstance(value, list) else value


TURN_MS: Final = 500
"""Published as a curve in docs/turns.md: shorter turns wait less and empty the batch more often."""
_POWER_OF_TWO: Final = must(lambda value: not value & (value - 1), "must be a power of two")
Flag = Annotated[str, AfterValidator(engine_flags.canonical)]


class BaseModelSpec(Value):
    """The one base model. `builtin:tiny` is made locally on first use; else a directory or a hub name."""

    name: Name
    path: Annotated[
        Location,
        _builtin(BUILTIN_KV_BYTES, f"must be one of {', '.join(BUILTIN_KV_BYTES)}, a directory or a hub name"),
    ] = "builtin:tiny"


class Rental(Value):
    """One interval [start, until) in which an engine's GPUs are paid for."""

    start: Instant
    until: Instant | None = None


class Engine(Value):
    """One vLLM engine and the GPUs it rents.

    `rented: on_demand` means each process run is rented from its start to its end; else the listed intervals are.
    `memory_bytes` is the engine's budget (weights, slots, KV), the denominator of utilisation. `profile` is the step profile
    that `loraledger calibrate` wrote for this engine; without one, that of the built-in tiny model is used. `vllm` holds further
    flags of vLLM's own by name (`catalog.engine_flags` says which); `max_grammar_chars` bounds a request's grammar or schema.
    `turns` says whose request the engine's queue takes next: `fair` by what each flow had (`serving.policy.turns`), or `fcfs`;
    an adapter keeps its device slot for `turn_ms` while others, further behind, wait for one.
    """

    id: Name
    gpu_type: Name
    gpu_count: Annotated[int, Field(ge=1, le=1_024), refuse_bool] = 1
    rented: Literal["on_demand"] | Annotated[tuple[Rental, ...], Field(min_length=1)] = "on_demand"
    max_loras: Annotated[int, Field(ge=1, le=1_024), refuse_bool] = 2
    max_cpu_loras: Annotated[int, Field(ge=1, le=100_000), refuse_bool] = 8
    max_lora_rank: Literal[8, 16, 32, 64, 128, 256, 320, 512] = 64
    max_model_len: Annotated[int, Field(ge=64, le=16 << 20), refuse_bool] = 1024
    max_num_seqs: Annotated[int, Field(ge=1, le=65_536), refuse_bool] = 32
    max_num_batched_tokens: Annotated[int, Field(ge=64, le=16 << 20), refuse_bool] = 1024
    block_size: Annotated[int, Field(ge=8, le=1_024), refuse_bool, _POWER_OF_TWO] = 32
    kv_cache_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 50), refuse_bool] = 256 << 20
    memory_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 50), refuse_bool] = 300 << 20
    profile: Location | None = None
    turns: Literal["fair", "fcfs"] = "fcfs"
    turn_ms: Annotated[int, Field(ge=10, le=600_000), refuse_bool] = TURN_MS
    max_grammar_chars: Annotated[int, Field(ge=256, le=1 << 20), refuse_bool] = 65_536
    vllm: dict[Flag, engine_flags.FlagValue] = Field(default_factory=dict)

    @field_validator("vllm", mode="before")
    @classmethod
    def _flags_are_named_once(cls, given: Any) -> Any:
        given = _as_json(given)
        names = [str(name).removeprefix("--").replace("_", "-") for name in given] if isinstance(given, dict) else []
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} is given twice")
        return given

    @model_validator(mode="after")
    def _flags_may_be_set(self) -> Engine:
        given = "kv_cache_bytes" in self.model_fields_set
        if found := list(engine_flags.problems(self.vllm, self.gpu_count, given)):
            raise ValueError("vllm: " + "; ".join(found))
        return self


class Adapter(Value):
    """One LoRA adapter. `builtin:adapter/N` (N = 0..7) is made locally on first use; else a directory in PEFT format.

    `warm` asks for it to be loaded ahead and counted as warm pool.
    """

    name: Name
    path: Annotated[
        Location, _builtin(BUILTIN_ADAPTERS, "must be builtin:adapter/0 to builtin:adapter/7, or a directory")
    ]
    rank: Annotated[int, Field(ge=1, le=512), refuse_bool]
    owner: Name | None = None
    memory_budget_bytes: Bytes = 0
    warm: bool = False

"""The engine as the gateway needs it. Knows nothing of vLLM: importing this costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from catalog.owners import TimeOwner
from serving.metering.windows import StepTime
from telemetry.engine_time import LoadCause

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from serving.metering.accounting import Measured


@dataclass(frozen=True, slots=True)
class AdapterFiles:
    """One version of one adapter on disk, in a directory that never changes.

    `hash` is the SHA-256 (hex) of its two files, so a changed adapter is another version with another served name.
    `size_bytes` is the weights file.
    """

    name: str
    path: Path
    hash: str
    rank: int
    size_bytes: int

    @property
    def served_name(self) -> str:
        """What the engine knows this version as: `<name>@<first 8 hex of the hash>`; never shown to a tenant."""
        return f"{self.name}@{self.hash[:8]}"


@dataclass(frozen=True, slots=True)
class LoadTiming:
    """How long one load took, in nanoseconds; zeros when the adapter was resident already (`engine_ns == 0`).

    `engine_ns` is what the engine's thread lost. `activate_ns` is None when no activation came with the load.
    """

    read_ns: int
    activate_ns: int | None
    engine_ns: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine holds and has spent, as last heard of.

    `slots` are the served names in device slots; each slot takes `slot_bytes`, padded, whatever the adapter's rank.
    `owner_ns` is measured time so far by owner: tenants, cold, recompute, system, idle, unattributed; `steps` is what
    steps took and were predicted to take so far, by class, and `system_ns` is the owner `system` by cause.
    `gaps` counts meter events that never arrived, `faults` those that could not be accounted for; both should be 0.
    `restarts` counts the starts of another engine process after one was lost.
    """

    kv_blocks_used: int
    kv_blocks_total: int
    weights_bytes: int
    slot_bytes: int
    slots: tuple[str, ...]
    memory_bytes: int
    owner_ns: Mapping[TimeOwner, int]
    gaps: int
    faults: int = 0
    kv_block_bytes: int = 0
    steps: Mapping[str, StepTime] = field(default_factory=dict)
    system_ns: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0


class EngineDoor(Protocol):
    """One engine that serves one base model and many adapters."""

    @property
    def engine_id(self) -> str:
        """Id in the catalog."""

    @property
    def base_model(self) -> str:
        """The name under which the base model is served."""

    @property
    def app(self) -> ASGIApp:
        """The engine's OpenAI-compatible application. Trusted callers only: it checks no key and obeys every field."""

    async def load_adapter(self, adapter: AdapterFiles, cause: LoadCause) -> LoadTiming:
        """Make the adapter host-resident and known to `app` under its served name; nothing happens if it is already.

        AdapterLoadFailed when it cannot be; the engine and all other adapters live on.
        """

    async def evict_adapter(self, served_name: str) -> None:
        """Forget the adapter and free its host memory; nothing happens if it is not resident.

        The caller sees to it that no request uses it any more.
        """

    def resident(self) -> frozenset[str]:
        """Served names in the host tier."""

    async def count_tokens(self, path: str, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Tokens of each prompt of such a request to `app`, as its chat template and tokenizer make them; nothing is computed.

        None when the engine cannot make prompts of it. The event loop is not held meanwhile.
        """

    async def measured(self, attempt: str, timeout_s: float) -> Measured | None:
        """The meter's figures of an attempt, once every engine request of it has left the engine; None after `timeout_s`.

        Asking once is enough: afterwards the door forgets the attempt.
        """

    def knows(self, attempt: str) -> bool:
        """Whether the attempt ever entered the engine's scheduler; what validation refuses never does."""

    def state(self) -> EngineState:
        """The newest figures; never waits."""

    async def healthy(self) -> bool:
        """Whether the engine answers now."""

    def retry_after_s(self) -> int | None:
        """None while requests are taken; else in how many seconds it is worth trying again."""

    async def stop(self) -> None:
        """End the engine in order: measured time is closed, no process is left behind. A second call does nothing."""

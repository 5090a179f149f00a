"""Memory of the engine's GPUs as NVML tells it: what all processes hold. The one place that speaks to NVML."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pynvml

log = logging.getLogger(__name__)

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


class DeviceMemory(NamedTuple):
    """Bytes over all GPUs of one engine."""

    used: int
    total: int


class Devices:
    """The first `count` GPUs that this process may use (CUDA_VISIBLE_DEVICES, by number or UUID, else all of the host)."""

    def __init__(self, count: int, environ: Mapping[str, str] = os.environ) -> None:
        self._handles: list[Any] = []
        try:
            pynvml.nvmlInit()
            names = environ[VISIBLE].split(",") if VISIBLE in environ else map(str, range(pynvml.nvmlDeviceGetCount()))
            self._handles = [_handle(name.strip()) for name in names if name.strip()][:count]
        except pynvml.NVMLError as error:
            # A host without a GPU is the usual case, and no fault.
            log.debug("no GPU memory to read: %s", error)

    def memory(self) -> DeviceMemory | None:
        """What is used now, and what there is; None without a GPU, or while it does not answer."""
        try:
            found = [pynvml.nvmlDeviceGetMemoryInfo(handle) for handle in self._handles]
        except pynvml.NVMLError as error:
            log.warning("could not read the memory of the GPU: %s", error)
            return None
        return DeviceMemory(sum(one.used for one in found), sum(one.total for one in found)) if found else None


def _handle(name: str) -> Any:
    if name.isdigit():
        return pynvml.nvmlDeviceGetHandleByIndex(int(name))
    return pynvml.nvmlDeviceGetHandleByUUID(name)

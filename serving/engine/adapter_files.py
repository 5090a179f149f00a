"""Copies an adapter from wherever it lies into a directory that never changes, or says precisely why not.

vLLM reads adapter files again whenever it needs to, also inside an engine step, where a missing or changed file would
end the engine or silently serve other weights. So what it is given is a private copy, named by its content.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

from serving.errors import AdapterLoadFailed
from serving.wire.keys import CONFIG_FILE, WEIGHTS_FILE

_MAX_HEADER_BYTES = 100_000_000
"""The limit that safetensors itself sets on a header."""


def checked_copy(name: str, path: Path, rank: int, work: Path) -> str:
    """Copy the adapter in PEFT format at `path` into the directory `work` and check the copy; its hash (64 hex digits).

    AdapterLoadFailed when a file is broken or its rank is not `rank`; OSError when one cannot be read or written.
    """
    # The copy is checked, not the source: the source may change under our eyes.
    for file in (CONFIG_FILE, WEIGHTS_FILE):
        shutil.copyfile(path / file, work / file)
    if fault := _fault(work, rank):
        raise AdapterLoadFailed(name, str(path), fault)
    return _digest(work)


def publish(work: Path, target: Path) -> None:
    """Let the copy in `work` appear as `target`, whole and for good; nothing happens when it is there already."""
    if target.is_dir():
        return
    for file in (CONFIG_FILE, WEIGHTS_FILE):
        with (work / file).open("rb") as data:
            os.fsync(data.fileno())
        (work / file).chmod(0o444)
    work.chmod(0o755)
    appear(work, target)


def appear(work: Path, target: Path) -> None:
    """Let the directory `work` be `target`, whole at once; nothing happens when another was faster."""
    try:
        work.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _digest(directory: Path) -> str:
    digest = hashlib.sha256()
    for file in (CONFIG_FILE, WEIGHTS_FILE):
        with (directory / file).open("rb") as data:
            digest.update(hashlib.file_digest(data, "sha256").digest())
    return digest.hexdigest()


def _fault(directory: Path, rank: int) -> str | None:
    """What is wrong with the two files, in words."""
    try:
        config = json.loads((directory / CONFIG_FILE).read_text(encoding="utf-8"))
    except ValueError as error:
        return f"{CONFIG_FILE} is not JSON: {error}"
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        return f"{CONFIG_FILE} is not a LoRA configuration (peft_type must be LORA)"
    if config.get("r") != rank:
        return f"{CONFIG_FILE} has rank {config.get('r')}, the catalog says {rank}"
    size = (directory / WEIGHTS_FILE).stat().st_size
    with (directory / WEIGHTS_FILE).open("rb") as data:
        first = data.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
        if not 2 <= length <= min(size - 8, _MAX_HEADER_BYTES):
            return f"{WEIGHTS_FILE} is not a safetensors file (header length {length} in a file of {size} bytes)"
        header = data.read(length)
    try:
        tensors = json.loads(header)
        return _tensor_fault(tensors, size - 8 - length, rank, config)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return f"{WEIGHTS_FILE} has a broken header: {error}"


def _tensor_fault(header: dict[str, Any], data_bytes: int, rank: int, config: dict[str, Any]) -> str | None:
    tensors = {key: value for key, value in header.items() if key != "__metadata__"}
    end = max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
    if end != data_bytes:
        return f"{WEIGHTS_FILE} is cut short: it describes {end} bytes of tensors and holds {data_bytes}"
    ranks = {entry["shape"][0] for key, entry in tensors.items() if key.endswith(".lora_A.weight")}
    if not ranks:
        return f"{WEIGHTS_FILE} holds no LoRA weights (no *.lora_A.weight)"
    allowed = {rank, *(config.get("rank_pattern") or {}).values()}
    if ranks - allowed or max(ranks) > rank:
        return f"{WEIGHTS_FILE} has rank {max(ranks)}, the catalog says {rank}"
    return None

"""What a tenant may ask of structured output, so that no grammar keeps the engine or the gateway busy.

A grammar costs by its length and by what it repeats. Both are bounded here, before anything compiles it; what compiling then
costs is bounded by the limits of the library that does (`serving.engine.vllm_grammars`). No I/O.
"""

from __future__ import annotations

import json
from typing import Any, Final

MAX_REPEATS: Final = 10_000
"""The largest `minItems`, `maxItems`, `minProperties` or `maxProperties` of a JSON schema: compiling is linear in it."""
MAX_DEPTH: Final = 128
COUNTS: Final = frozenset({"minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"})


def refusal(kind: str, spec: str, limit: int) -> str | None:
    """Why a grammar of `kind` (json, regex, choice, grammar, structural_tag) is not taken, in words for the client; None if it is.

    `limit` is the largest length of `spec`, in characters.
    """
    if len(spec) > limit:
        return f"it has {len(spec)} characters, and at most {limit} are taken"
    if kind not in {"json", "structural_tag"}:
        return None
    try:
        schema = json.loads(spec)
    except (ValueError, RecursionError):
        return "it is not JSON"
    return _schema_refusal(schema)


def _schema_refusal(schema: Any) -> str | None:
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        for node in level:
            if isinstance(node, dict):
                for name in COUNTS & node.keys():
                    if isinstance(node[name], int | float) and node[name] > MAX_REPEATS:
                        return f"{name} is {node[name]}, and at most {MAX_REPEATS} is taken"
        level = [child for node in level for child in _children(node)]
        if not level:
            return None
    return f"it is nested deeper than {MAX_DEPTH} levels"


def _children(node: Any) -> list[Any]:
    inside = node.values() if isinstance(node, dict) else node
    return [child for child in inside if isinstance(child, dict | list)] if isinstance(node, dict | list) else []

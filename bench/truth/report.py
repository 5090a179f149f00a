"""The results as they stand in docs/attribution.md; a test holds the two together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Result = Mapping[str, Any]
OTHERS = ("token_average", "output_tokens", "equal_split", "token_proportional")


def truth_table(found: Result) -> str:
    """One line per set: error of tenants and requests, mean / worst, ours and others'."""
    lines = [
        "| set | together | truth ± | tenants: ours | requests: ours | tenants: token average | output tokens | equal split | "
        "token-proportional |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, one in found["sets"].items():
        tenants = one["tenants"]["errors"]
        cells = [
            name,
            f"{one['all_together_ms']:.0f} ms",
            f"{_percent(one['tenants']['truth_half_width'])} / {_percent(one['requests']['truth_half_width'])}",
            *_ours(one),
            *(_pair(tenants[other]) for other in OTHERS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ours(one: Result) -> tuple[str, str]:
    """Errors of tenants and requests; a set that allows no statement shows them in brackets."""
    pairs = _pair(one["tenants"]["errors"]["ours"]), _pair(one["requests"]["errors"]["ours"])
    first, second = (f"**{pair}**" if one["statement"] == "yes" else f"({pair})" for pair in pairs)
    return first, second


def target_table(targets: Result) -> str:
    """One line per target."""
    lines = ["| target | is | measured | |", "|---|---|---|---|"]
    for name, one in targets.items():
        show = (lambda value: f"{value:g} x") if name.startswith("times") else _percent
        sign = "≥" if name.startswith("times") else "≤"
        lines.append(f"| {_words(name)} | {sign} {show(one['target'])} | {show(one['measured'])} | {_verdict(one)} |")
    return "\n".join(lines)


def saved_table(found: Result) -> str:
    """One line per cell of the T_kv bench."""
    lines = ["| cached tokens | saved, measured (95 %) | estimate | error |", "|---|---|---|---|"]
    for cell in found["cells"]:
        half = (cell["ci95_ms"][1] - cell["ci95_ms"][0]) / 2
        lines.append(
            f"| {cell['cell']} | {cell['saved_ms']:.0f} ± {half:.0f} ms | {cell['estimate_ms']:.0f} ms | {cell['error']:+.1%} |"
        )
    return "\n".join(lines)


def _verdict(one: Result) -> str:
    return "within the truth's interval" if one.get("within_the_truth") else "met" if one["met"] else "**missed**"


def _words(name: str) -> str:
    return name.replace("_", " ").replace(".", ", ")


def _pair(errors: Result) -> str:
    return f"{errors['mean']:.1%} / {errors['worst']:.1%}"


def _percent(value: float) -> str:
    return f"{value:.1%}"

"""Grafana's own models as a judge: what of a board they do not know, would add, or hold to be of another type."""

from __future__ import annotations

import enum
import json
import typing
from collections.abc import Iterator
from typing import Any, Final

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

OF_PLUGINS: Final = {
    ".annotations.list.expr", ".annotations.list.step", ".annotations.list.textFormat", ".annotations.list.titleFormat",
    ".templating.list.definition",
}  # fmt: skip
"""Read by the data source of an annotation or a variable, which these models do not describe."""
BY_DEFAULT: Final = {
    ".annotations.list.builtIn", ".annotations.list.hide", ".fiscalYearStartMonth", ".panels.options.footer",
    ".panels.options.showTypeIcons", ".panels.repeatDirection", ".panels.transparent", ".templating.list.allowCustomValue",
    ".templating.list.auto", ".templating.list.auto_count", ".templating.list.auto_min", ".templating.list.includeAll",
    ".templating.list.multi", ".templating.list.skipUrlSync", ".timepicker.hidden",
}  # fmt: skip
"""What Grafana fills in where a board says nothing; anything else that is missing is a fault."""


def faults(board: dict[str, Any]) -> list[str]:
    """Where the board read into Grafana's models and written again is not the board, and values that are not of their field's type."""
    plugins.register_default_plugins()
    read = dashboard.Dashboard.from_json(board)
    written = json.loads(json.dumps(read, cls=JSONEncoder))
    return sorted({*_differences(board, written, ""), *_mistyped(read, "")})


def _differences(ours: Any, theirs: Any, place: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            inside = f"{place}.{name}"
            if name not in theirs and inside not in OF_PLUGINS:
                yield f"{inside} is unknown"
            elif name not in ours and inside not in BY_DEFAULT:
                yield f"{inside} is missing"
            elif name in ours and name in theirs:
                yield from _differences(ours[name], theirs[name], inside)
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield f"{place} has {len(ours)} parts, not {len(theirs)}"
        for one, other in zip(ours, theirs, strict=False):
            yield from _differences(one, other, place)
    elif ours != theirs:
        yield f"{place} is {ours!r}, read as {theirs!r}"


def _mistyped(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _mistyped(one, place)
    elif hasattr(type(value), "from_json"):
        for name, hint in typing.get_type_hints(type(value)).items():
            found = getattr(value, name)
            if not _is(found, hint):
                yield f"{place}.{name} is {found!r}, no {hint}"
            yield from _mistyped(found, f"{place}.{name}")


def _is(value: Any, hint: Any) -> bool:
    parts = typing.get_args(hint)
    match typing.get_origin(hint):
        case typing.Union:
            return any(_is(value, part) for part in parts)
        case typing.Literal:
            return value in parts
        case origin if origin is list:
            return isinstance(value, list) and all(_is(one, parts[0]) for one in value)
        case origin if origin is dict:
            return isinstance(value, dict) and all(_is(one, parts[1]) for one in value.values())
    if hint in (Any, object):
        return True
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [member.value for member in hint]
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)

"""Work that grows with what a client sent is done beside the event loop, so that no request holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

SMALL: Final = 16_384
"""Characters or bytes that are worked through sooner than a thread is called."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def offload(size: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What `work` makes of input of that size, in a thread unless it is small."""
    if size <= SMALL:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)

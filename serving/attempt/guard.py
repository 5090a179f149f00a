"""Telling others of an attempt must not hurt the attempt."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


@contextmanager
def guarded(what: str, *args: object) -> Iterator[None]:
    """An exception inside goes no further: it is logged with `what` it cost, in which `args` are filled in."""
    try:
        yield
    except Exception:
        log.exception(what, *args)

"""Telling others of an attempt must not hurt the attempt."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


class guarded:
    """An exception inside goes no further: it is logged with `what` it cost, in which `args` are filled in."""

    __slots__ = ("_args", "_what")

    def __init__(self, what: str, *args: object) -> None:
        self._what, self._args = what, args

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        log.error(self._what, *self._args, exc_info=error)
        return True

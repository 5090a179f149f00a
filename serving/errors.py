"""Errors of serving: what could not be done to which object, and why.

ServingError
├── EngineError
│   ├── EngineStartFailed     the engine did not come up
│   ├── EngineDown            it was up and answers no longer
│   └── AdapterLoadFailed     one adapter cannot be used; the engine lives on
└── MeterError
    ├── EventInvalid          bytes on the meter's channel are not an event
    └── ChannelClosed         the meter's address cannot be opened
"""

from __future__ import annotations


class ServingError(Exception):
    """Anything that serving can fail with on purpose."""


class EngineError(ServingError):
    """The engine, or something asked of it, failed."""


class EngineStartFailed(EngineError):
    """The engine did not come up; `log` names the file with its own last words, where there is one."""

    def __init__(self, engine: str, fact: str, log: str | None = None) -> None:
        self.engine, self.fact, self.log = engine, fact, log
        where = f"; its log is {log}" if log else ""
        super().__init__(f"could not start engine {engine}: {fact}{where}")


class EngineDown(EngineError):
    """The engine's process is gone or declared itself dead."""

    def __init__(self, engine: str, fact: str) -> None:
        self.engine, self.fact = engine, fact
        super().__init__(f"could not reach engine {engine}: {fact}")


class AdapterLoadFailed(EngineError):
    """One adapter cannot be used: its files are missing, broken, or of the wrong rank. Other adapters are not affected."""

    def __init__(self, adapter: str, path: str, fact: str) -> None:
        self.adapter, self.path, self.fact = adapter, path, fact
        super().__init__(f"could not load adapter {adapter} from {path}: {fact}")


class MeterError(ServingError):
    """The meter's own stream failed."""


class EventInvalid(MeterError):
    """Bytes on the meter's channel are not an event of this version."""

    def __init__(self, fact: str) -> None:
        self.fact = fact
        super().__init__(f"could not read a meter event: {fact}")


class ChannelClosed(MeterError):
    """The meter's address cannot be opened."""

    def __init__(self, address: str, fact: str) -> None:
        self.address, self.fact = address, fact
        super().__init__(f"could not open meter channel {address}: {fact}")

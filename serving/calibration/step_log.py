"""A scheduler that keeps its steps in this process instead of sending them, for an engine that is stepped by hand.

The steps are told by the ordinary meter, so what is calibrated and what is billed are measured by the same code.
"""

from __future__ import annotations

from typing import Any, Final

from serving.inside.recorder import Recorder
from serving.inside.scheduler import MeterScheduler
from serving.wire.channel import Ended, OutgoingMessage
from serving.wire.events import EngineStep
from serving.wire.keys import CONFIG_KEY

NOWHERE: Final = "inproc://nobody"
"""Where the meter of such an engine would send to: nobody listens there."""


class StepLog:
    """Steps that ended since they were last taken."""

    def __init__(self) -> None:
        self._steps: list[EngineStep] = []

    def hear(self, message: OutgoingMessage) -> None:
        """Keep a step; everything else the meter says is dropped."""
        if isinstance(message, Ended):
            self._steps.append(message.step())

    def take(self) -> list[EngineStep]:
        """The steps, in order, once."""
        steps, self._steps = self._steps, []
        return steps


LOG: Final = StepLog()
"""One per process, as there is one engine in it."""


class LoggingScheduler(MeterScheduler):
    """The metering scheduler, telling `LOG`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings = self.vllm_config.additional_config[CONFIG_KEY]
        self._recorder = Recorder(LOG.hear)
        self._recorder.hello(settings["emitter"], settings["engine"])

"""Errors of the pipelines.

PipelineError
├── SettingsInvalid   the environment does not say where things are
└── ChecksFailed      everything was made, and some of it is not as it must be
"""

from __future__ import annotations

from collections.abc import Sequence


class PipelineError(Exception):
    """Base of every error of the pipelines' own."""


class SettingsInvalid(PipelineError):
    """Settings are missing or wrong; `problems` lists all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("could not read settings: " + "; ".join(problems))


class ChecksFailed(PipelineError):
    """Checks of severity error did not pass; `failures` are lines of `check: what is wrong`."""

    def __init__(self, failures: Sequence[str]) -> None:
        self.failures = list(failures)
        super().__init__("checks failed:\n" + "\n".join(f"  {failure}" for failure in failures))

"""Skips are for machines that cannot have a tool; where it could be had, a skip is a failure (LORALEDGER_TOOLS_REQUIRED=1)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# A test does not time: a busy machine must not fail a property.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

TOOL_MISSING = "is not installed"
"""Every skip for a missing tool says so in these words."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip for a missing tool into a failure when tools are required."""
    report = yield
    if report.skipped and os.environ.get("LORALEDGER_TOOLS_REQUIRED") and TOOL_MISSING in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, but tools are required here: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with what this run did not judge and why; where tools are required the list is empty."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    reasons = Counter(str(why[-1] if isinstance(why, tuple) else why).removeprefix("Skipped: ") for why in skipped)
    terminalreporter.section("not run, because")
    for reason, tests in reasons.most_common():
        terminalreporter.write_line(f"{tests:4} {reason}")
    if not reasons:
        terminalreporter.write_line("nothing: every test that was chosen ran")

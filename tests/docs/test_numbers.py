"""Numbers that documents quote are those of the code: `quoted.py` ties each phrase to its constant."""

from __future__ import annotations

import re
from typing import Final

import pytest

from alerts.routing import alertmanager
from telemetry import names
from telemetry.engine_time import SystemCause
from tests.docs.pages import PAGES
from tests.docs.quoted import ALERTS, QUOTED, RUNBOOKS


def spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("page", QUOTED)
def test_a_document_says_the_numbers_of_the_code(page: str) -> None:
    text = spaced(PAGES[page])
    assert [phrase for phrase in QUOTED[page] if phrase not in text] == []


UNIT: Final = (
    r"(?:ms|s|seconds?|minutes?|hours?|days?|[KMG]i?B|%|times|x|×|requests|characters|lines|levels|values|tries)"
)
NUMBER: Final = (
    rf"\b(?:[\d.,]*\d|two|three|four|five|six|seven|eight|nine|ten|twelve|half an?|a quarter of an) {UNIT}(?!\w)"
)
FREE: Final = {
    "docs/budgets.md": ["A burst of 100 requests of 1 each against a budget of 10"],
    "docs/catalog.md": ["(400 %)"],
    "docs/closing.md": [r"^\| [\d,]+ \| .*$", "a script of 200 lines"],
    "docs/engine-options.md": [
        "64 levels (vLLM's own)",
        "under half a second on one core",
        "compile for half a minute",
        "within ten seconds",
    ],
    "docs/limits.md": [r"^\| .* ms \| \d+ ms \|$", "within 15 s with the default"],
    "docs/on-call.md": ["limits of 15 % and 3 x", "140 s on two quiet cores"],
    f"{RUNBOOKS}ErrorBudgetBurnFast.md": ["gone in two days"],
}
"""Numbers of these pages that quote no constant: measured, somebody else's, or what a test of the whole shows. Lines are expressions."""


@pytest.mark.parametrize(
    "page",
    [
        "docs/budgets.md",
        "docs/catalog.md",
        "docs/closing.md",
        "docs/engine-options.md",
        "docs/limits.md",
        "docs/on-call.md",
        "docs/remote-engines.md",
        *(page for page in PAGES if page.startswith(RUNBOOKS)),
    ],
)
def test_every_number_with_a_unit_is_tied_to_the_code_or_said_to_be_free(page: str) -> None:
    text = PAGES[page]
    for free in FREE.get(page, []):
        rest = re.sub(free, "", text, flags=re.MULTILINE) if free.startswith("^") else spaced(text).replace(free, "")
        assert spaced(rest) != spaced(text), free
        text = rest
    text = spaced(text)
    for phrase in QUOTED.get(page, []) + (ALERTS if page.startswith(RUNBOOKS) else []):
        text = text.replace(phrase, "")
    assert re.findall(NUMBER, text) == []


def test_notifications_are_repeated_as_the_page_says() -> None:
    routes = spaced(str(alertmanager()))
    assert "'repeat_interval': '12h'" in routes
    assert "'repeat_interval': '1h'" in routes


def test_label_values_on_the_page_of_metrics_are_those_of_the_code() -> None:
    listed = {label: set(re.findall(r"\w+", text)) for label, text in names.LABEL_BOUNDS.items()}
    assert listed["cause"] == {cause.value for cause in SystemCause}
    assert listed["what"] >= set(names.CLOSED_WHY)

"""Which files are judged, and by which tests: the fast ones, those that know the file best first."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

MONEY: Final = 97
"""Percent of the faults that must be found where one decides money."""
OTHERS: Final = 92


class Target(NamedTuple):
    """Files (globs from the root) that one list of tests answers for, and how many percent of their faults it must find."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    due: int = OTHERS

    def paths(self, root: Path) -> list[str]:
        """The files, as they are there."""
        return sorted(str(path.relative_to(root)) for glob in self.files for path in root.glob(glob))


_INVOICE: Final = "tests/billing/invoice"
_GATEWAY: Final = "tests/serving/gateway"
_METERING: Final = "tests/serving/metering"
_STORE: Final = "tests/billing/store"

TARGETS: Final = (
    Target("postings", ("billing/close/postings.py",), ("tests/billing/close/test_postings.py",), MONEY),
    Target("credit", ("billing/invoice/credit.py",), (f"{_INVOICE}/test_credit.py",), MONEY),
    Target(
        "rewrite", ("serving/protocol/rewrite.py",),
        ("tests/serving/protocol/test_rewrite.py", f"{_GATEWAY}/test_app.py"), MONEY,
    ),
    Target(
        "attempt", ("serving/attempt/attempt.py", "serving/attempt/record.py", "serving/attempt/closing.py"),
        ("tests/serving/attempt/test_attempt.py", "tests/serving/attempt/test_record.py", "tests/serving/attempt/test_closing.py", f"{_GATEWAY}/test_app.py"),
        MONEY,
    ),
    Target("corrections", ("billing/invoice/corrections.py",), (f"{_INVOICE}/test_corrections.py",)),
    Target("invoice", ("billing/invoice/invoice.py",), (f"{_INVOICE}/test_invoice.py", f"{_INVOICE}/test_corrections.py")),
    Target("rating", ("billing/invoice/rating.py",), (f"{_INVOICE}/test_rating.py", f"{_INVOICE}/test_explain.py")),
    Target("attribution", ("billing/cost/attribution.py",), ("tests/billing/cost/test_attribution.py",)),
    Target("measures", ("serving/attempt/measures.py",), ("tests/serving/attempt/test_measures.py", f"{_GATEWAY}/test_metrics.py")),
    Target("steps", ("serving/metering/steps.py",), ("tests/serving/metering/test_steps.py", f"{_METERING}/test_accounting.py")),
    Target(
        "accounting", ("serving/metering/accounting.py", "serving/metering/timeline.py"),
        (f"{_METERING}/test_accounting.py", f"{_METERING}/test_timeline.py", f"{_METERING}/test_accounting_streams.py"),
    ),
    Target(
        "recorder", ("serving/inside/recorder.py",),
        ("tests/serving/inside/test_recorder.py", f"{_METERING}/test_accounting_streams.py"),
    ),
    Target("budgets", ("serving/policy/budgets.py",), ("tests/serving/policy/test_budgets.py", "tests/serving/attempt/test_budgets.py")),
    Target("routing", ("serving/policy/routing.py",), ("tests/serving/policy/test_routing.py",)),
    Target("response", ("serving/protocol/response.py",), ("tests/serving/protocol/test_response.py",)),
    Target("spool", ("telemetry/spool.py", "telemetry/spool_file.py"), ("tests/telemetry/test_spool.py",)),
    Target("alerts", ("alerts/rules.py", "alerts/expressions.py"), ("tests/alerts",)),
    Target("dashboards", ("dashboards/queries.py",), ("tests/dashboards",)),
    Target(
        "store: cost", ("billing/store/sql/cost/*.sql",), (f"{_STORE}/cost", "tests/billing/golden_month"), MONEY
    ),
    Target("store: intake", ("billing/store/sql/intake/*.sql",), (f"{_STORE}/intake", "tests/billing/golden_month"), MONEY),
    Target("store: close", ("billing/store/sql/close/*.sql",), (f"{_STORE}/close", f"{_STORE}/test_reader.py"), MONEY),
    Target("store: invoice", ("billing/store/sql/invoice/*.sql",), (f"{_STORE}/invoice",), MONEY),
)  # fmt: skip

"""The command line. Each command is thin: it reads arguments, calls one room, shows the result.

Exit codes: 0 done, 1 could not be done, 2 bad input, 3 the ledger refuses (a month not ready to close, numbers that do not reconcile,
documents that are not as they were issued, a price, rate or payer that the catalog lacks).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

import typer

from loraledger import console
from loraledger.commands import (
    books,
    calibrate,
    catalog,
    credit,
    export,
    generated,
    invoice,
    price,
    quarantine,
    report,
    serving,
    statement,
    verify,
)

app = typer.Typer(
    name="loraledger",
    help="Cost attribution and SRE observability for multi-tenant, multi-LoRA LLM serving.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
command: Callable[..., None]
for command in (serving.serve, serving.demo, calibrate.calibrate, catalog.check):
    app.command()(command)
for command in (books.ingest, books.close, books.reconcile):
    app.command()(command)
# A query may begin with a comment, which looks like an option.
app.command(context_settings={"ignore_unknown_options": True})(books.sql)
for command in (
    verify.verify,
    credit.credit,
    statement.statement,
    price.price,
    report.report,
    report.close_report,
    generated.dashboards,
    generated.alerts,
):
    app.command()(command)
for name, group in (("quarantine", quarantine.group), ("invoice", invoice.group), ("export", export.group)):
    app.add_typer(group, name=name)


def main() -> None:
    """Run the command line; errors that a person can act on are one message, never a traceback."""
    from billing.cost.facts import NotConserved
    from billing.errors import BillingError, BookMissing, ExchangeMissing, PayerMissing, PeriodInvalid, PriceMissing
    from billing.store.errors import BooksBroken, CloseRefused, SeriesInvalid
    from catalog.load import CatalogInvalid
    from pipelines.settings import PipelineError
    from serving.calibration.fit import CalibrationRefused
    from serving.errors import ServingError
    from serving.step_model.profile import ProfileInvalid

    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    # The driver logs what it also raises; a person gets the message once.
    logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())
    try:
        app()
    except (CatalogInvalid, PeriodInvalid, ProfileInvalid) as error:
        sys.exit(console.fail(str(error), console.INVALID).code)
    except (
        BooksBroken, CloseRefused, SeriesInvalid, NotConserved, BookMissing, ExchangeMissing, PayerMissing, PriceMissing,
    ) as error:  # fmt: skip
        sys.exit(console.fail(str(error), console.REFUSED).code)
    except (BillingError, CalibrationRefused, PipelineError, ServingError, OSError, LookupError) as error:
        if os.environ.get("LORALEDGER_DEBUG"):
            raise
        sys.exit(console.fail(str(error)).code)

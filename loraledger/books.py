"""What finance does with a ledger, as calls: take what is new, derive, draft, close, reconcile, verify."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from billing.close.acceptance import Acceptance
from billing.close.blocks import Block
from billing.close.counters import Gap
from billing.close.month import GRACE_NS
from billing.close.reconcile import Reconciliation, ZoneMonth
from billing.documents.press import Press
from billing.errors import BillingError
from billing.exact.periods import BillingMonth, to_ns
from billing.store.catalog_history import KnownCatalog, known_catalog, remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.close.gaps import engine_gaps
from billing.store.cost.derivations import behind, unseen
from billing.store.finance import month_state, month_window, reconciliation, system_causes, zone_months
from billing.store.intake.ingest import IngestReport, ingest
from billing.store.invoice.issuing import accepted_gaps
from billing.store.invoice.verify import Verified, verify
from billing.store.migrate import migrate
from billing.store.reader import Form, Reader
from catalog.durations import HOUR_NS
from catalog.history import PastEdited
from catalog.load import load
from catalog.model import Catalog
from catalog.months import to_datetime
from loraledger.settings import Settings
from pipelines.invoices import Acceptances
from pipelines.run import ChecksFailed, RunReport, run_hours, run_month
from pipelines.work import Progress, silent


@dataclass(frozen=True, slots=True)
class Books:
    """One ledger and the catalog it is read with."""

    settings: Settings
    catalog: Catalog
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @classmethod
    def of(cls, settings: Settings) -> Books:
        """The books that these settings name. CatalogInvalid when the catalog cannot be used."""
        return cls(settings, load(settings.catalog))

    def open(self) -> AbstractContextManager[Ledger]:
        """The ledger with its schema in place. LedgerUnreachable in one line otherwise."""
        ledger = Ledger.open(self.settings.dsn)
        migrate(ledger, self.clock())
        return ledger

    def ask(self, query: str, form: Form) -> bytes:
        """The answer to one statement that reads; QueryRefused or QueryFailed otherwise."""
        if urlsplit(self.settings.dsn).scheme == "chdb":
            # A server's readers may not make a schema, and on one there is one.
            with self.open():
                pass
        with Reader.open(self.settings.dsn) as reader:
            return reader.ask(query, form)

    def ingest(self, paths: Sequence[Path], progress: Callable[[int, int], None] | None = None) -> IngestReport:
        """Take everything new under `paths`; taking it again changes nothing."""
        with self.open() as ledger:
            return ingest(ledger, paths or [self.settings.spool], self.catalog, self.clock(), progress)

    def month(
        self,
        month: str,
        *,
        issue: bool,
        grace_hours: int = GRACE_NS // HOUR_NS,
        accept: Acceptances | None = None,
        zero: bool = False,
        leave_open: bool = False,
        progress: Progress = silent,
    ) -> RunReport:
        """All steps of a billing month in one run, up to drafts or issued invoices, and the gateway's cost figures."""
        return run_month(
            self.settings,
            month,
            issue,
            self.clock(),
            progress,
            grace_hours=grace_hours,
            accept=accept,
            zero=zero,
            leave_open=leave_open,
        )

    def derive(self, month: str) -> list[str]:
        """Take what is new and derive the month's usage, time and cost again; checks that are red, in words."""
        start_ns, end_ns = self._window(month)
        try:
            return list(run_hours(self.settings, to_datetime(start_ns), to_datetime(end_ns), self.clock()).warnings)
        except ChecksFailed as error:
            return error.failures

    @property
    def press(self) -> Press:
        """What makes documents, with the operator's fonts."""
        return Press(self.settings.fonts)

    def known(self) -> KnownCatalog:
        """The catalog with every tenant that the ledger ever knew, and the terms of each as they held."""
        with self.open() as ledger:
            return known_catalog(ledger, self.catalog, self.clock())

    def edited(self) -> dict[str, tuple[PastEdited, ...]]:
        """By tenant, what the catalog says of the past against what the ledger knew then."""
        return dict(self.known().edited)

    def restate(self, month: str) -> list[str]:
        """Let what the catalog says of the past hold there, and derive the months before `month` again that it changes; checks
        that are red, in words."""
        since = [edit.at for edits in self.edited().values() for edit in edits if edit.restatable]
        if not since:
            return []
        with self.open() as ledger:
            remember_catalog(ledger, self.catalog, self.clock(), restate=True)
        changed, red = BillingMonth.at(to_ns(min(since))).previous(), list[str]()
        while changed.text < month:
            red += self.derive(changed.text)
            changed = changed.next()
        return red

    def derive_missing(self, month: str) -> str | None:
        """Derive the month again when facts came after its last derivation. The reason in words; None when nothing was to do."""
        start_ns, end_ns = self._window(month)
        with self.open() as ledger:
            why = behind(ledger, start_ns, end_ns, self.catalog)
        if why is not None:
            self.derive(month)
        return why

    def unseen(self) -> str | None:
        """A sentence when facts were ingested after the last derivation; None when none were, and for readers without the right to see it."""
        try:
            with Ledger.open(self.settings.dsn) as ledger:
                return unseen(ledger)
        except BillingError:
            return None

    def reconcile(self, month: str) -> Reconciliation:
        """Rented time and who owns it in the provider's month, which is UTC: these follow each other without gap or overlap."""
        period = BillingMonth(month)
        with self.open() as ledger:
            return reconciliation(ledger, period.start, period.end)

    def zones(self, month: str) -> list[ZoneMonth]:
        """The same month as each time zone of a tenant cuts it."""
        with self.open() as ledger:
            return zone_months(ledger, month, known_catalog(ledger, self.catalog, self.clock()).catalog)

    def verify(self, *, files: bool = False, progress: Callable[[int, int], None] | None = None) -> Verified:
        """Whether all that was issued, whatever the month, still is what was issued."""
        with self.open() as ledger:
            return verify(ledger, files=files, progress=progress)

    def blocks(self, month: str) -> tuple[list[Block], list[Acceptance]]:
        """What keeps tenants of the month from an invoice, and the gaps of it that the provider took on."""
        with self.open() as ledger:
            state = month_state(ledger, month, self.catalog, self.clock())
            return list(state.blocks), accepted_gaps(ledger, month)

    def engine_gaps(self, month: str) -> list[Gap]:
        """What each engine process counted itself in the provider's month, against the meter and the usage records."""
        period = BillingMonth(month)
        with self.open() as ledger:
            return engine_gaps(ledger, period.start_ns, period.end_ns)

    def system_causes(self, month: str) -> tuple[dict[str, int], int]:
        """Why engine time of the provider's month went to the system, by cause, and all engine time that was not idle; ns."""
        period = BillingMonth(month)
        with self.open() as ledger:
            return system_causes(ledger, period.start_ns, period.end_ns)

    def _window(self, month: str) -> tuple[int, int]:
        """The month of every tenant that the ledger or the catalog knows, as time zones cut it then."""
        return month_window(month, self.known().catalog)

    def current_month(self) -> str:
        """The running billing month, UTC."""
        return self.clock().strftime("%Y-%m")

    def last_month(self) -> str:
        """The newest month that is over, grace included."""
        month = BillingMonth(self.current_month()).previous()
        return month.text if month.end_ns + GRACE_NS <= to_ns(self.clock()) else month.previous().text


def documents(settings: Settings, month: str, tenant: str | None = None) -> list[Path]:
    """The month's PDF files, of one tenant or all."""
    return sorted((settings.out / month).glob(f"{tenant or '*'}-*.pdf"))

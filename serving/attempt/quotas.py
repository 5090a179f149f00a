"""Keeps every tenant's load for the pure `serving.policy.admission`, and its month's account for the pure `serving.policy.budgets`.

The request path never waits for the ledger, it reads a file of its last published figures.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from catalog.durations import SECOND_NS
from catalog.model import Catalog, Engine, Quotas, Tenant
from serving.attempt.limits import Clock
from serving.policy import admission
from serving.policy.admission import Ask, Demand, Load, Misfit
from serving.policy.budgets import Account, Published
from serving.policy.charges import Terms
from serving.protocol.errors import never_fits, over_quota
from telemetry.ledger_snapshot import LedgerSnapshot
from telemetry.usage import UsageRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """What an admitted request holds, and the bound on each answer that the engine must be told (None: its own will do)."""

    ask: Ask
    output_tokens: int | None = None


def counts_tokens(quotas: Quotas) -> bool:
    """Whether the length of a prompt matters to any of the quotas."""
    return any(q is not None for q in (quotas.tokens_per_minute, quotas.kv_blocks_in_flight, quotas.monthly_budget))


class SnapshotFile:
    """The file the ledger replaces. `read` gives the last good content, None while there never was any."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._last: LedgerSnapshot | None = None

    def read(self) -> LedgerSnapshot | None:
        """The newest good snapshot; a broken file is logged once and the last good one stays, its age growing."""
        if self._path is None:
            return None
        try:
            stat = self._path.stat()
        except OSError:
            return self._last
        stamp = stat.st_mtime_ns, stat.st_ino
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._last = LedgerSnapshot.from_json(self._path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                log.error("could not read ledger snapshot %s: %s; the one before it stays", self._path, error)
        return self._last


class TenantQuotas:
    """What each tenant holds now, in this gateway process.

    `emitter` is the process's name in the ledger; a hold for an attempt that never settles expires after `hold_ns`.
    """

    def __init__(self, clock: Clock, snapshot: SnapshotFile, emitter: str, engine: Engine | None, hold_ns: int) -> None:
        self._clock, self._file, self._emitter = clock, snapshot, emitter
        self._engine, self._hold_ns = engine, hold_ns
        self._loads: dict[str, Load] = {}
        self._accounts: dict[str, tuple[Terms, Account]] = {}
        self._snapshot: LedgerSnapshot | None = None

    def admit(
        self, catalog: Catalog, tenant: Tenant, demand: Demand, seq: int, output_field: str = "max_tokens"
    ) -> Grant:
        """Take what attempt `seq` needs; where it bounds no answer, as much as the quotas ever allow to one request.

        Raises Refusal and takes nothing: 429 when a quota does not allow it now, 400 when none ever will. `output_field` is
        what the client calls the bound of an answer.
        """
        mono_ns, now_ns = self._clock.mono_ns(), self._clock.utc_ns()
        quotas, budgeted = tenant.quotas, self._account(catalog, tenant)

        def misfit(ask: Ask) -> Misfit | None:
            found = admission.misfit(quotas, ask)
            if found is None and budgeted is not None:
                found = budgeted[1].misfit(budgeted[0], ask, now_ns)
            return found

        ask = demand.ask(demand.most_output if demand.output is None else demand.output)
        bound: int | None = None
        if (never := misfit(ask)) is not None:
            longest = admission.longest_output(demand, lambda less: misfit(less) is None)
            if demand.output is not None or not longest:
                raise never_fits(never.reason, never.fact, longest, output_field)
            ask, bound = demand.ask(longest), longest
        if budgeted is not None:
            terms, account = budgeted
            if refused := account.refusal(terms, ask, now_ns, mono_ns):
                raise over_quota(refused.reason, refused.fact, refused.retry_after_s)
        answer = admission.admit(quotas, self._loads.get(tenant.id, Load()), ask, mono_ns)
        if isinstance(answer, admission.QuotaRefusal):
            raise over_quota(answer.reason, answer.fact, answer.retry_after_s)
        self._loads[tenant.id] = answer
        if budgeted is not None:
            account.admit(terms, ask, seq, now_ns, mono_ns + self._hold_ns)
        return Grant(ask, bound)

    def settle(self, tenant: Tenant, ask: Ask, used_tokens: int | None, seq: int, record: UsageRecord | None) -> None:
        """Give back what an admitted request held and replace its estimates by what it used; `record` is what was booked."""
        now_ns = self._clock.mono_ns()
        load = self._loads.get(tenant.id, Load())
        self._loads[tenant.id] = admission.settle(tenant.quotas, load, ask, used_tokens, now_ns)
        if tenant.id in self._accounts:
            terms, account = self._accounts[tenant.id]
            account.settle(terms, seq, record, self._clock.utc_ns())

    def spent(self, catalog: Catalog, tenant: Tenant) -> Fraction | None:
        """What the tenant's month has come to, holds included; None for a tenant without a budget."""
        budgeted = self._account(catalog, tenant)
        if budgeted is None:
            return None
        terms, account = budgeted
        return account.spent(terms, self._clock.utc_ns(), self._clock.mono_ns())

    def used_ratios(self, catalog: Catalog) -> Iterator[tuple[str, float]]:
        """Tenants that have a budget, and how much of it is used."""
        for tenant in catalog.tenants:
            spent = self.spent(catalog, tenant)
            if spent is not None and tenant.quotas.monthly_budget:
                yield tenant.id, float(spent / Fraction(tenant.quotas.monthly_budget))

    @property
    def written_off(self) -> int:
        """Holds that expired, and charges that never came to the ledger."""
        return sum(account.written_off for _, account in self._accounts.values())

    def _account(self, catalog: Catalog, tenant: Tenant) -> tuple[Terms, Account] | None:
        """The tenant's account, brought to the ledger's newest figures."""
        budget = tenant.quotas.monthly_budget
        if budget is None:
            return None
        if (snapshot := self._file.read()) is not self._snapshot:
            self._snapshot = snapshot
            for other, (_, account) in self._accounts.items():
                self._tell(other, account)
        terms = Terms.on(self._engine, budget, tenant, catalog.price_books)
        if tenant.id in self._accounts:
            account = self._accounts[tenant.id][1]
        else:
            account = Account()
            self._tell(tenant.id, account)
        self._accounts[tenant.id] = terms, account
        return terms, account

    def _tell(self, tenant: str, account: Account) -> None:
        snapshot = self._snapshot
        figures = snapshot.tenants.get(tenant) if snapshot is not None else None
        if snapshot is None or figures is None or figures.month is None or figures.charged is None:
            return
        until = snapshot.charged_until or snapshot.published_at
        # A publisher whose clock is ahead must not make charges of this minute look forgotten.
        at_ns = min(int(until.timestamp()) * SECOND_NS, self._clock.utc_ns())
        counted = snapshot.counted.get(self._emitter, ())
        account.learn(Published(at_ns, figures.month, Fraction(figures.charged), counted))

"""Everything in the ledger that keeps somebody's month from an invoice, and whom: found anew each time, less what was accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from billing.close.acceptance import Acceptance
from billing.close.blocks import Block, Kind, missing
from billing.cost.attempts import LONGEST_NS
from billing.exact.money import product, ratio
from billing.store.clickhouse import Ledger
from billing.store.close.accepted import accepted_tokens
from billing.store.close.gaps import ATTEMPTS, Missing, engine_gaps, missing_numbers
from billing.store.close.stakes import Stakes
from billing.store.intake.usage import open_attempts
from billing.store.invoice.issuing import accepted_gaps
from catalog.durations import HOUR_NS, MINUTE_NS
from catalog.model import Catalog
from catalog.months import to_datetime
from telemetry.names import EventName
from telemetry.usage import UNAUTHENTICATED

_PLACES: Final = 18
_PINNED: Final = 10_000
"""So many missing attempts are looked for one by one in the meter's windows."""
_SPOOL: Final = "ingest the spool files that are not here yet, or let the provider carry it: close MONTH --accept-gap {id} --reason TEXT"
_UNMEASURED: Final = (
    "ingest the records again with their figures, under numbers of their own, or let the provider carry it: "
    "close MONTH --accept {id} --reason TEXT"
)
_CARRY: Final = "find out why, or let the provider carry it: close MONTH --accept-gap {id} --reason TEXT"
_QUARANTINE: Final = (
    "`loraledger quarantine` lists it; `quarantine retry` takes it once its cause is gone, `quarantine release ID --reason TEXT` "
    "or close MONTH --accept-gap {id} --reason TEXT gives it up"
)


def open_blocks(ledger: Ledger, start_ns: int, end_ns: int, catalog: Catalog, now: datetime) -> list[Block]:
    """Findings that touch [start_ns, end_ns), whole UTC hours, by kind; not those that were accepted."""
    accepted = accepted_gaps(ledger)
    finder = _Finder(ledger, catalog, now, start_ns, end_ns, accepted)
    done = {one.gap for one in accepted}
    return [block for block in finder.all() if block.id not in done]


@dataclass(frozen=True, slots=True)
class _Finder:
    ledger: Ledger
    catalog: Catalog
    now: datetime
    start_ns: int
    end_ns: int
    accepted: list[Acceptance]

    @property
    def window(self) -> dict[str, int]:
        return {"start_ns": self.start_ns, "end_ns": self.end_ns}

    @property
    def stakes(self) -> Stakes:
        return Stakes(self.ledger, self.catalog, self.now)

    def all(self) -> Iterator[Block]:
        """Every finding, its advice with its own id in it."""
        kinds = (
            self.quarantine,
            self.records,
            self.counters,
            self.agreement,
            self.unmeasured,
            self.opened,
            self.prices,
            self.time,
        )
        for block in (block for find in kinds for block in find()):
            yield replace(block, advice=block.advice.replace("{id}", block.id))

    def quarantine(self) -> Iterator[Block]:
        asked = {"tenants": [t.id for t in self.catalog.tenants], "engines": [e.id for e in self.catalog.engines]}
        for row in self.ledger.read("quarantine_touching", {**self.window, **asked, "opened": EventName.OPENED}):
            start_ns, end_ns, engine = row["first_ns"], row["last_ns"], row["engine"] or None
            touched = {name for name in row["touched"] if name != UNAUTHENTICATED}
            if engine:
                near = (self.start_ns, self.end_ns) if start_ns is None else (start_ns - MINUTE_NS, end_ns + MINUTE_NS)
                touched |= set(self.stakes.on_engine(engine, *near))
            yield Block(
                Kind.QUARANTINE,
                tuple(row["ids"]),
                f"{row['entries']} in quarantine ({row['example']}): {row['reason']}",
                tuple(sorted(touched)),
                engine,
                row["one_emitter"] or None,
                start_ns,
                None if end_ns is None else end_ns + 1,
                row["entries"],
                advice=_QUARANTINE,
            )

    def records(self) -> Iterator[Block]:
        found = missing_numbers(self.ledger, self.start_ns, self.end_ns)
        windows = [one for one in found if one.stream == EventName.WINDOW]
        for one in found:
            yield self.attempts(one, windows) if one.stream == ATTEMPTS else self.events(one)

    def attempts(self, one: Missing, windows: Sequence[Missing]) -> Block:
        """Attempts that the meter saw are of the tenants that it names. The others used no engine where the meter saw all,
        and may be of anybody who used this gateway where it did not."""
        numbers = one.numbers
        shares: list[dict[str, Any]] = []
        if one.count <= _PINNED:
            asked = {"emitter": one.emitter, "first": numbers.first, "last": numbers.last, "window": EventName.WINDOW}
            stretch = {"start_ns": one.start_ns, "end_ns": one.end_ns}
            shares = self.ledger.read("shares_of_attempts", {**asked, **stretch})
        tenants = {row["tenant"] for row in shares}
        unseen = one.count - len(shares)
        said = f", {len(shares)} of them seen by the meter" if shares else ""
        if unseen and self.metered(one, windows):
            said += f", {unseen} used no engine: the meter saw all of them"
        elif unseen:
            asked = {"emitter": one.emitter, "opened": EventName.OPENED, **self.window}
            tenants |= {row["tenant"] for row in self.ledger.read("tenants_of_emitter", asked)}
        engine_ns, engines = sum(row["ns"] for row in shares), {row["engine_id"] for row in shares}
        engine = engines.pop() if len(engines) == 1 else None
        block = self.gap(one, said, tenants, engine, engine_ns if shares else None)
        return replace(block, tokens=sum(row["tokens"] for row in shares) if shares else None)

    def metered(self, one: Missing, windows: Sequence[Missing]) -> bool:
        """Whether the meter saw all that attempts between these neighbours can have used of the engines of their gateway."""
        rows = self.ledger.read("engines_of_emitter", {"emitter": one.emitter, **self.window})
        engines = {row["engine_id"] for row in rows}
        holes = [
            hole
            for hole in windows
            if hole.engine in engines and hole.start_ns < one.end_ns + LONGEST_NS and hole.end_ns > one.start_ns
        ]
        return not holes and not any(row["unmeasured"] for row in rows)

    def events(self, one: Missing) -> Block:
        """What an engine process told and is not here touches those who were on the engine then."""
        engine = one.engine
        tenants = self.stakes.on_engine(engine, one.start_ns, max(one.end_ns, one.start_ns + 1)) if engine else []
        engine_ns = one.end_ns - one.start_ns if one.stream == EventName.WINDOW else None
        block = self.gap(one, "", tenants, engine, engine_ns)
        return replace(block, what=block.what + _on(engine))

    def gap(self, one: Missing, said: str, tenants: Iterable[str], engine: str | None, ns: int | None) -> Block:
        numbers = one.numbers
        which = str(numbers.first) if one.count == 1 else f"{numbers.first} to {numbers.last}"
        return Block(
            Kind.RECORDS,
            missing(*numbers),
            f"{one.count} missing of {numbers.stream} (numbers {which}{said})",
            self.stakes.known(tenants),
            engine,
            one.emitter,
            one.start_ns,
            one.end_ns,
            one.count,
            engine_ns=ns,
            cost=None if engine is None or ns is None else self.stakes.cost(engine, one.start_ns, ns),
            advice=_SPOOL,
            numbers=numbers,
        )

    def counters(self) -> Iterator[Block]:
        before = accepted_tokens(self.accepted)
        for gap in engine_gaps(self.ledger, self.start_ns, self.end_ns):
            what = (gap.emitter, gap.what, gap.larger, gap.smaller)
            left = gap.unexplained - before.get(what, 0)
            if not left:
                continue
            start_ns, end_ns = max(gap.start_ns, self.start_ns), min(gap.end_ns, self.end_ns)
            tenants = self.stakes.known(self.stakes.on_engine(gap.engine, start_ns, end_ns))
            yield Block(
                Kind.COUNTERS,
                (*what, str(gap.unexplained)),
                f"{left} {gap.what} of {gap.emitter}{_on(gap.engine)} between {gap.larger} and {gap.smaller} that no cause explains",
                tenants,
                gap.engine,
                gap.emitter,
                start_ns,
                end_ns,
                tokens=abs(left),
                cost=self.stakes.token_cost(gap.engine, start_ns, end_ns, abs(left), gap.what, tenants),
                advice=_CARRY,
            )

    def agreement(self) -> Iterator[Block]:
        for row in self.ledger.read("usage_against_meter", {"window": EventName.WINDOW, **self.window}):
            if not row["attempts"]:
                continue
            yield Block(
                Kind.AGREEMENT,
                (row["identity"],),
                f"{row['attempts']} attempts of {row['tenant']}{_on(row['engine'])} have another engine time in their record than in the meter's windows, "
                f"{row['apart_ns']} ns apart together; charged is what the meter measured",
                self.stakes.known([row["tenant"]]),
                row["engine"] or None,
                start_ns=row["first_ns"],
                end_ns=row["last_ns"] + 1,
                records=row["attempts"],
                engine_ns=row["apart_ns"],
                cost=self.stakes.cost(row["engine"], row["first_ns"], row["apart_ns"]),
                advice=_CARRY,
            )

    def unmeasured(self) -> Iterator[Block]:
        """What a tenant would get for nothing: at stake is what as many others of its attempts were charged, on average."""
        rows = self.ledger.read("unmeasured_usage", {"window": EventName.WINDOW, **self.window})
        revenue = {row["tenant"]: row["revenue_sum"] for row in self.ledger.read("revenue_of_tenants", self.window)}
        for tenant, of_tenant in groupby(rows, key=lambda row: row["tenant"]):
            paid = [row for row in of_tenant if self.stakes.pays(row["status"], self.start_ns)]
            for what in self.stakes.charged_by(tenant, self.start_ns, self.end_ns):
                yield from self.without(tenant, what, paid, revenue.get(tenant, Decimal(0)))

    def without(self, tenant: str, what: str, paid: Sequence[dict[str, Any]], revenue: Decimal) -> Iterator[Block]:
        """What the tenant pays for of which nobody knows the tokens, or the time."""
        unknown = [row for row in paid if row[f"without_{what}"]]
        count = sum(row[f"without_{what}"] for row in unknown)
        if count:
            known = sum(row["attempts"] for row in paid) - count
            first_ns = min(row[f"{what}_first_ns"] for row in unknown)
            reported = sum(row["time_reported_ns"] for row in unknown) if what == "time" else 0
            cost = ratio(product(revenue, Decimal(count)), Decimal(known), _PLACES)
            yield Block(
                Kind.UNMEASURED,
                (tenant, what, *(row[f"{what}_identity"] for row in unknown)),
                f"{count} attempts of {tenant} have no {'tokens' if what == 'tokens' else 'time that a meter measured'}, by which its plan "
                f"charges: they would be billed as 0" + (f"; their source reports {reported} ns" if reported else ""),
                self.stakes.known([tenant]),
                start_ns=first_ns,
                end_ns=max(row[f"{what}_last_ns"] for row in unknown) + 1,
                records=count,
                engine_ns=reported or None,
                cost=self.stakes.cost(unknown[-1]["time_engine"], first_ns, reported) if reported else cost,
                advice=_UNMEASURED,
            )

    def opened(self) -> Iterator[Block]:
        found = Counter(one.tenant for one in open_attempts(self.ledger, self.start_ns, self.end_ns))
        for tenant, attempts in sorted(found.items()):
            yield Block(
                Kind.OPEN,
                (tenant,),
                f"{attempts} attempts of {tenant} opened and neither closed nor are they old enough to be lost",
                self.stakes.known([tenant]),
                records=attempts,
                advice="close again in an hour: then they are lost, or closed",
            )

    def prices(self) -> Iterator[Block]:
        rows = self.ledger.read("unpriced_hours", self.window)
        for (engine, gpu_type), own in groupby(rows, key=lambda row: (row["engine"], row["gpu_type"])):
            hours = list(own)
            first, last = hours[0]["hour_ns"], hours[-1]["hour_ns"] + HOUR_NS
            tenants = {
                name
                for row in hours
                for name in self.stakes.on_engine(engine, row["hour_ns"], row["hour_ns"] + HOUR_NS)
            }
            when = f"at {to_datetime(first).isoformat()}" + (f" and {len(hours) - 1} hours more" if hours[1:] else "")
            priced = self.stakes.price(gpu_type, first) is not None
            yield Block(
                Kind.PRICE,
                (engine, gpu_type, *(str(row["hour_ns"]) for row in hours)),
                f"not priced: engine {engine} ({gpu_type}) {when}"
                + (": its facts do not fit each other" if priced else f": no price for GPU type {gpu_type}"),
                self.stakes.known(tenants),
                engine,
                start_ns=first,
                end_ns=last,
                records=len(hours),
                engine_ns=sum(row["gpu_ns"] for row in hours),
                advice=_CARRY if priced else f"add an entry to prices.gpu_hours that starts no later, or {_CARRY}",
            )

    def time(self) -> Iterator[Block]:
        for row in self.ledger.read("unowned_hours", self.window):
            engine, hour_ns, ns = row["engine"], row["hour_ns"], row["gpu_ns"]
            money = f" and {row['missing_cost']} of its cost" if row["missing_cost"] else ""
            yield Block(
                Kind.TIME,
                ("unowned", engine, str(hour_ns), str(ns), str(row["missing_cost"])),
                f"conservation: {ns} GPU-ns{money} of engine {engine} at {to_datetime(hour_ns).isoformat()} have no owner",
                self.stakes.known(self.stakes.on_engine(engine, hour_ns, hour_ns + HOUR_NS)),
                engine,
                start_ns=hour_ns,
                end_ns=hour_ns + HOUR_NS,
                engine_ns=abs(ns),
                cost=abs(row["missing_cost"]) or self.stakes.cost(engine, hour_ns, abs(ns), gpus=1),
                advice=_CARRY,
            )
        for row in self.ledger.read("unplaced_time", {"window": EventName.WINDOW, **self.window}):
            engine, ns, first, last = row["engine"], row["apart_ns"], row["first_ns"], row["last_ns"]
            yield Block(
                Kind.TIME,
                ("unplaced", engine, str(first), str(ns)),
                f"{ns} ns that the meter measured on engine {engine} could not be placed: more than was rented, or on hardware that nobody declared",
                self.stakes.known(self.stakes.on_engine(engine, first, last)),
                engine,
                start_ns=first,
                end_ns=last,
                engine_ns=abs(ns),
                cost=self.stakes.cost(engine, first, abs(ns)),
                advice=f"look at engines[].rented, then {_CARRY}",
            )


def _on(engine: str | None) -> str:
    return f" on engine {engine}" if engine else ""

"""A tenant as its successive catalog entries say, each from when it was known: what has no date changes nothing before. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from catalog import tariff
from catalog.durations import QUARTER_NS
from catalog.months import to_datetime, to_ns
from catalog.tenants import DatedTerms, Tenant

_TERMS: Final = tuple(name for name in DatedTerms.model_fields if name != "effective_from")
_LASTING: Final = ("time_zone", "currency")
"""Terms by which months were cut and documents issued: they change from now on only."""

Values = Mapping[str, Any]


class Entry(NamedTuple):
    """What a catalog said of a tenant, from when the ledger knew it; `restated`: its dates hold for the past too."""

    known_at: datetime
    tenant: Tenant
    restated: bool = False


class PastEdited(NamedTuple):
    """A dated term that says of the past what was not known then."""

    at: datetime
    term: str

    @property
    def restatable(self) -> bool:
        """Whether the past may be put right: not where months were cut and documents issued by it."""
        return self.term not in _LASTING

    def __str__(self) -> str:
        advice = "give it a date to come" + (", or say --restate" if self.restatable else "")
        return f"{self.term} changes from {self.at.isoformat()} on, which is past: {advice}"


class Known(NamedTuple):
    """A tenant with every term dated as it held, and what of its newest entry does not hold because it is about the past."""

    tenant: Tenant
    edited: tuple[PastEdited, ...]


def as_known(entries: Sequence[Entry]) -> Known:
    """The tenant as it held and will hold, from its entries, oldest first.

    The first entry is true from ever on. Of a later one, what has no date holds from the quarter hour after it was known, and a
    date before that holds where it was `restated`.
    """
    first, newest = entries[0].tenant, entries[-1].tenant
    line, edited = _line(first), tuple[PastEdited, ...]()
    for entry in entries[1:]:
        known_ns = -(-to_ns(entry.known_at) // QUARTER_NS) * QUARTER_NS
        said, past = _line(entry.tenant), {at: values for at, values in line.items() if at < known_ns}
        dated = {at: _claimed(entry.tenant, at) for at in sorted({*past, *said}) if at < known_ns}
        edits = [
            (at, name, value)
            for at, claimed in dated.items()
            for name, value in claimed.items()
            if _at(line, at)[name] != value
        ]
        edited = tuple(
            PastEdited(to_datetime(min(at for at, of, _ in edits if of == name)), name)
            for name in dict.fromkeys(name for _, name, _ in edits)
            if not entry.restated or name in _LASTING
        )
        if entry.restated:
            past = {
                at: {**_at(line, at), **{n: v for n, v in claimed.items() if n not in _LASTING}}
                for at, claimed in dated.items()
            }
        future = {at: values for at, values in said.items() if at > known_ns}
        line = {**past, known_ns: _at(said, known_ns), **future}
    return Known(_dated(newest, line), edited)


def _line(tenant: Tenant) -> dict[int, Values]:
    """Every term, from each instant on."""
    return {at_ns: {name: getattr(now, name) for name in _TERMS} for at_ns, now, _ in tariff.standing(tenant)}


def _at(line: Mapping[int, Values], at_ns: int) -> Values:
    return line[max(since for since in line if since <= at_ns)]


def _claimed(tenant: Tenant, at_ns: int) -> Values:
    """Of the terms at that instant, those that were given with a date."""
    begun = [
        term
        for (since, _, _), term in zip(list(tariff.standing(tenant))[1:], tenant.terms, strict=True)
        if since <= at_ns
    ]
    return {name: value for term in begun for name, value in term.named.items()}


def _dated(tenant: Tenant, line: Mapping[int, Values]) -> Tenant:
    """The tenant with this line of terms, those left out that change nothing."""
    (_, before), *later = ((at_ns, line[at_ns]) for at_ns in sorted(line))
    flat, terms = before, []
    for at_ns, values in later:
        if changed := {name: value for name, value in values.items() if value != before[name]}:
            terms.append(DatedTerms.model_construct(effective_from=to_datetime(at_ns), **changed))
        before = values
    return tenant.model_copy(update={**flat, "terms": tuple(terms)})

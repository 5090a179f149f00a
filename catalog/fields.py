"""The scalar types of the catalog, each bounded by what makes sense; the bounds are in the published schema too."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, partial
from typing import Annotated, Any, Final
from zoneinfo import available_timezones

import pycountry
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from stdnum import exceptions as stdnum_errors
from stdnum import iban

from catalog.patterns import Matcher
from catalog.text import text_fault

PSEUDO_ZONES: Final = frozenset({"Factory", "localtime", "posixrules"})
"""Names in a time zone database that are no place: what they mean depends on the machine."""
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)
"""Instants of a catalog lie between these, well inside what nanoseconds in 64 bits can name."""
NO_MONEY: Final = frozenset(
    [
        "XAD",
        "XAG",
        "XAU",
        "XBA",
        "XBB",
        "XBC",
        "XBD",
        "XDR",
        "XPD",
        "XPT",
        "XSU",
        "XTS",
        "XUA",
        "XXX",
        "CHE",
        "CHW",
        "CLF",
        "COU",
        "MXV",
        "USN",
        "UYI",
        "UYW",
    ]
)
"""ISO 4217 codes in which nobody can pay an invoice: metals, units of account, test codes."""
EMPTY_KEY: Final = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

_DATED: Final = re.compile(r"\s*\d{4}-\d{2}-\d{2}")
_EMAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_DNS_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")


class Value(BaseModel):
    """Frozen, and strict about unknown fields: a typo is an error, not silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def must(holds: Callable[[Any], bool], fault: str, when: type = AfterValidator) -> Any:
    """Refuse a value of which this does not hold, in these words."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(fault)
        return value

    return when(check)


@cache
def _zones() -> frozenset[str]:
    places = (name for name in available_timezones() if not name.startswith(("posix/", "right/", "SystemV/")))
    return frozenset(places) - PSEUDO_ZONES


@cache
def _currencies() -> frozenset[str]:
    return frozenset(currency.alpha_3 for currency in pycountry.currencies) - NO_MONEY


@cache
def countries() -> frozenset[str]:
    """The ISO 3166 codes of two letters."""
    return frozenset(country.alpha_2 for country in pycountry.countries)


def _matches_linearly(pattern: str) -> str:
    Matcher(pattern)
    return pattern


def _for_people(text: str, *, lines: bool = False) -> str:
    if fault := text_fault(text, lines=lines):
        raise ValueError(fault)
    return text


def _is_written_out(value: Any) -> bool:
    return not isinstance(value, bool | int | float | Decimal) and not (
        isinstance(value, str) and not _DATED.match(value)
    )


def _is_email(text: str) -> bool:
    local, _, domain = text.partition("@")
    labels = map(_DNS_LABEL.fullmatch, domain.split("."))
    return _EMAIL.fullmatch(text) is not None and ".." not in f".{local}." and all(labels)


def _iban(text: str) -> str:
    try:
        iban.validate(text)
    except stdnum_errors.ValidationError as error:
        raise ValueError(f"not an IBAN: {error}") from error
    return text


_SPAN: Final = f"must lie between {EARLIEST:%Y-%m-%d} and {LATEST:%Y-%m-%d}"
refuse_bool: Final = must(
    lambda value: not isinstance(value, bool), "must be a number, not true or false", BeforeValidator
)
_dated: Final = must(
    _is_written_out, "must be written out, such as 2026-10-01 or 2026-10-01T00:00:00Z", BeforeValidator
)
_line: Final = AfterValidator(_for_people)

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Line = Annotated[str, Field(max_length=200), _line]
"""One line of text for people, as a document can hold it."""
TaxId = Annotated[str, Field(max_length=40), _line]
Reference = Annotated[str, Field(max_length=60), _line]
Prose = Annotated[str, Field(max_length=2_000), AfterValidator(partial(_for_people, lines=True))]
"""Text for people, of several lines if need be."""
Location = Annotated[str, Field(max_length=4_096), _line]
"""A path, a name in a hub, or a built-in thing."""
Email = Annotated[str, Field(max_length=254), must(_is_email, "not an e-mail address")]
Iban = Annotated[str, Field(max_length=42), AfterValidator(_iban)]
Zone = Annotated[
    str,
    Field(max_length=64),
    must(lambda name: name in _zones(), "not a time zone of the IANA database (such as Europe/Berlin or UTC)"),
]
Pattern = Annotated[str, Field(min_length=1), AfterValidator(_matches_linearly)]
Currency = Annotated[
    str,
    Field(pattern=r"^[A-Z]{3}$"),
    must(lambda code: code in _currencies(), "not the ISO 4217 code of a currency that invoices are paid in"),
]
Series = Annotated[str, Field(pattern=r"^[A-Z0-9][A-Z0-9-]{0,11}$")]
KeyHash = Annotated[
    str,
    Field(pattern=r"^sha256:[0-9a-f]{64}$"),
    must(lambda key: key != EMPTY_KEY, "is the hash of an empty key, which nobody can send"),
]

Instant = Annotated[AwareDatetime, _dated, must(lambda at: EARLIEST <= at <= LATEST, _SPAN)]
Day = Annotated[date, _dated, must(lambda day: EARLIEST.date() <= day <= LATEST.date(), _SPAN)]

Price = Annotated[Decimal, Field(ge=0, le=10**12, max_digits=20, decimal_places=6), refuse_bool]
Share = Annotated[Decimal, Field(ge=0, le=1, max_digits=20, decimal_places=6), refuse_bool]
"""A part of a whole: 0.19 is 19 %."""
Factor = Annotated[Decimal, Field(ge=0, le=4, max_digits=20, decimal_places=6), refuse_bool]
"""A multiple: a percentage written without the point is far outside."""
Rate = Annotated[Decimal, Field(gt=0, le=10**9, max_digits=20, decimal_places=8), refuse_bool]
Seconds = Annotated[Decimal, Field(ge=Decimal("0.001"), le=3_600, max_digits=20, decimal_places=6), refuse_bool]
Quota = Annotated[int, Field(ge=1, le=10**12), refuse_bool]
Bytes = Annotated[int, Field(ge=0, le=1 << 50), refuse_bool]
"""Up to a pebibyte."""

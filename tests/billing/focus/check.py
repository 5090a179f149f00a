"""Our own gate over FOCUS rows as a file holds them: what other validators miss is checked here, row by row and in sum.

Rows are mappings from column to text, None where a cell is empty, as `read_csv` gives them.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from billing.exact.money import product, total
from billing.focus.model import ChargeCategory

Row = Mapping[str, str | None]

CATEGORIES: Final = {member.value for member in ChargeCategory}
_ALLOWED: Final[dict[str, set[str]]] = {
    "ChargeCategory": CATEGORIES,
    "ChargeClass": {"Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "InvoiceIssueStatus": {"Open", "Issued", "Voided"},
    "BillingPeriodStatus": {"Open", "Closed"},
    "CapacityReservationStatus": {"Used", "Unused"},
}
SUBCATEGORIES: Final = {
    "AI and Machine Learning": {
        "AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing", "Other (AI and Machine Learning)",
    },
    "Compute": {"Containers", "End User Computing", "Quantum Compute", "Serverless Compute", "Virtual Machines", "Other (Compute)"},
}  # fmt: skip
"""Categories of services that we sell or buy; any other would be a mistake of ours."""
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?")
_INSTANT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
_INSTANTS: Final = ("Start", "End", "Created", "LastUpdated", "IssueDate", "DueDate")
_NUMBERS: Final = ("Cost", "Price", "Quantity")
_JSON: Final = ("Tags", "AllocatedTags", "SkuPriceDetails", "AllocatedMethodDetails", "InvoiceDetailGrain")
_UNITS: Final = {"PricingQuantity": "PricingUnit", "ConsumedQuantity": "ConsumedUnit"}
_NOT_ON_TAX: Final = (
    "PricingQuantity", "PricingUnit", "ConsumedQuantity", "ConsumedUnit", "ListUnitPrice", "ContractedUnitPrice",
    "PricingCategory", "SkuId", "SkuPriceId", "SkuMeter", "SkuPriceDetails",
)  # fmt: skip


def read_csv(data: bytes) -> list[dict[str, str | None]]:
    """The rows of a CSV file."""
    rows = csv.DictReader(io.StringIO(data.decode()))
    return [{name: value or None for name, value in row.items()} for row in rows]


def faults(rows: Iterable[Row]) -> list[str]:
    """Every rule that a row breaks by itself, as `row N: Column ...`; rows are counted from 1. Empty when all is well."""
    return [f"row {number}: {fault}" for number, row in enumerate(rows, start=1) for fault in _faults(row)]


def sum_faults(charges: Iterable[Row], payable: Mapping[str, Decimal], column: str) -> list[str]:
    """Where BilledCost by `column` (InvoiceId, InvoiceDetailId) is not what `payable` says, or one side lacks the other."""
    sums: defaultdict[str, list[Decimal]] = defaultdict(list)
    for row in charges:
        sums[row[column] or ""].append(Decimal(row["BilledCost"] or 0))
    billed = {key: total(amounts) for key, amounts in sums.items()}
    keys = sorted(billed.keys() | {key for key, amount in payable.items() if amount})
    return [
        f"{column} {key}: charges sum to {billed.get(key, Decimal(0)):f}, payable is {payable.get(key)}"
        for key in keys
        if billed.get(key, Decimal(0)) != payable.get(key)
    ]


def split_faults(rows: Iterable[Row], bills: Mapping[tuple[str, str], Decimal]) -> list[str]:
    """Where the split of (resource, charge period start) does not sum to its bill, or its ratios do not sum to 1."""
    parts: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        parts[row["ResourceId"] or "", row["ChargePeriodStart"] or ""].append(row)
    found = []
    for key in sorted(parts.keys() | bills.keys()):
        cost = total(Decimal(row["BilledCost"] or 0) for row in parts[key])
        if cost != bills.get(key):
            found.append(f"{' '.join(key)}: allocated costs sum to {cost:f}, the bill is {bills.get(key)}")
        if (share := total(_ratio(row) for row in parts[key])) != 1:
            found.append(f"{' '.join(key)}: allocated ratios sum to {share:f}")
    return found


def _faults(row: Row) -> Iterator[str]:
    for column, value in row.items():
        if value is not None and (fault := _cell_fault(column, value)):
            yield f"{column} {fault}: {value!r}"
    if "ChargeCategory" in row and "ChargePeriodStart" in row:
        yield from _charge_faults(row)


def _cell_fault(column: str, value: str) -> str | None:
    if value != value.strip():
        return "has space around it"
    if column in _ALLOWED and value not in _ALLOWED[column]:
        return f"is not one of {sorted(_ALLOWED[column])}"
    if column.endswith("Currency"):
        return None if re.fullmatch(r"[A-Z]{3}", value) else "is not a currency code"
    if column.startswith("x_"):
        return None
    if column.endswith(_NUMBERS):
        if not _NUMBER.fullmatch(value):
            return "is not a number as FOCUS writes it"
        return "is negative" if column.endswith("UnitPrice") and value.startswith("-") else None
    if column.endswith(_INSTANTS):
        return None if _INSTANT.fullmatch(value) else "is not an instant in UTC like 2026-10-01T00:00:00Z"
    return _json_fault(column, value) if column in _JSON else None


def _json_fault(column: str, value: str) -> str | None:
    try:
        parsed = json.loads(value, parse_float=Decimal)
    except ValueError:
        return "is not JSON"
    if not isinstance(parsed, dict):
        return "is not a JSON object"
    if column == "AllocatedMethodDetails":
        ratios = [Decimal(element["AllocatedRatio"]) for element in parsed["Elements"]]
        return "has a ratio outside 0 to 1" if any(not 0 <= ratio <= 1 for ratio in ratios) else None
    return None


def _charge_faults(row: Row) -> Iterator[str]:
    category, correction = row["ChargeCategory"], row["ChargeClass"] is not None
    subcategory = row["ServiceSubcategory"]
    if subcategory not in SUBCATEGORIES.get(row["ServiceCategory"] or "", set()):
        yield f"ServiceSubcategory {subcategory!r} does not belong to {row['ServiceCategory']!r}"
    for quantity, unit in _UNITS.items():
        if (row[quantity] is None) != (row[unit] is None):
            yield f"{unit} and {quantity} must both be there, or neither"
    if category == "Tax":
        yield from (f"{column} must be null on a Tax row" for column in _NOT_ON_TAX if row[column] is not None)
    if category != "Usage" and row["ConsumedQuantity"] is not None:
        yield "ConsumedQuantity is for Usage only"
    if category in ("Usage", "Purchase") and not correction:
        yield from (
            f"{column} must not be null on a {category} row"
            for column in ("PricingQuantity", "ListUnitPrice", "ContractedUnitPrice", "SkuId", "SkuPriceId")
            if row[column] is None
        )
    yield from (
        f"{column} {row[column]} is not BilledCost {row['BilledCost']}, and no price of ours hides a discount"
        for column in ("EffectiveCost", "ListCost", "ContractedCost")
        if row[column] != row["BilledCost"]
    )
    if (row["ChargePeriodStart"] or "") >= (row["ChargePeriodEnd"] or ""):
        yield "ChargePeriodEnd is not after ChargePeriodStart"
    yield from _price_faults(row)


def _price_faults(row: Row) -> Iterator[str]:
    """Cost = unit price x quantity, to the last digit: a tolerance would hide what adds up over many rows."""
    for cost, price in (
        ("ListCost", "ListUnitPrice"),
        ("ContractedCost", "ContractedUnitPrice"),
        ("PricingCurrencyEffectiveCost", "PricingCurrencyContractedUnitPrice"),
    ):
        stated = [row[column] for column in (cost, price, "PricingQuantity")]
        if all(value is not None and _NUMBER.fullmatch(value) for value in stated):
            amount, unit_price, quantity = (Decimal(value or 0) for value in stated)
            if product(unit_price, quantity) != amount:
                yield f"{cost} {amount} is not {price} x PricingQuantity = {product(unit_price, quantity):f}"


def _ratio(row: Row) -> Decimal:
    details: Mapping[str, Sequence[Mapping[str, Decimal]]] = json.loads(
        row["AllocatedMethodDetails"] or "{}", parse_float=Decimal
    )
    return total(Decimal(element["AllocatedRatio"]) for element in details.get("Elements", ()))

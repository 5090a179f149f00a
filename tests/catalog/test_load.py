"""A catalog is right as a whole, or every problem in it is told at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from catalog.load import CatalogInvalid, load, parse, version
from catalog.model import Catalog, json_schema

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "catalog.yaml"


def test_the_example_is_valid_and_its_version_is_its_content() -> None:
    catalog = load(EXAMPLE)
    assert len(catalog.tenants) >= 5
    assert [a.rank for a in catalog.adapters] == [8, 8, 16, 16, 32, 32, 64, 64]
    assert version(catalog) == version(load(EXAMPLE))
    assert version(catalog) != version(catalog.model_copy(update={"tenants": catalog.tenants[:-1]}))


def test_all_reference_problems_are_told_together() -> None:
    raw = yaml.safe_load(EXAMPLE.read_text())
    raw["tenants"][0]["adapters"].append("ghost")
    raw["tenants"][1]["default_adapter"] = "brand-voice"
    raw["tenants"][2]["currency"] = "JPY"
    raw["adapters"][0]["owner"] = "nobody"
    raw["engines"][0]["gpu_type"] = "h200"
    raw["tenants"].append(dict(raw["tenants"][3], key_hashes=[]))
    with pytest.raises(CatalogInvalid) as caught:
        parse(yaml.safe_dump(raw), "x.yaml")
    text = str(caught.value)
    assert text.startswith("could not use catalog x.yaml: 6 problems")
    for words in (
        "'ghost'",
        "'brand-voice' is not granted",
        "JPY has no exchange rate",
        "'nobody'",
        "'h200' has no price",
        "'forge' appears 2 times",
    ):
        assert words in text


def test_wrong_values_are_told_with_their_path_beside_broken_references() -> None:
    raw = yaml.safe_load(EXAMPLE.read_text())
    raw["engines"][0]["gpu_count"] = 0
    raw["tenants"][0]["slo"]["p99_seconds"] = "-1"
    raw["tenants"][1]["time_zone"] = "Mars/Base"
    raw["tenants"][2]["adapters"] = ["ghost"]
    raw["routing"][1]["pattern"] = "("
    raw["typo"] = True
    with pytest.raises(CatalogInvalid) as caught:
        parse(yaml.safe_dump(raw), "x.yaml")
    paths = [p.split(":")[0] for p in caught.value.problems]
    assert {
        "engines[0].gpu_count",
        "tenants[0].slo.p99_seconds",
        "tenants[1].time_zone",
        "typo",
        "tenants[2].adapters",
    } <= set(paths)
    assert any(p.startswith("routing[1]") for p in paths)


@pytest.mark.parametrize(
    ("text", "words"), [("[1", "not YAML"), ("- 1", "mapping at the top")], ids=["broken yaml", "a list"]
)
def test_text_that_is_no_catalog_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(CatalogInvalid, match=words):
        parse(text, "x.yaml")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogInvalid, match=r"absent\.yaml: 1 problem\n  cannot be read"):
        load(tmp_path / "absent.yaml")


def test_the_price_of_an_instant_is_the_last_that_started_before_it() -> None:
    raw = yaml.safe_load(EXAMPLE.read_text())
    raw["prices"]["gpu_hours"].append({"gpu_type": "demo-cpu", "start": "2026-10-16T00:00:00Z", "per_hour": "4000"})
    catalog = parse(yaml.safe_dump(raw), "x.yaml")
    book = catalog.prices
    change = book.gpu_hours[1].start
    assert book.price("demo-cpu", change) == 4000
    assert book.price("demo-cpu", change.replace(day=15)) == 3600
    assert book.price("demo-cpu", change.replace(year=2020)) is None


def test_money_that_contradicts_itself_is_told_with_its_path() -> None:
    raw = yaml.safe_load(EXAMPLE.read_text())
    clinic, bank, shop, forge, *_ = raw["tenants"]
    clinic["tax_treatment"] = "reverse_charge"
    bank |= {"currency": "USD", "discounts": [{"id": "a", "fraction": "0.1"}, {"id": "a", "fraction": "0.2"}]}
    shop["discounts"] = [
        {"id": "back", "fraction": "0.1", "start": "2026-11-01T00:00:00Z", "until": "2026-10-01T00:00:00Z"}
    ]
    forge |= {"tax_treatment": "reverse_charge", "tax_id": None}
    rate = {"currency": "USD", "day": "2026-10-30", "rate": "1.0842", "source": "ECB"}
    prices = raw["prices"]
    prices["fx"] = [rate, dict(rate, rate="1.1"), dict(rate, currency="EUR")]
    prices["gpu_hours"].append(dict(prices["gpu_hours"][0], per_hour="1"))
    raw["earlier_prices"] = [dict(prices, fx=[], gpu_hours=[], currency="USD")]
    with pytest.raises(CatalogInvalid) as caught:
        parse(yaml.safe_dump(raw), "x.yaml")
    assert sorted(caught.value.problems) == [
        "earlier_prices[0].currency: USD is not the current book's EUR",
        "prices.effective_from: holds and is known from the same instants as earlier_prices[0]; which one holds cannot be told",
        "prices.fx: 'USD on 2026-10-30' appears 2 times",
        "prices.fx: EUR is the book's own currency",
        "prices.gpu_hours: 'demo-cpu from 2026-01-01T00:00:00+00:00' appears 2 times",
        "prices.version: 'example-1' appears 2 times",
        "tenants[0].tax_rate: must be 0 where tax_treatment is reverse_charge",
        "tenants[1].discounts: 'a' appears 2 times",
        "tenants[2].discounts: 'back' ends before it starts",
        "tenants[3].tax_id: reverse charge needs the customer's VAT id",
    ]


def test_a_rate_of_the_currency_is_enough_to_be_invoiced_in_it() -> None:
    raw = yaml.safe_load(EXAMPLE.read_text())
    raw["tenants"][3]["currency"] = "USD"
    raw["prices"]["fx"] = [{"currency": "USD", "day": "2026-10-30", "rate": "1.0842", "source": "ECB"}]
    assert parse(yaml.safe_dump(raw), "x.yaml").prices.fx[0].day.isoformat() == "2026-10-30"


def test_the_published_schema_is_in_step() -> None:
    assert json.loads((ROOT / "catalog" / "schema.json").read_text()) == json.loads(json_schema())
    assert json.loads(json_schema())["title"] == Catalog.__name__

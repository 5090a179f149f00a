"""What is valid and odd is told, and stops nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from catalog.advice import warnings
from catalog.load import parse

EXAMPLE = (Path(__file__).parents[2] / "examples" / "catalog.yaml").read_text()


def odd(change: dict[str, Any]) -> list[str]:
    raw = yaml.safe_load(EXAMPLE)
    for path, value in change.items():
        *steps, last = (int(part) if part.isdecimal() else part for part in path.split("."))
        place = raw
        for step in steps:
            place = place[step]
        place[last] = value
    return warnings(parse(yaml.safe_dump(raw), "x.yaml"))


BASE = {"id": "base", "kind": "base"}
EXPLICIT = {"id": "explicit", "kind": "explicit"}
DEFAULT = {"id": "tenant-default", "kind": "tenant_default"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        (
            {f"adapters.{n}.warm": True for n in range(8)},
            ["max_cpu_loras: 8 adapters are warm and 6 have a place"],
        ),
        ({"tenants.0.tax_rate": "0.9"}, ["tenants[0].tax_rate: 0.9 is 90.0 %"]),
        ({"tenants.0.plan.margin": "2.5"}, ["tenants[0].plan.margin: 2.5 is 250.0 %"]),
        ({"tenants.2.plan.cached_input": "700"}, ["tenants[2].plan.cached_input: 700 is above"]),
        ({"tenants.0.tax_id": "DE811111112"}, ["tenants[0].tax_id: 'DE811111112' is not a VAT id as DE issues them"]),
        (
            {"tenants.0.tax_treatment": "export", "tenants.0.tax_rate": "0"},
            ["tenants[0].tax_treatment: export is for customers outside the European Union; a business in DE"],
        ),
        (
            {"tenants.3.tax_treatment": "reverse_charge"},
            ["tenants[3].tax_treatment: reverse_charge is for businesses in the European Union; services to one in IN"],
        ),
        (
            {"tenants.3.terms": [{"effective_from": "2026-11-01", "tax_treatment": "reverse_charge", "tax_id": "IN29"}]},
            ["tenants[3].tax_treatment: reverse_charge is for businesses in the European Union; services to one in IN"],
        ),
        ({"seller.address": ["Bahnhofstrasse 1", "CH"], "tenants.3.tax_treatment": "reverse_charge"}, []),
        ({"tenants.0.address": ["Lindenallee 4", "Berlin"]}, ["tenants[0].address: its last line is no ISO 3166"]),
        ({"tenants.0.adapters": ["icd10-coder"]}, ["adapters[1].name: 'clinic-tone' is granted to no tenant"]),
        ({"prices.gpu_hours.0.per_hour": "0"}, ["per_hour: a GPU-hour of demo-cpu costs nothing"]),
        ({"routing": [EXPLICIT, BASE, DEFAULT]}, ["routing[2]: rule 'tenant-default' can never decide"]),
        ({"routing": [BASE, EXPLICIT]}, ["routing[1]: rule 'explicit' can never decide"]),
        ({"routing": [EXPLICIT, {"id": "again", "kind": "explicit"}, BASE]}, ["routing[1]: rule 'again' can never"]),
        (
            {"routing": [DEFAULT, {"id": "split", "kind": "experiment", "tenants": ["forge"], "variants": {"code-review": 1}}, BASE]},
            ["routing[1]: rule 'split' can never decide"],
        ),
        (
            {"routing": [{"id": "split", "kind": "experiment", "tenants": ["campus"], "variants": {"code-review": 1}}, BASE]},
            ["routing[0]: rule 'split' can never decide"],
        ),
        (
            {"routing": [{"id": "all", "kind": "content", "pattern": "a*", "adapter": "icd10-coder"}, BASE]},
            ["routing[0].pattern: matches every text"],
        ),
    ],
)  # fmt: skip
def test_what_is_odd_is_told(change: dict[str, Any], words: list[str]) -> None:
    found = odd(change)
    assert len(found) == len(words), found
    assert all(word in warning for word, warning in zip(words, found, strict=True))

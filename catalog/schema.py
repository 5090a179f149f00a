"""The catalog's JSON Schema, published as `catalog/schema.json` for editors and other programs."""

from __future__ import annotations

import json

from catalog.model import Catalog


def json_schema() -> str:
    """The schema as indented JSON text that ends with a newline."""
    return json.dumps(Catalog.model_json_schema(), indent=2) + "\n"

from __future__ import annotations

import re

import pytest

from billing.store import queries
from billing.store.clickhouse import Ledger


@pytest.mark.parametrize("name", queries.names())
def test_a_named_query_is_one_statement_that_says_what_it_answers_and_parses(shared_ledger: Ledger, name: str) -> None:
    text = queries.text(name)
    assert text.startswith("-- ")
    assert ";" not in text
    assert not re.search(r"\{[a-z_]+\}|%s|%\(", text), "parameters are {name:Type}"
    values = {"Int64": "0", "String": "''", "Bool": "true", "Array(String)": "['x']", "Array(Int64)": "[0]"}
    bound = re.sub(r"\{[a-z_]+:([A-Za-z0-9()]+)\}", lambda match: values[match[1]], text)
    shared_ledger.ask(f"EXPLAIN {bound}")

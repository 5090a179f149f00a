from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.settings import Settings, SettingsInvalid, patient


def test_the_environment_says_where_things_are() -> None:
    settings = Settings.from_environ(
        {
            "LORALEDGER_DSN": "https://u:p@clickhouse:8443",
            "LORALEDGER_SPOOL": "/s",
            "LORALEDGER_CATALOG": "/c.yaml",
            "LORALEDGER_OUT": "/o",
            "LORALEDGER_SNAPSHOT": "/n.json",
            "LORALEDGER_START": "2025-07-01",
        }
    )
    places = Path("/s"), Path("/c.yaml"), Path("/o"), Path("/n.json")
    assert settings == Settings("https://u:p@clickhouse:8443", *places, "2025-07-01")


def test_the_wait_for_an_embedded_ledger_goes_into_its_dsn_unless_that_says_one() -> None:
    patience = {"LORALEDGER_WAIT_S": "90"}
    assert patient("chdb:///l", patience) == "chdb:///l?wait_s=90"
    assert patient("chdb:///l?wait_s=1", patience) == "chdb:///l?wait_s=1"
    assert patient("https://u:p@clickhouse:8443", patience) == "https://u:p@clickhouse:8443"
    assert patient("chdb:///l", {}) == "chdb:///l"


def test_all_problems_come_together() -> None:
    with pytest.raises(SettingsInvalid) as error:
        Settings.from_environ({"LORALEDGER_DSN": "", "LORALEDGER_OUT": "", "LORALEDGER_START": "July"})
    assert len(error.value.problems) == 3

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from alerts.generated_files import stale, write
from dashboards.generate import GENERATED, files, main
from dashboards.panels import CLICKHOUSE, PROMETHEUS


def test_the_committed_files_are_what_would_be_written_now() -> None:
    assert stale(GENERATED, files()) == []
    assert {str(path.relative_to(GENERATED)) for path in GENERATED.rglob("*") if path.is_file()} == set(files())


def test_check_names_what_is_out_of_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(write(tmp_path, files())) == len(files())
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / "loraledger-money.json").unlink()
    assert main(["--check", str(tmp_path)]) == 1
    assert "loraledger-money.json is out of date" in capsys.readouterr().err


def test_data_sources_have_fixed_uids_of_the_types_that_boards_choose_among_and_no_secret() -> None:
    found = yaml.safe_load((GENERATED / "provisioning/datasources/loraledger.yaml").read_text())["datasources"]
    assert [source["type"] for source in found] == [PROMETHEUS["type"], CLICKHOUSE["type"]]
    assert all(source["uid"] and source["editable"] is False for source in found)
    assert found[1]["secureJsonData"] == {"password": "$LORALEDGER_CLICKHOUSE_PASSWORD"}


def test_boards_are_changed_in_the_repository_only() -> None:
    (provider,) = yaml.safe_load((GENERATED / "provisioning/dashboards/loraledger.yaml").read_text())["providers"]
    assert provider["disableDeletion"] is True
    assert provider["allowUiUpdates"] is False

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.generate import GENERATED, files, main
from alerts.generated_files import stale, write


def test_the_committed_files_are_what_would_be_written_now() -> None:
    assert stale(GENERATED, files()) == []
    assert {path.name for path in GENERATED.iterdir()} == set(files())


def test_check_names_what_is_out_of_date_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [path.name for path in write(tmp_path, files())] == list(files())
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / "rules.yaml").write_text("groups: []\n")
    assert main(["--check", str(tmp_path)]) == 1
    assert "rules.yaml is out of date" in capsys.readouterr().err
    assert (tmp_path / "rules.yaml").read_text() == "groups: []\n"


def test_link_prefixes_come_from_the_command_line(tmp_path: Path) -> None:
    assert main([str(tmp_path), "--runbooks", "https://wiki.example.org/"]) == 0
    assert "https://wiki.example.org/LoraEngineDown" in (tmp_path / "rules.yaml").read_text()

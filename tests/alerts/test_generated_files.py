from __future__ import annotations

from pathlib import Path

import pytest

from alerts.generated_files import stale, write, write_or_check

FILES = {"one.yaml": "a: 1\n", "below/two.json": "{}\n"}


def test_what_was_written_is_in_date_until_it_is_changed_or_gone(tmp_path: Path) -> None:
    assert stale(tmp_path, FILES) == write(tmp_path, FILES) == [tmp_path / "one.yaml", tmp_path / "below/two.json"]
    assert stale(tmp_path, FILES) == []
    (tmp_path / "one.yaml").write_text("a: 2\n")
    (tmp_path / "below/two.json").unlink()
    assert stale(tmp_path, FILES) == [tmp_path / "one.yaml", tmp_path / "below/two.json"]


def test_check_writes_nothing_and_says_what_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write_or_check(tmp_path, FILES, True, "make generate") == 1
    assert list(tmp_path.iterdir()) == []
    assert f"{tmp_path}/one.yaml is out of date: run make generate\n" in capsys.readouterr().err
    assert write_or_check(tmp_path, FILES, False, "make generate") == 0
    assert write_or_check(tmp_path, FILES, True, "make generate") == 0

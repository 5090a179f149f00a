"""YAML is read strictly, within bounds, and whatever bytes a file holds the answer is a catalog or words."""

from __future__ import annotations

import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.load import CatalogInvalid, load
from catalog.strict_yaml import MAX_BYTES, NotStrict, read_yaml

EXAMPLE = (Path(__file__).parents[2] / "examples" / "catalog.yaml").read_bytes()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("a: 1\nb: {c: 1,\n c: 2}\na: 3", "line 3: the key 'c' is given again; line 2 has it"),
        ("a: 1\nb: {c: 1,\n c: 2}\na: 3", "line 4: the key 'a' is given again; line 1 has it"),
        ("'a': 1\n\"a\": 3", "line 2: the key 'a' is given again; line 1 has it"),
        ("a: 1\n---\na: 2", "line 2: a second document"),
        ("1: a", "line 1: the key 1 is no text"),
        ("true: a", "the key True is no text"),
        ("? [a]\n: b", "the key ['a'] is no text"),
        ("a:\n\tb: 1", "line 2: not YAML"),
        ("a: !!python/name:os.system x", "the tag tag:yaml.org,2002:python/name:os.system is not supported"),
        ("a: !env x", "the tag !env is not supported"),
        ("a: &x [*x]", "*x stands for nothing that was complete"),
        ("a: *x", "line 1: "),
        ("<<: 1", "<< must stand before a mapping"),
        ("a: \x00", "not YAML"),
        ("- " * 40 + "x", "nested more than 32 deep"),
        ("[" * 100_000, "not YAML"),
        ("a: [1", "line 2: not YAML"),
        ("a: \ud800", "not YAML"),
    ],
)
def test_what_yaml_lets_pass_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(NotStrict) as caught:
        read_yaml(text)
    assert any(words in problem for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: no\nb: on\nc: y", {"a": "no", "b": "on", "c": "y"}),
        ("[010, 12:30, 0x1f, 1_000]", [10, "12:30", "0x1f", "1_000"]),
        ("[0.19, 1e3, '0.19', .inf]", [Decimal("0.19"), Decimal(1000), "0.19", ".inf"]),
        ("[2026-10-01, 2026-13-45]", ["2026-10-01", "2026-13-45"]),
        ("[null, ~, 'null', true, 'true']", [None, None, "null", True, "true"]),
        ("base: &b {x: 1, y: 2}\nc: {<<: *b, x: 3}\nd: *b", {"base": {"x": 1, "y": 2}, "c": {"x": 3, "y": 2}, "d": {"x": 1, "y": 2}}),
        ("\ufeffa: 1", {"a": 1}),
        ("--- a\n...\n", "a"),
    ],
)  # fmt: skip
def test_scalars_mean_what_they_look_like(text: str, value: Any) -> None:
    assert read_yaml(text) == value


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    merges = ["m0: &m0 {k: v}", *(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}" for i in range(1, 30))]
    for bomb in (lines, merges):
        begun = time.process_time()
        with pytest.raises(NotStrict, match="unfolds to more than"):
            read_yaml("\n".join(bomb))
        assert time.process_time() - begun < 1


def _told(path: Path) -> list[str]:
    with pytest.raises(CatalogInvalid) as caught:
        load(path)
    return caught.value.problems


def test_a_file_that_is_no_text_or_no_file_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_bytes(EXAMPLE.replace(b"Lindenhof", "Lindenhöf".encode("latin-1")))
    line = EXAMPLE[: EXAMPLE.index(b"Lindenhof")].count(b"\n") + 1
    assert _told(path) == [f"line {line}: byte 0xf6 is not UTF-8; save the file as UTF-8"]
    path.write_bytes(EXAMPLE.decode().encode("utf-16"))
    assert "is not UTF-8" in _told(path)[0]
    path.write_bytes(b"a" * (MAX_BYTES + 1))
    assert "more than" in _told(path)[0]
    path.unlink()
    path.mkdir()
    assert "not a regular file" in _told(path)[0]
    path.rmdir()
    os.mkfifo(path)
    assert "not a regular file" in _told(path)[0]


@given(st.binary(max_size=200) | st.text(alphabet=":-[]{}&*!|>'\"%@#, \n\ta1?<", max_size=60).map(str.encode))
def test_any_bytes_are_a_catalog_or_words(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(raw)
    assert _told(path)


@settings(deadline=None, max_examples=60)
@given(
    at=st.integers(0, len(EXAMPLE) - 1),
    take=st.integers(0, 40),
    put=st.binary(max_size=4) | st.sampled_from([b"[", b"{", b"null", b"5", b"[[1]]", b"{a: 1}", b"- x\n", b"\xff"]),
)
def test_any_change_of_a_catalog_is_a_catalog_or_words(
    tmp_path_factory: pytest.TempPathFactory, at: int, take: int, put: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.yaml"
    path.write_bytes(EXAMPLE[:at] + put + EXAMPLE[at + take :])
    try:
        assert load(path).tenants is not None
    except CatalogInvalid as error:
        assert error.problems  # noqa: PT017


@pytest.mark.parametrize("value", [5, "x", [5], [[1]], [{"name": ["a"]}], {"a": 1}, [None]], ids=repr)
@pytest.mark.parametrize("field", ["adapters", "tenants", "engines", "routing", "prices", "seller", "base_model"])
def test_a_value_of_another_type_anywhere_is_told(tmp_path: Path, field: str, value: Any) -> None:
    raw = read_yaml(EXAMPLE.decode())
    raw[field] = value
    raw["tenants"] = [{"adapters": 7}, {"adapters": [[1]]}] if field != "tenants" else value
    path = tmp_path / "catalog.yaml"
    path.write_text(repr(raw).replace("Decimal(", "(").replace("True", "true").replace("None", "null"))
    assert _told(path)

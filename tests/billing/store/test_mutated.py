"""Whatever is done to OTLP messages and lines, reading them never raises, and what is sound beside them arrives exactly once."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from billing.exact.periods import to_ns
from billing.store.clickhouse import Ledger
from billing.store.intake.ingest import ingest
from billing.store.intake.sorting import Sorted, sort
from billing.store.intake.sources import Line
from billing.store.intake.usage import book_spans
from catalog.model import Catalog
from telemetry.errors import LineInvalid
from telemetry.otlp_decode import parse_line
from telemetry.otlp_encode import span_line
from telemetry.otlp_receive import received
from telemetry.usage import Status, UsageRecord

S: Final = 1_000_000_000
NOW_NS: Final = 1_791_000_000 * S
ODD: Final = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), st.text(), st.sampled_from(["\0", "\ud800", "loraledger.", "NaN"]),
    st.just([]), st.just({}), st.just([[[]]]), st.just({"key": 1, "value": {"arrayValue": {"values": [None]}}}), st.sampled_from(["0", "-1", str(2**64), "1971"]),
)  # fmt: skip


def paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*here, key)
        yield from paths(part, (*here, key))


def mutated(draw: st.DrawFn, original: Any) -> Any:
    """One to three changes anywhere: another value, nothing, twice, or wrapped."""
    value = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        places = list(paths(value))
        if not places:
            return value
        *above, key = draw(st.sampled_from(places))
        owner = value
        for step in above:
            owner = owner[step]
        match draw(st.sampled_from(["value", "value", "gone", "twice", "wrapped"])):
            case "value":
                owner[key] = copy.deepcopy(draw(ODD))
            case "gone":
                del owner[key]
            case "twice" if isinstance(owner, list):
                owner.append(copy.deepcopy(owner[key]))
            case _:
                owner[key] = [owner[key]]
    return value


@st.composite
def bad_lines(draw: st.DrawFn, originals: list[Any]) -> list[str]:
    """Mutated messages as text, some cut off or with a byte changed."""
    lines = []
    for original in draw(st.lists(st.sampled_from(originals), min_size=1, max_size=12)):
        text = json.dumps(mutated(draw, original))
        if draw(st.integers(0, 5)) == 0:
            cut = draw(st.integers(0, len(text)))
            text = text[:cut] + draw(st.sampled_from(["", "\0", "}", '"'])) + text[cut + draw(st.integers(0, 3)) :]
        lines.append(text)
    return lines


def plain(seq: int) -> UsageRecord:
    at = 1_790_000_000 * S
    return UsageRecord(
        "crm", seq, f"r{seq}", "bank", at, at + S, Status.OK, input_tokens=9, output_tokens_delivered=4, slices=()
    )


FOREIGN: Final = span_line(
    "ab" * 16, "cd" * 8, "", "rerank", NOW_NS, NOW_NS + 1, {"n": 1, "f": 0.5, "l": ["a"]}, {"service.name": "x"}
)
SOUND: Final = json.loads(FOREIGN)


@settings(max_examples=150, deadline=None)
@given(bad_lines([SOUND]))
def test_a_message_to_the_endpoint_is_taken_or_refused_and_what_was_taken_can_be_read_back(lines: list[str]) -> None:
    for text in lines:
        try:
            taken = received(text.encode("utf-8", "surrogatepass"), protobuf=False, now_ns=NOW_NS)
        except LineInvalid:
            continue
        spans = parse_line(taken.line).spans if taken.line is not None else []
        assert len(spans) == taken.spans
        found = Sorted()
        sort(Line(1, taken.line or "", 1), "x", found, NOW_NS)
        assert (len(found.spans), found.bad, found.dropped.total()) == (taken.spans, [], 0)


@settings(max_examples=150, deadline=None)
@given(bad_lines([SOUND]))
def test_the_neighbours_of_a_bad_span_arrive(lines: list[str]) -> None:
    good = SOUND["resourceSpans"][0]
    for text in lines:
        try:
            bad = json.loads(text)["resourceSpans"]
            assert isinstance(bad, list)
        except (ValueError, KeyError, TypeError, AssertionError):
            continue
        body = json.dumps({"resourceSpans": [good, *bad, good]})
        assert received(body.encode(), protobuf=False, now_ns=NOW_NS).spans >= 2


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_ingest_never_raises_and_good_neighbours_are_booked_exactly_once(
    ledger: Ledger,
    messages: list[Any],
    example: Catalog,
    now: datetime,
    tmp_path: Path,
    numbers: Iterator[int],
    data: st.DataObject,
) -> None:
    lines = data.draw(bad_lines(messages))
    good = [plain(next(numbers)) for _ in lines]
    path = tmp_path / f"{good[0].seq}.jsonl"
    pairs = [
        text.encode("utf-8", "surrogatepass") + b"\n" + record.to_json().encode() + b"\n"
        for text, record in zip(lines, good, strict=True)
    ]
    path.write_bytes(b"".join(pairs))
    before = _seqs(ledger)
    report = ingest(ledger, [path], example, now)
    assert (report.skipped, report.torn) == ((), 0)
    book_spans(ledger, to_ns(now) - 90 * 86400 * S, to_ns(now), example, now)
    seqs = _seqs(ledger)
    assert [seq for seq in seqs if seq not in before] == [record.seq for record in good]
    again = ingest(ledger, [path], example, now)
    assert (again.records, again.quarantined) == (0, 0)


@pytest.fixture
def numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def messages(traffic: Any, ns: Callable[..., int]) -> list[Any]:
    """What a gateway wrote, a plain record of another system, and a span of another service."""
    t0 = ns(2026, 10, 5, 10)
    traffic.serve("campus", t0, 1000)
    traffic.serve("clinic", t0 + S, 1000)
    other = replace(plain(1), emitter="erp")
    return [*(json.loads(line) for line in traffic.lines), json.loads(other.to_json()), SOUND]


def _seqs(ledger: Ledger) -> list[int]:
    return [seq for (seq,) in ledger.ask("SELECT seq FROM usage WHERE emitter = 'crm' ORDER BY seq").rows]

"""Every event arrives as it was sent, and what does not arrive leaves a countable hole."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from serving.errors import ChannelClosed, EventInvalid
from serving.wire.channel import Ended, Message, Occupancy, OutgoingMessage, Receiver, Sender, decode
from serving.wire.events import (
    Aborted,
    Bye,
    EngineStep,
    Entered,
    Hello,
    Loaded,
    LoadSpan,
    Mark,
    PrefixHit,
    Rows,
    StepRow,
    Woke,
)
from telemetry.engine_time import SystemCause

SPAN = LoadSpan("law", "activate", 5, 9, True, 0)
MESSAGES: list[Message] = [
    Hello("eng-1", "cpu-0", 1, 2**62),
    Woke(3),
    Entered("chat-1", "gw-1:0", "bank", None, 12, 4),
    Loaded((SPAN,)),
    EngineStep(7, 10, 20, (StepRow("chat-1", 12, 0),), (("chat-1", 4),), ("chat-1",), (), (SPAN,), False),
    EngineStep(
        8,
        20,
        30,
        (StepRow("chat-3", 4, 64),),
        (("chat-3", 64),),
        (),
        (),
        (),
        True,
        hits=(PrefixHit("chat-3", "gw-1:0", 0, 64),),
    ),
    Aborted(("chat-2",), 30, True),
    Occupancy(3, 100, ("law@12345678",), ("law@12345678", "med@12345678")),
    Bye(40),
]


def encode(number: int, message: OutgoingMessage) -> bytes:
    return msgspec.msgpack.encode((number, type(message).__name__, message))


def ended(seq: int, requests: list[str], before: list[int], tokens: list[int] | None = None) -> Ended:
    marks = (Mark(SystemCause.METER, 1, 2),)
    rows = Rows(requests, tokens or [1] * len(requests), before)
    return Ended(seq, seq, seq + 1, rows, (), (), (), (), True, marks)


def received(receiver: Receiver, most: int) -> list[Message]:
    got: list[Message] = []
    while len(got) < most and receiver.wait(5):
        while (message := receiver.take()) is not None:
            got.append(message)
    return got


@pytest.mark.parametrize("message", [*MESSAGES, ended(1, ["a"], [0])], ids=lambda m: type(m).__name__)
def test_a_message_survives_the_channel(message: OutgoingMessage) -> None:
    number, found = decode(encode(5, message))
    assert (number, found, type(found)) == (5, message, type(message))


@pytest.mark.parametrize("frame", [b"", b"\xc1", b"\x93\x01\xa3Foo\x90", encode(0, MESSAGES[1])[:-1]])
def test_a_frame_that_is_not_ours_is_refused(frame: bytes) -> None:
    with pytest.raises(EventInvalid):
        decode(frame)


def test_messages_arrive_in_order_and_skipped_ones_are_counted(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/m"
    receiver, sender = Receiver(address), Sender(address)
    for message in MESSAGES[:3]:
        sender.send(message)
    sender.skip()
    sender.skip()
    sender.send(MESSAGES[3])
    assert received(receiver, 4) == MESSAGES[:4]
    assert (sender.lost, receiver.gaps) == (2, 2)
    sender.close()
    receiver.close()


def test_steps_arrive_with_all_their_rows_also_where_names_are_not_repeated(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/m"
    receiver, sender = Receiver(address), Sender(address)
    steps = [
        ended(0, ["a", "b"], [0, 0], [5, 7]),
        ended(1, ["a", "b"], [5, 7]),
        ended(2, [], []),
        ended(3, ["a", "b"], [6, 8]),
        ended(4, ["b"], [9]),
        ended(5, ["b"], [10]),
    ]
    for step in steps:
        sender.send(step)
    assert received(receiver, len(steps)) == [step.step() for step in steps]
    assert steps[0].step().rows == (StepRow("a", 5, 0), StepRow("b", 7, 0))
    sender.close()
    receiver.close()


def test_a_step_that_cannot_be_said_takes_no_other_with_it(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/m"
    receiver, sender = Receiver(address), Sender(address)
    for step in (ended(0, ["a"], [0]), ended(1, ["a"], [2**70]), ended(2, ["a"], [2]), ended(3, ["a"], [3, 4])):
        sender.send(step)
    with pytest.raises(EventInvalid, match="step 3"):
        received(receiver, 4)
    sender.close()
    assert (sender.lost, receiver.gaps) == (1, 1)
    receiver.close()


def test_what_the_socket_has_no_room_for_follows_in_order_without_anybody_waiting(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/m"
    receiver, sender = Receiver(address), Sender(address)
    names = [f"chat-{n:040d}" for n in range(256)]
    sent = [ended(seq, names[seq % 2 :], [seq] * (256 - seq % 2)) for seq in range(2_000)]
    began = time.monotonic()
    for step in sent:
        sender.send(step)
    assert time.monotonic() - began < 5, "nobody listened meanwhile"
    assert received(receiver, len(sent)) == [step.step() for step in sent]
    assert (sender.lost, receiver.gaps) == (0, 0)
    sender.close()
    receiver.close()


def test_messages_to_an_end_that_is_gone_are_counted(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/m"
    receiver, sender = Receiver(address), Sender(address)
    sender.send(MESSAGES[0])
    assert received(receiver, 1) == MESSAGES[:1]
    receiver.close()
    for message in MESSAGES[1:4]:
        sender.send(message)
    assert sender.lost == 3
    sender.close()
    nowhere = Sender("inproc://nobody")
    nowhere.send(MESSAGES[0])
    assert nowhere.lost == 1


def test_an_address_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/no/such/directory/m"
    with pytest.raises(ChannelClosed, match="no/such/directory"):
        Receiver(address)
    with pytest.raises(ChannelClosed, match="no/such/directory"):
        Sender(address)

"""Every event arrives as it was sent, and what does not arrive leaves a countable hole."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.errors import ChannelClosed, EventInvalid
from serving.metering.channel import Held, Message, Receiver, Sender, decode, encode
from serving.metering.events import Aborted, Bye, Entered, Hello, Loaded, LoadSpan, Row, Step, Woke

SPAN = LoadSpan("law", "activate", 5, 9, True, 0)
MESSAGES: list[Message] = [
    Hello("eng-1", "cpu-0", 1, 2**62),
    Woke(3),
    Entered("chat-1", "gw-1:0", "bank", None, 12, 4),
    Loaded((SPAN,)),
    Step(7, 10, 20, (Row("chat-1", 12, 0),), (("chat-1", 4),), ("chat-1",), (), (SPAN,), False),
    Aborted(("chat-2",), 30, True),
    Held(3, 100, ("law@12345678",), ("law@12345678", "med@12345678")),
    Bye(40),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_survives_the_channel(message: Message) -> None:
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
    got: list[Message] = []
    while len(got) < 4 and receiver.wait(5):
        while (message_ := receiver.take()) is not None:
            got.append(message_)
    assert got == MESSAGES[:4]
    assert (sender.lost, receiver.gaps) == (2, 2)
    sender.close()
    receiver.close()


def test_an_address_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/no/such/directory/m"
    with pytest.raises(ChannelClosed, match="no/such/directory"):
        Receiver(address)

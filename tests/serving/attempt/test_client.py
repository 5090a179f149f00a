"""A body is bounded whether its length was declared or it comes in pieces, and a client that leaves has sent none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from serving.attempt.client import Client
from serving.protocol.errors import ClientGone, Refusal

Pieces = Sequence[bytes | None]


def read(pieces: Pieces, declared: int | None, limit: int) -> tuple[bytes, int]:
    """The body that comes in these pieces (None: the client hangs up), and how many of them were taken for it."""
    waiting = list(pieces)

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        piece = waiting.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

    async def main() -> tuple[bytes, int]:
        client = Client(receive, None)  # type: ignore[arg-type]
        try:
            return await client.body(declared, limit, 5), len(pieces) - len(waiting)
        except Refusal as refusal:
            return str(refusal.http_status).encode(), len(pieces) - len(waiting)
        finally:
            client.close()

    return asyncio.run(main())


def test_a_body_in_pieces_is_whole_up_to_the_limit() -> None:
    assert read([b"abc", b"", b"def"], None, 6) == (b"abcdef", 3)
    assert read([b"abcdef"], 6, 6) == (b"abcdef", 1)


def test_more_than_the_limit_is_refused_where_it_passes_it_and_unread_where_it_was_declared() -> None:
    assert read([b"abc", b"def", b"g", b"h"], None, 6) == (b"413", 3)
    assert read([b"abcdefg"], None, 6) == (b"413", 1)
    assert read([b"abcdefg"], 7, 6) == (b"413", 0)
    assert read([b"abc", b"defg"], 3, 6) == (b"413", 2), "what is declared is not believed"


def test_a_client_that_leaves_has_sent_nothing() -> None:
    with pytest.raises(ClientGone):
        read([b"abc", None], None, 6)

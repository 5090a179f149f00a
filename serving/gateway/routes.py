"""Every route that the gateway or vLLM's application has, and what a client gets there. One table; the gateway serves by it.

Whatever is not in it is 404. `python -m serving.gateway.routes [--check]` prints the table into docs/api.md.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from serving.gateway.otlp import TRACES
from serving.protocol.operations import OPERATIONS

PAGE: Final = Path(__file__).parents[2] / "docs" / "api.md"
MODELS: Final = "/v1/models"
HEALTH: Final = "/health"
METRICS: Final = "/metrics"
COUNT: Final = "/v1/messages/count_tokens"
VERSION: Final = "/version"


class Served(StrEnum):
    """What becomes of a request."""

    METERED = "metered"
    PASSED = "passed on"
    OWN = "the gateway's own"
    CLOSED = "404"


@dataclass(frozen=True, slots=True)
class Route:
    """One path, `{...}` standing for one part of it or, last and with `:path`, for all that follows."""

    path: str
    methods: tuple[str, ...]
    served: Served
    why: str


def _pattern(path: str) -> str:
    parts = re.split(r"(\{[^}]*\})", path)
    kinds = {True: ".+", False: "[^/]+"}
    return "".join(kinds[part.endswith(":path}")] if part.startswith("{") else re.escape(part) for part in parts)


def _closed(why: str, *routes: tuple[str, str]) -> Iterator[Route]:
    return (Route(path, tuple(methods.split()), Served.CLOSED, why) for methods, path in routes)


_TOKENS: Final = "the tenant's own models only; nothing is computed"
_STORE: Final = "responses are not kept, so that no tenant can reach another's"
_OPERATORS: Final = "acts on or tells of the engine as a whole"
_UNMETERED: Final = "makes the engine or its front end work in a way that is not metered"
_ABSENT: Final = "the engine serves a model that generates text; vLLM has this for other kinds"

ROUTES: Final[tuple[Route, ...]] = (
    *(Route(path, ("POST",), Served.METERED, f"`{op.name}`") for path, op in OPERATIONS.items()),
    *(Route(path, ("POST",), Served.PASSED, _TOKENS) for path in ("/tokenize", "/detokenize", COUNT)),
    Route(VERSION, ("GET",), Served.PASSED, "vLLM's version, for any tenant"),
    Route(MODELS, ("GET",), Served.OWN, "the tenant's own models"),
    Route(MODELS + "/{model:path}", ("GET",), Served.OWN, "one of the tenant's own models"),
    Route(HEALTH, ("GET",), Served.OWN, "whether requests can be served"),
    Route(METRICS, ("GET",), Served.OWN, "for operators; 404 to others"),
    Route(TRACES, ("POST",), Served.OWN, "spans of other services, from operators; 404 to others"),
    *_closed(_STORE, ("GET", "/v1/responses/{response_id}"), ("POST", "/v1/responses/{response_id}/cancel")),
    *_closed(
        _UNMETERED,
        ("POST", "/v1/chat/completions/batch"),
        ("POST", "/v1/chat/completions/render"),
        ("POST", "/v1/chat/completions/derender"),
        ("POST", "/v1/completions/render"),
        ("POST", "/v1/completions/derender"),
        ("POST", "/v1/responses/render"),
        ("POST", "/v1/messages/render"),
        ("POST", "/v1/systemone"),
        ("POST", "/inference/v1/generate"),
        ("POST", "/invocations"),
        ("POST", "/generative_scoring"),
        ("POST", "/cohere/v2/chat"),
    ),
    *_closed(
        _OPERATORS,
        ("POST", "/inference/v1/abort_requests"),
        ("POST", "/abort_requests"),
        ("GET", "/load"),
        ("GET", "/kv_event_sources"),
        ("GET POST", "/ping"),
        ("GET", "/ready"),
        ("GET", "/readyz"),
        ("GET", "/server_info"),
        ("GET", "/tokenizer_info"),
        ("POST", "/v1/load_lora_adapter"),
        ("POST", "/v1/unload_lora_adapter"),
        ("POST", "/scale_elastic_ep"),
        ("POST", "/is_scaling_elastic_ep"),
        ("POST", "/sleep"),
        ("POST", "/wake_up"),
        ("GET", "/is_sleeping"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("GET", "/is_paused"),
        ("POST", "/collective_rpc"),
        ("POST", "/reset_prefix_cache"),
        ("POST", "/reset_mm_cache"),
        ("POST", "/reset_encoder_cache"),
        ("POST", "/start_profile"),
        ("POST", "/stop_profile"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/docs/oauth2-redirect"),
        ("GET", "/redoc"),
    ),
    *_closed(
        _ABSENT,
        ("POST", "/v1/embeddings"),
        ("POST", "/v2/embed"),
        ("POST", "/pooling"),
        ("POST", "/classify"),
        ("POST", "/score"),
        ("POST", "/v1/score"),
        ("POST", "/rerank"),
        ("POST", "/v1/rerank"),
        ("POST", "/v2/rerank"),
        ("POST", "/v1/audio/transcriptions"),
        ("POST", "/v1/audio/translations"),
        ("GET", "/v1/realtime"),
    ),
)

_EXACT: Final[Mapping[str, Route]] = {route.path: route for route in ROUTES if "{" not in route.path}
_PATTERNS: Final = [(re.compile(_pattern(route.path)), route) for route in ROUTES if "{" in route.path]


def route_of(path: str) -> Route | None:
    """Where a request for `path` comes; None: nowhere that is known."""
    return _EXACT.get(path) or next((route for pattern, route in _PATTERNS if pattern.fullmatch(path)), None)


def table() -> str:
    """The table as the documentation shows it, in Markdown."""
    rows = (f"| {', '.join(r.methods)} | `{r.path.replace(':path', '')}` | {r.served} | {r.why} |" for r in ROUTES)
    return "\n".join(("| method | path | is | |", "|---|---|---|---|", *rows)) + "\n"


def page() -> str:
    """The page with the table as it is now, between its marks."""
    marks = r"(<!-- routes -->\n).*(<!-- /routes -->)"
    return re.sub(marks, rf"\g<1>{table()}\g<2>", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def main() -> int:
    """Write the page, or with `--check` tell by the exit code whether it is as it would be written."""
    parser = argparse.ArgumentParser(prog="python -m serving.gateway.routes", description="Write docs/api.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is out of date")
    if parser.parse_args().check:
        return int(page() != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

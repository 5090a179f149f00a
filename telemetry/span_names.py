"""Names of spans, their attributes and the spool's events, typed once; `telemetry.names` passes them on. Standard library only."""

from __future__ import annotations

from typing import Final


class Attr:
    """Span attribute names: GenAI convention v0.1.0, HTTP, and ours under `loraledger.`."""

    HTTP_METHOD: Final = "http.request.method"
    HTTP_STATUS: Final = "http.response.status_code"
    HTTP_ROUTE: Final = "http.route"
    URL_PATH: Final = "url.path"
    ERROR_TYPE: Final = "error.type"
    OPERATION: Final = "gen_ai.operation.name"
    PROVIDER: Final = "gen_ai.provider.name"
    REQUEST_MODEL: Final = "gen_ai.request.model"
    RESPONSE_MODEL: Final = "gen_ai.response.model"
    REQUEST_STREAM: Final = "gen_ai.request.stream"
    RESPONSE_ID: Final = "gen_ai.response.id"
    FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
    TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
    INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
    CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
    OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
    TENANT: Final = "loraledger.tenant.id"
    ADAPTER: Final = "loraledger.adapter.name"
    ADAPTER_HASH: Final = "loraledger.adapter.hash"
    BASE_MODEL: Final = "loraledger.adapter.base_model"
    ENGINE: Final = "loraledger.engine.id"
    REQUEST_ID: Final = "loraledger.request.id"
    STATUS: Final = "loraledger.status"
    ROUTE_RULE: Final = "loraledger.route.rule"
    ROUTE_REASON: Final = "loraledger.route.reason"
    ROUTE_POLICY: Final = "loraledger.route.policy"
    COLD_START: Final = "loraledger.cold_start"
    LOAD_READ_NS: Final = "loraledger.adapter.load.read_ns"
    LOAD_ACTIVATE_NS: Final = "loraledger.adapter.load.activate_ns"
    QUEUE_NS: Final = "loraledger.queue.wait_ns"
    BASE_NS: Final = "loraledger.engine.base_ns"
    ADAPTER_NS: Final = "loraledger.engine.adapter_ns"
    USAGE_RECORD: Final = "loraledger.usage.record"
    """The whole UsageRecord as JSON, on the root span of every attempt; never sampled."""


class SpanName:
    """Names of the spans of one attempt, outermost first; the client span is `chat {adapter}`."""

    ROUTE: Final = "route"
    ADMISSION: Final = "admission"
    ADAPTER_LOAD: Final = "adapter.load"
    ENGINE: Final = "engine"


class EventName:
    """OTLP log events of the spool; the body of each is the JSON of one value of `telemetry.usage` or `telemetry.engine_time`."""

    OPENED: Final = "loraledger.usage.opened"
    WINDOW: Final = "loraledger.meter.window"
    LOAD: Final = "loraledger.adapter.load"
    SESSION: Final = "loraledger.engine.session"
    ROUTE: Final = "loraledger.route.decision"
    COUNTERS: Final = "loraledger.engine.counters"
    RESHARE: Final = "loraledger.prefix.reshare"

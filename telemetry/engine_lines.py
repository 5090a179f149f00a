"""Values of the meter's stream as lines: log events for the spool and for `/v1/logs`."""

from __future__ import annotations

from telemetry.engine_time import AdapterLoad, EngineCounters, EngineSession, EngineValue, MeterWindow, PrefixReshare
from telemetry.names import EventName
from telemetry.otlp_encode import event_line


def engine_line(value: EngineValue) -> str:
    """One line: a log event named after the kind of value, at the instant of the value."""
    match value:
        case MeterWindow():
            name, at_ns = EventName.WINDOW, value.end_ns
        case AdapterLoad():
            name, at_ns = EventName.LOAD, value.start_ns
        case EngineSession():
            name, at_ns = EventName.SESSION, value.at_ns
        case EngineCounters():
            name, at_ns = EventName.COUNTERS, value.at_ns
        case PrefixReshare():
            name, at_ns = EventName.RESHARE, value.at_ns
    return event_line(name, value.to_json(), at_ns, {}, value.emitter, value.seq)

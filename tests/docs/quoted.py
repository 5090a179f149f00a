"""What documents say of numbers: their own words, with the constant of the code in between, page by page.

Whoever writes a limit into a document adds its phrase here.
"""

from __future__ import annotations

import ast
import inspect
import re
from decimal import Decimal
from typing import Any, Final

from alerts.promises import DEFAULT, MINUTE
from alerts.promises import HOUR as HOUR_S
from billing.close.month import GRACE_NS
from billing.cost.attempts import LONGEST_NS, MOST_TOKENS
from billing.focus.model import DECIMALS
from billing.store.door import WAIT_S
from billing.store.reader import LONGEST_S, MOST_BYTES
from catalog import engine_flags, patterns, strict_yaml
from catalog.engines import TURN_MS, Engine
from catalog.tenants import Quotas
from loraledger.demo import AT_ONCE
from serving.attempt.counting import BYTES_PER_TOKEN
from serving.attempt.limits import Limits
from serving.calibration.fit import LEAST_STEPS
from serving.engine import collector, grammars, vllm_engine, vllm_processes, vllm_start
from serving.engine.lasting_engine import KEPT
from serving.gateway import connections, listening
from serving.gateway.build import build_gateway
from serving.inside.prefix_owners import MOST_BLOCKS
from serving.metering import reshare, windows
from serving.metering.steps import STALL_FACTOR
from serving.policy import admission, budgets, routing
from serving.policy.restarts import RestartPolicy
from serving.policy.turns import PATIENCE
from serving.wire import pipe
from telemetry.forward import Forwarder
from telemetry.otlp_receive import MOST_PARTS
from telemetry.spool import Spool
from telemetry.usage import ErrorType, Status
from telemetry.values import AHEAD_NS
from tests.docs.pages import ROOT

BUDGET_DAYS: Final = 30
WORDS: Final = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
SECOND: Final = 1_000_000_000
LIMITS, RESTARTS = Limits(), RestartPolicy()
LATENCY, FLEET, ADAPTERS, LEDGER, BUDGET = (
    DEFAULT.latency,
    DEFAULT.fleet,
    DEFAULT.adapters,
    DEFAULT.ledger,
    DEFAULT.budget,
)


def whole(value: float | Decimal, by: int = 1) -> int:
    """The number in units of `by`; it must be a whole one."""
    count, rest = divmod(value, by)
    assert rest == 0
    return int(count)


def word(value: float | Decimal, by: int = 1) -> str:
    return WORDS[whole(value, by)]


def percent(share: Decimal) -> str:
    return f"{(share * 100).normalize():f} %"


def default(of: Any, name: str) -> Any:
    return inspect.signature(of).parameters[name].default


def constant(module: str, name: str) -> Any:
    """A constant of a module that would start vLLM when imported."""
    for node in ast.parse((ROOT / module).read_text()).body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == name
            and node.value
        ):
            return ast.literal_eval(node.value)
    raise LookupError(f"{module} has no {name}")


def minutes_of_the_demo() -> str:
    told = re.search(r"^demo:.*\(about (\d+) minutes\)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert told is not None
    return told[1]


GRAMMARS: Final = "serving/engine/vllm_grammars.py"
RUNBOOKS: Final = "alerts/runbooks/Lora"
QUOTED: Final = {
    "README.md": [
        f"boards and alerts out (about {minutes_of_the_demo()} minutes)",
        f"before the command fails and names that process | {whole(WAIT_S)} |",
        f"| none; {whole(LIMITS.drain_s)} |",
        f"the demo's {'dozen' if AT_ONCE == 12 else AT_ONCE} clients at once",
    ],
    "docs/limits.md": [
        f"`max_choices` ({Quotas.model_fields['max_choices'].default} unless given)",
        f"What the engine cannot render, or not within {whole(LIMITS.count_s)} s",
        f"(a token for each {word(BYTES_PER_TOKEN)} bytes)",
        f"leaves a connection idle | {whole(LIMITS.idle_s)} s |",
        f"headers without end | {whole(connections.HEAD_BYTES, 1 << 10)} KiB |",
        f"half a body | {whole(LIMITS.body_s)} s |",
        f"a piece of its reply | {whole(LIMITS.deliver_s)} s a piece, {whole(LIMITS.deliver_total_s)} s all together |",
        f"a finished reply | {whole(LIMITS.idle_s)} s, and 1 s more for each {whole(connections.SLOWEST_BYTES_S, 1 << 10)} KiB |",
        f"| {LIMITS.connections_per_address} an address (an IPv6 /64 is one), {LIMITS.connections:,} in all |",
        f"| {LIMITS.unauthenticated_per_minute} a minute and address |",
        f"The kernel holds at most {whole(2 * listening.SEND_BUFFER_BYTES, 1 << 10)} KiB",
        f"requests in flight have {whole(LIMITS.drain_s)} s to end",
        f"is given up after {whole(LIMITS.hurry_s)} s",
        f"a long body | {whole(LIMITS.body_bytes, 1 << 20)} MiB |",
        f"a request that the engine has not ended after {whole(LIMITS.engine_s, 60)} minutes",
    ],
    "docs/turns.md": [
        f"turn_ms: {TURN_MS} ",
        f"was **passed over** for {PATIENCE} quanta",
        f"at most {PATIENCE} Q, and then",
        f"{PATIENCE} Q + F (Q + D)",
    ],
    "docs/engine-options.md": [
        f"max_grammar_chars: {Engine.model_fields['max_grammar_chars'].default} ",
        f"At most {engine_flags.MAX_FLAGS} flags, {engine_flags.MAX_ITEMS} values a list, {engine_flags.MAX_CHARS:,} characters a value",
        f"`max_grammar_chars`, {Engine.model_fields['max_grammar_chars'].default:,} characters by default",
        f"`maxProperties` | {grammars.MAX_REPEATS:,} |",
        f"symbols of the compiled grammar | {constant(GRAMMARS, 'MAX_SYMBOLS'):,};",
        f"| time | {whole(constant(GRAMMARS, 'TIMEOUT_S'))} s, waiting included",
        f"neither meters nor answers for {whole(vllm_engine.HANG_S)} seconds",
        "begin at half a second and double up to a minute, up to half of each"
        if (RESTARTS.first_s, RESTARTS.most_s, RESTARTS.spread) == (0.5, 60, 0.5)
        else f"{RESTARTS}",
        f"{word(RESTARTS.steady_s, 60)} minutes of life",
        "not up half an hour after its start" if vllm_start.START_LIMIT_S == 1800 else f"{vllm_start.START_LIMIT_S}",
    ],
    "docs/catalog.md": [
        f"at most {whole(strict_yaml.MAX_BYTES, 1 << 20)} MiB, one document, {strict_yaml.MAX_DEPTH} levels, {strict_yaml.MAX_NODES:,} values",
        f"at most {patterns.MAX_PATTERN:,} characters and {patterns.MAX_PROGRAM:,} compiled instructions",
        f"the first {routing.TEXT_LIMIT:,} characters",
        f"looks every {word(default(build_gateway, 'catalog_poll_s'))} seconds",
        f"answered within {word(LIMITS.room_s)} seconds",
    ],
    "docs/closing.md": [
        f"({whole(GRACE_NS, 3600 * SECOND)} hours after its end in UTC, `--grace-hours`)",
        f"more than {'a day' if AHEAD_NS == 86_400 * SECOND else AHEAD_NS} ahead of the clock",
        f"attempts longer than {'a day' if LONGEST_NS == 86_400 * SECOND else LONGEST_NS}",
        f"more than {'a billion' if MOST_TOKENS == 10**9 else MOST_TOKENS} tokens",
    ],
    "docs/budgets.md": [
        f"(or {admission.IN_FLIGHT_RETRY_S} s, when only requests in flight",
        f"({whole(budgets.DEFAULT_NS_PER_TOKEN, 1_000_000)} ms before anything was measured)",
        f"expires {'a minute' if LIMITS.hold_grace_s == 60 else LIMITS.hold_grace_s} after the last moment",
        f"lack {word(budgets.LATE_NS, 60 * SECOND)} minutes after the time up to which",
    ],
    "docs/tracing.md": [
        f"held back at most {whole(LIMITS.durable_s)} s",
        f"nobody waits for lingers {whole(round(default(Spool, 'linger_s') * 1000))} ms",
        f"bounded memory, {word(default(Forwarder, 'tries'))} tries",
        f"more than {MOST_PARTS} attributes",
        f"more than {'a day' if AHEAD_NS == 86_400 * SECOND else AHEAD_NS} ahead",
    ],
    "docs/remote-engines.md": [f"does not fit into {whole(default(Forwarder, 'queue_bytes'), 1 << 20)} MiB"],
    "docs/focus.md": [f"up to {DECIMALS} in Parquet"],
    "docs/glossary.md": [
        f"at most {'a second' if windows.BUSY_NS == SECOND else windows.BUSY_NS} of one engine's time"
    ],
    "docs/metering.md": [
        f"more than {word(STALL_FACTOR)} times its prediction",
        f"over {'a second' if LEDGER.stall_seconds == 1 else LEDGER.stall_seconds} of it in {word(LEDGER.stall_window, MINUTE)} minutes",
    ],
    "docs/attribution.md": [
        f"above {word(STALL_FACTOR)} times the predicted time",
        f"fewer than {LEAST_STEPS} steps is refused",
        f"more than {percent(LEDGER.drift)} apart over an hour" if LEDGER.engine_time_window == HOUR_S else "",
        f"{reshare.MOST_PAYERS} payers are kept, for {'an hour' if reshare.KEEP_NS == 3600 * SECOND else reshare.KEEP_NS}",
        f"the first {reshare.MOST_USERS}, its payer included",
        f"About {MOST_BLOCKS} blocks",
    ],
    "docs/on-call.md": [
        f"An alert ends {word(DEFAULT.keep_firing, MINUTE)} minutes after its cause",
        f"over {percent(LATENCY.share)} of a tenant's requests take more than {LATENCY.yellow} × its promise, for {whole(LATENCY.yellow_for, MINUTE)} minutes",
        f"over {percent(LATENCY.share)} take more than {LATENCY.red} ×, for {whole(LATENCY.red_for, MINUTE)} minutes",
        "the 30-day budget burns {} or {}, {} or {} times too fast".format(*(row.factor for row in BUDGET.rows)),
        f"over {percent(FLEET.memory_critical)} of the budget",
        f"over {percent(FLEET.kv_saturated)} of the KV blocks",
        f"under {percent(ADAPTERS.warm_hit_low)} of the requests",
        f"over {percent(ADAPTERS.cold_share)} of adapter loads take longer than {'a second' if ADAPTERS.cold_ms == 1000 else ADAPTERS.cold_ms}",
        f"within {'a quarter of an hour' if FLEET.restarts_window == 15 * MINUTE else FLEET.restarts_window}",
        f"more than {STALL_FACTOR} × their prediction in {word(LEDGER.stall_window, MINUTE)} minutes",
        "at once, again every hour",
        "again every 12 hours",
    ],
    "docs/metrics.md": [
        f"the {word(len(Status))} values of `telemetry.usage.Status`",
        f"the {word(len(ErrorType))} values of `telemetry.usage.ErrorType`",
    ],
    "docs/decisions/0001-meter-windows.md": [
        f"at most {word(windows.BUSY_NS, SECOND)} second long while there is work"
    ],
    "docs/decisions/0003-rented-time.md": [
        f"heartbeat each {word(collector.HEARTBEAT_S)} seconds",
        f"up to {word(collector.HEARTBEAT_S)} seconds early",
    ],
    "docs/decisions/0007-meter-channel.md": [f"looks every {whole(round(pipe._LOOK_S * 1000))} ms while steps come"],
    "docs/decisions/0010-demand-of-a-request.md": [
        f"`max_choices` ({Quotas.model_fields['max_choices'].default})",
        f"{whole(budgets.DEFAULT_NS_PER_TOKEN, 1_000_000)} ms each before the first",
    ],
    "docs/decisions/0011-clients-that-do-not-behave.md": [f"{whole(LIMITS.drain_s)} s are short for long generations"],
    "docs/decisions/0012-one-grammar-backend.md": [f"its first {word(constant(GRAMMARS, 'WALK'))} tokens are tried"],
    "docs/decisions/0013-the-gateway-replaces-its-engine.md": [
        f"when for {whole(vllm_engine.HANG_S)} s its meter said nothing",
        f"after {word(vllm_processes.QUIET_S)} quiet seconds",
        f"takes {'half an hour' if vllm_start.START_LIMIT_S == 1800 else vllm_start.START_LIMIT_S} is broken off",
        f"keeps the last {word(KEPT)} lives",
    ],
    "docs/decisions/0018-free-queries.md": [
        f"at most {whole(MOST_BYTES, 1 << 20)} MiB and a query {word(LONGEST_S, 60)} minutes",
    ],
    f"{RUNBOOKS}CatalogRefused.md": [f"looks every {word(default(build_gateway, 'catalog_poll_s'))} seconds"],
    f"{RUNBOOKS}KvPoolSaturated.md": [
        f"back at {percent(FLEET.kv_saturated)} or below",
        f"More than {percent(FLEET.kv_saturated)} of the engine's KV blocks are in use, for {word(FLEET.kv_for, MINUTE)} minutes",
    ],
    f"{RUNBOOKS}BudgetDrift.md": [f"lacks {word(budgets.LATE_NS, 60 * SECOND)} minutes after"],
    f"{RUNBOOKS}AttemptsStuck.md": [f"has ended for {word(FLEET.stuck_window, MINUTE)} minutes"],
    f"{RUNBOOKS}TenantLatencyYellow.md": [
        f"in which {LATENCY.min_requests} requests fell",
        f"At {LATENCY.red} x the SLO",
        f"back at {percent(LATENCY.share)} or below",
        f"More than {percent(LATENCY.share)} of the tenant's requests took longer than {LATENCY.yellow} x its SLO, or failed, for {word(LATENCY.yellow_for, MINUTE)} minutes",
        f"over {word(LATENCY.window, MINUTE)} minutes when they hold {LATENCY.min_requests} requests, else over an hour",
    ],
    f"{RUNBOOKS}TenantLatencyRed.md": [
        f"back at {percent(LATENCY.share)} or below",
        f"More than {percent(LATENCY.share)} of the tenant's requests took longer than {LATENCY.red} x its SLO, or failed, for {word(LATENCY.red_for, MINUTE)} minutes",
    ],
    f"{RUNBOOKS}ErrorBudgetBurnFast.md": [
        f"error budget ({percent(BUDGET.share)})",
        f"At {BUDGET.rows[0].factor} times the whole budget",
        f"at {BUDGET.rows[1].factor} times in {word(BUDGET_DAYS / BUDGET.rows[1].factor)}",
        f"at {BUDGET.rows[0].factor} times (window {whole(BUDGET.rows[0].long, HOUR_S)}h) or {BUDGET.rows[1].factor} times (window {whole(BUDGET.rows[1].long, HOUR_S)}h)",
    ],
    f"{RUNBOOKS}ErrorBudgetBurnSlow.md": [
        f"({word(BUDGET.rows[2].short, HOUR_S)} or {word(BUDGET.rows[3].short, HOUR_S)} hours)",
        f"{BUDGET.rows[2].factor} times (window {whole(BUDGET.rows[2].long, 24 * HOUR_S)}d) or {BUDGET.rows[3].factor} time (window {whole(BUDGET.rows[3].long, 24 * HOUR_S)}d)",
    ],
    f"{RUNBOOKS}EngineTimeSystemHigh.md": [
        f"back at {percent(LEDGER.system)} or below",
        f"More than {percent(LEDGER.system)} of the busy time",
        f"above {word(STALL_FACTOR)} times the predicted",
    ],
    f"{RUNBOOKS}ColdStartSlow.md": [
        f"slow loads are {percent(ADAPTERS.cold_share)} or less of the last hour",
        f"More than {percent(ADAPTERS.cold_share)} of the adapter loads of the last hour (at least {ADAPTERS.cold_min_loads} loads, at least {word(ADAPTERS.cold_min_slow)} slow ones) took longer than {ADAPTERS.cold_ms} ms",
    ],
    f"{RUNBOOKS}EngineStall.md": [
        f"What lies above {word(STALL_FACTOR)} times the prediction",
        f"It ends when {word(LEDGER.stall_window, MINUTE)} minutes had less than a second",
        f"Within {word(LEDGER.stall_window, MINUTE)} minutes, steps of one engine took over a second more than {word(STALL_FACTOR)} times",
    ],
    f"{RUNBOOKS}SnapshotStale.md": [f"for {word(LEDGER.snapshot_age, HOUR_S)} hours"],
    f"{RUNBOOKS}WarmPoolHitRateLow.md": [
        f"Fewer than {percent(ADAPTERS.warm_hit_low)} of the requests",
        f"back at {percent(ADAPTERS.warm_hit_low)}",
    ],
    f"{RUNBOOKS}GpuMemoryCritical.md": [
        f"fill more than {percent(FLEET.memory_critical)} of the engine's",
        f"{percent(FLEET.band_low)[:-2]} to {percent(FLEET.band_high)} is healthy",
        f"back at {percent(FLEET.memory_critical)} or below",
    ],
    f"{RUNBOOKS}EngineRestarted.md": [
        f"Within {'a quarter of an hour' if FLEET.restarts_window == 15 * MINUTE else FLEET.restarts_window} an engine process died, hung for {'half a minute' if vllm_engine.HANG_S == 30 else vllm_engine.HANG_S}",
        f"It ends {'a quarter of an hour' if FLEET.restarts_window == 15 * MINUTE else FLEET.restarts_window} after the last restart",
    ],
    f"{RUNBOOKS}EngineTimeUnattributed.md": [
        f"More than {percent(LEDGER.unattributed)} of the busy time",
        f"back at {percent(LEDGER.unattributed)} or below",
    ],
    f"{RUNBOOKS}SpoolWriteErrors.md": [
        f"left the window of {word(LEDGER.spool_window, MINUTE)} minutes",
    ],
    f"{RUNBOOKS}StepModelDrift.md": [
        f"more than {percent(LEDGER.drift)} apart over an hour",
        f"back within {percent(LEDGER.drift)}",
    ],
    f"{RUNBOOKS}TelemetryDropped.md": [
        f"left the window of {word(LEDGER.spool_window, MINUTE)} minutes",
    ],
}
ALERTS: Final = [
    f"ends {word(DEFAULT.keep_firing, MINUTE)} minutes after",
    f"budget of {BUDGET_DAYS} days",
    f"last {BUDGET_DAYS} days",
]
"""What every runbook may say."""

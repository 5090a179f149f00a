"""Which of vLLM's own flags an engine of the catalog may be given, and why the others may not. No I/O, no vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

Scalar = bool | int | float | str
FlagValue = Scalar | list[Scalar] | dict[str, object]

MAX_FLAGS: Final = 64
MAX_CHARS: Final = 16_384
MAX_ITEMS: Final = 256
STRUCTURED: Final = "structured-outputs-config"
DEFAULT_BACKEND: Final = "guidance"
PARALLEL: Final = "tensor-parallel-size"
UTILISATION: Final = "gpu-memory-utilization"
BACKENDS: Final = frozenset({"guidance", "xgrammar", "outlines", "lm-format-enforcer"})

_FIELDS: Final[Mapping[str, str]] = {
    "model": "base_model.path",
    "model-tag": "base_model.path",
    "served-model-name": "base_model.name",
    "max-loras": "max_loras",
    "max-cpu-loras": "max_cpu_loras",
    "max-lora-rank": "max_lora_rank",
    "max-model-len": "max_model_len",
    "max-num-seqs": "max_num_seqs",
    "max-num-batched-tokens": "max_num_batched_tokens",
    "block-size": "block_size",
    "kv-cache-memory-bytes": "kv_cache_bytes",
}

_METER: Final = "the meter needs it as it is: engine time would be counted wrong or not at all"
_RENT: Final = "it changes how many GPUs are used, and `gpu_count` is what is rented and billed"
_LORA: Final = "adapters are declared in the catalog and loaded by the gateway, for the tenants that are granted them"
_CACHE: Final = "the prefix cache keeps tenants apart, and its keys must be strong"
_PROMPTS: Final = "it would write or send what tenants say, which is never recorded"
_LISTENS: Final = "vLLM listens nowhere, the gateway does"
_REPLIES: Final = "the gateway counts and rewrites replies in the form that it orders from vLLM"
_CODE: Final = "it would run foreign code, or let a request do so, in the process that holds every tenant's requests"
_FILES: Final = "it would let a request read files of this host or hand in tensors that nobody checks"
_SECRET: Final = "a secret does not belong in the catalog; use the environment"
_ENDS: Final = "the gateway starts, watches and ends the engine"
_KIND: Final = "the gateway serves generation by one model"

_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    _METER: (
        "scheduler-cls",
        "scheduling-policy",
        "worker-cls",
        "worker-extension-cls",
        "additional-config",
        "disable-log-stats",
        "distributed-executor-backend",
        "speculative-config",
        "spec-method",
        "spec-model",
        "spec-tokens",
        "diffusion-config",
        "kv-offloading-size",
        "kv-offloading-backend",
        "profiler-config",
        "enable-layerwise-nvtx-tracing",
        "ray-workers-use-nsight",
        "enable-logging-iteration-details",
        "enable-sleep-mode",
        "weight-transfer-config",
        "enable-trace-replay",
        "aux-output-config",
    ),
    _RENT: (
        "pipeline-parallel-size",
        "decode-context-parallel-size",
        "prefill-context-parallel-size",
        "nnodes",
        "node-rank",
        "master-addr",
        "master-port",
        "enable-elastic-ep",
        "elastic-ep-max-dp-size",
        "api-server-count",
        "headless",
        "enable-scale-out",
    ),
    _LORA: ("enable-lora", "lora-modules", "default-mm-loras"),
    _CACHE: (
        "enable-prefix-caching",
        "prefix-caching-hash-algo",
        "prefix-cache-retention-interval",
        "prefix-match-unit",
        "enable-mamba-shared-prefix-checkpoint",
        "kv-transfer-config",
        "ec-transfer-config",
        "ec-manager-config",
    ),
    _PROMPTS: (
        "kv-events-config",
        "enable-log-requests",
        "enable-log-outputs",
        "enable-log-deltas",
        "max-log-len",
        "logging-config",
        "log-level",
        "log-config-file",
        "log-error-stack",
        "uvicorn-log-level",
        "disable-uvicorn-access-log",
        "disable-access-log-for-endpoints",
        "aggregate-engine-logging",
        "otlp-traces-endpoint",
        "collect-detailed-traces",
        "tool-server",
    ),
    _LISTENS: (
        "host",
        "port",
        "uds",
        "grpc",
        "grpc-port",
        "root-path",
        "middleware",
        "allow-credentials",
        "allowed-origins",
        "allowed-methods",
        "allowed-headers",
        "enable-request-id-headers",
        "disable-fastapi-docs",
        "enable-offline-docs",
        "enable-tokenizer-info-endpoint",
        "enable-server-load-tracking",
        "h11-max-incomplete-event-size",
        "h11-max-header-count",
        "config",
    ),
    _REPLIES: (
        "enable-prompt-tokens-details",
        "enable-force-include-usage",
        "enable-per-request-metrics",
        "per-request-spec-decode-metrics",
        "return-tokens-as-token-ids",
        "tokens-only",
        "sse-keep-alive-interval",
        "stream-interval",
        "fingerprint-mode",
        "fingerprint-value",
        "response-role",
    ),
    _CODE: (
        "trust-remote-code",
        "trust-request-chat-template",
        "trust-request-mm-kwargs",
        "logits-processors",
        "io-processor-plugin",
        "model-class-overrides",
    ),
    _FILES: ("allowed-local-media-path", "enable-prompt-embeds", "enable-mm-embeds"),
    _SECRET: ("api-key", "hf-token"),
    _ENDS: ("shutdown-timeout", "enable-fault-tolerance", "fault-tolerance-config", "fail-on-environ-validation"),
    _KIND: ("runner", "convert", "pooler-config", "skip-tokenizer-init", "mm-encoder-only", "help"),
}
_PREFIXES: Final[Mapping[str, str]] = {"data-parallel-": _RENT, "dp-": _RENT, "ssl-": _LISTENS, "enable-ssl-": _LISTENS}
_DENIED: Final[Mapping[str, str]] = {flag: reason for reason, flags in _REASONS.items() for flag in flags}
_NAME: Final = re.compile(r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")


def canonical(flag: str) -> str:
    """The flag's name as vLLM spells it, `tool-call-parser`; `tool_call_parser` and `--tool-call-parser` are the same. ValueError if it is none."""
    name = flag.removeprefix("--").replace("_", "-")
    if not _NAME.match(name) or len(name) > 64:
        raise ValueError(f"{flag[:80]!r} is not the name of a flag, such as tool_call_parser")
    return name


def denied(flag: str) -> str | None:
    """Why this flag (canonical) is not passed through; None when it is, provided that vLLM knows it."""
    positive = flag.removeprefix("no-")
    if field := _FIELDS.get(flag):
        return f"the catalog's `{field}` says it"
    if reason := _DENIED.get(positive):
        return reason
    return next((reason for prefix, reason in _PREFIXES.items() if positive.startswith(prefix)), None)


def problems(flags: Mapping[str, FlagValue], gpu_count: int, kv_cache_bytes_given: bool) -> Iterator[str]:
    """What is wrong with an engine's flags (names canonical), as far as it can be told without vLLM."""
    if len(flags) > MAX_FLAGS:
        yield f"{len(flags)} flags, at most {MAX_FLAGS} are taken"
    for flag, value in flags.items():
        if (reason := denied(flag)) is not None:
            yield f"{flag} cannot be set: {reason}"
        elif flag.startswith("no-"):
            yield f"{flag}: write {flag.removeprefix('no-')}: false"
        elif (fact := _oversized(value)) is not None:
            yield f"{flag} {fact}"
    if flags.get(PARALLEL, gpu_count) != gpu_count:
        yield f"{PARALLEL} must be `gpu_count`, {gpu_count}: that is what is rented and billed"
    if UTILISATION in flags and kv_cache_bytes_given:
        yield f"{UTILISATION} and `kv_cache_bytes` both say how large the KV cache is; give one"
    if STRUCTURED in flags:
        yield from _structured(flags[STRUCTURED])


def backend(flags: Mapping[str, FlagValue]) -> object:
    """What compiles the grammars of structured outputs: the same for every request of the engine."""
    given = flags.get(STRUCTURED)
    return given.get("backend", DEFAULT_BACKEND) if isinstance(given, dict) else DEFAULT_BACKEND


def _oversized(value: FlagValue) -> str | None:
    items = value if isinstance(value, list) else [value]
    if len(items) > MAX_ITEMS:
        return f"has {len(items)} values, at most {MAX_ITEMS} are taken"
    longest = max((len(str(item)) for item in items), default=0)
    if longest > MAX_CHARS:
        return f"has a value of {longest} characters, at most {MAX_CHARS} are taken"
    return None


def _structured(value: FlagValue) -> Iterator[str]:
    if not isinstance(value, dict) or backend({STRUCTURED: value}) not in BACKENDS:
        named = ", ".join(sorted(BACKENDS))
        yield f"{STRUCTURED} must name one `backend` of {named}: vLLM keeps the first that any request needs, for everybody"

"""Words that the gateway's side and vLLM's own processes both say, each typed once."""

from __future__ import annotations

from typing import Final

ATTEMPT_ARG: Final = "ll_attempt"
TENANT_ARG: Final = "ll_tenant"
PROMPT_ARG: Final = "ll_prompt"
WEIGHT_ARG: Final = "ll_weight"
"""The extra arguments of an engine request that say whose it is: attempt, tenant, which of the attempt's prompts, and the
weight of the tenant's flows where turns are taken (1 is not said)."""

PLUGIN: Final = "loraledger"
"""Our entry in vLLM's plugin group; VLLM_PLUGINS must name it."""
CONFIG_KEY: Final = "loraledger"
"""Our settings in vLLM's `additional_config`."""
ENDPOINT_KEY: Final = "otlp_endpoint"
"""The setting of an engine that no gateway embeds: where its figures go."""
SCHEDULER: Final = "serving.inside.scheduler.MeterScheduler"
FAIR: Final = "fair"
TURNS_KEY: Final = "turns"
TURN_KEY: Final = "turn_ms"
PROFILE_KEY: Final = "profile"
"""The settings of turns in the engine's queue: the policy, the quantum, and the step profile by which they are charged."""
WORKER_EXTENSION: Final = "serving.inside.adapter_timers.WorkerReport"
MEMORY_CALL: Final = "ll_memory"
"""The worker extension's method that tells what the weights and an adapter slot take."""
REMOTE_METER: Final = "serving.engine.remote_meter"
"""The program that accounts for an engine that no gateway embeds, in a process beside it."""
LOG_VARIABLE: Final = "LORALEDGER_ENGINE_LOG"
"""Environment variable set by whoever embeds the engine: the file that takes what its child processes would say on the terminal."""

CONFIG_FILE: Final = "adapter_config.json"
WEIGHTS_FILE: Final = "adapter_model.safetensors"
"""The files of an adapter in PEFT format."""

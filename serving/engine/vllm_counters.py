"""vLLM's own totals, heard where its front end hands them to its loggers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class FrontEndTotals:
    """Totals of one engine process: tokens of requests that gave at least one, ended requests by finish reason.

    vLLM has a request for each choice of a prompt (`n`), and counts the prompt, cached part included, for each.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    requests: dict[str, int] = field(default_factory=dict)

    def take(self, stats: Any) -> None:
        """Add one iteration of vLLM's front end."""
        self.prompt_tokens += stats.num_prompt_tokens
        self.cached_tokens += stats.prompt_token_stats.cached_tokens
        self.output_tokens += stats.num_generation_tokens
        self.preemptions += stats.num_preempted_reqs
        for finished in stats.finished_requests:
            reason = str(finished.finish_reason)
            self.requests[reason] = self.requests.get(reason, 0) + 1

    def logger(self) -> Any:
        """A factory for vLLM's `stat_loggers` that adds to these totals; vLLM's own loggers stay."""
        from vllm.v1.metrics.loggers import StatLoggerBase

        totals = self

        class Logger(StatLoggerBase):  # type: ignore[misc]
            def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
                pass

            def record(self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any) -> None:
                if iteration_stats is not None:
                    totals.take(iteration_stats)

            def log_engine_initialized(self) -> None:
                pass

        return Logger

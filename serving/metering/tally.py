"""What the meter counted in one engine process, to be held against what the engine itself says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Requests that left the engine, with tokens of their prompts and outputs.

    `aborted_*` are those that were given up (a hang-up, a stop string) and are in the whole too. `again_prompt_tokens` are
    prompts of an attempt's further requests (n > 1). `claimed_*` is what was handed to whoever writes usage records: an
    attempt's one prompt and all its outputs.
    """

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    aborted_requests: int = 0
    aborted_prompt_tokens: int = 0
    aborted_output_tokens: int = 0
    again_prompt_tokens: int = 0
    claimed_attempts: int = 0
    claimed_prompt_tokens: int = 0
    claimed_output_tokens: int = 0
    in_flight_requests: int = 0
    in_flight_prompt_tokens: int = 0
    in_flight_output_tokens: int = 0

"""What the meter counted in one engine process, to be held against what the engine itself says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Requests that left the engine, with tokens of their prompts and outputs. A prompt counts once a step has held it.

    `cached_tokens` are those of the prompts that were found computed. `aborted_*` are those that were given up (a hang-up, a
    stop string) and are in the whole too. `again_*` is what further choices of a prompt (n > 1) had of it: the engine has a
    request for each. `claimed_*` is what was handed to whoever writes usage records: each prompt once and all outputs.
    """

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    aborted_requests: int = 0
    aborted_prompt_tokens: int = 0
    aborted_cached_tokens: int = 0
    aborted_output_tokens: int = 0
    again_prompt_tokens: int = 0
    again_cached_tokens: int = 0
    claimed_attempts: int = 0
    claimed_prompt_tokens: int = 0
    claimed_cached_tokens: int = 0
    claimed_output_tokens: int = 0
    in_flight_requests: int = 0
    in_flight_prompt_tokens: int = 0
    in_flight_cached_tokens: int = 0
    in_flight_output_tokens: int = 0

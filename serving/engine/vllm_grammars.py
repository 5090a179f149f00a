"""Structured output on vLLM's front end: every grammar is compiled once beside the event loop, within limits, before the engine sees it.

vLLM checks grammars in the event loop and lets the engine compile them without a limit. Imports vLLM.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final

from vllm.exceptions import VLLMValidationError
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.structured_output import backend_guidance
from vllm.v1.structured_output.request import get_structured_output_key

from serving.engine.grammars import refusal

PARAMETER: Final = "structured_outputs"
TIMEOUT_S: Final = 5.0
"""Far above what the limits allow on an idle machine; whoever waits longer is told so."""
THREADS: Final = 2
MAX_SYMBOLS: Final = 50_000
WALK: Final = 4
"""Tokens tried: a schema's own rows show behind its first bracket."""
CHECKED: Final = "_loraledger_checked"


class FrontEnd(AsyncLLM):  # type: ignore[misc]
    """vLLM's asynchronous client whose structured outputs are checked first. `max_grammar_chars` bounds a grammar's length."""

    max_grammar_chars: int = 65_536
    _grammar_tokenizer: Any = None

    def prepare_grammars(self, max_grammar_chars: int) -> None:
        """Before the first request, since it may take a second: what compiling needs of the tokenizer."""
        self.max_grammar_chars = max_grammar_chars
        backend, tokenizer = self.vllm_config.structured_outputs_config.backend, self.renderer.tokenizer
        if backend == "guidance" and backend_guidance.GuidanceBackend.is_tokenizer_supported(tokenizer):
            vocabulary = self.vllm_config.model_config.get_vocab_size()
            self._grammar_tokenizer = backend_guidance.GuidanceBackend._build_ll_tokenizer(tokenizer, vocabulary)

    async def add_request(self, request_id: str, prompt: Any, params: Any, *args: Any, **more: Any) -> Any:
        """See vLLM. VLLMValidationError (a client's 400) for a grammar that is not taken."""
        await self.check_grammar(params)
        return await super().add_request(request_id, prompt, params, *args, **more)

    async def check_grammar(self, sampling_params: Any) -> None:
        """VLLMValidationError when these parameters ask for a grammar that cannot be had; nothing happens without one."""
        wanted = getattr(sampling_params, "structured_outputs", None)
        if wanted is None or wanted.all_constraints_none() or getattr(wanted, CHECKED, False):
            return
        try:
            kind, spec = get_structured_output_key(wanted)
        except (TypeError, ValueError) as error:
            raise _invalid(str(error)) from error
        if (fact := refusal(kind.name.lower(), spec, self.max_grammar_chars)) is not None:
            raise _invalid(fact)
        if self._grammar_tokenizer is None:
            # vLLM refuses what its other backends cannot do; how long they take is the operator's choice.
            return
        checking = asyncio.get_running_loop().run_in_executor(_threads(), self._compile, kind, spec)
        try:
            fact = await asyncio.wait_for(checking, TIMEOUT_S)
        except TimeoutError:
            raise _invalid(f"it could not be compiled within {TIMEOUT_S:g} s; make it simpler") from None
        if fact is not None:
            raise _invalid(fact)
        setattr(wanted, CHECKED, True)

    def _compile(self, kind: Any, spec: str) -> str | None:
        """What is wrong with the grammar, found by compiling it and trying its first tokens; None when nothing is."""
        import llguidance

        config = self.vllm_config.structured_outputs_config
        try:
            grammar = backend_guidance.serialize_guidance_grammar(
                kind, spec, config.disable_any_whitespace, config.disable_additional_properties
            )
            limits = llguidance.LLParserLimits(max_grammar_size=MAX_SYMBOLS, verbose_errors=False)
            matcher = llguidance.LLMatcher(self._grammar_tokenizer, grammar, log_level=0, limits=limits)
            _walk(matcher)
        except KeyError as error:
            return f"its field {error} is missing (a structural tag is taken as `structures` and `triggers` only)"
        except (TypeError, ValueError) as error:
            return str(error)
        return next(iter(matcher.get_error().splitlines()), None)


def _walk(matcher: Any) -> None:
    """Take the first tokens of some answer: what explodes there must not do so in the engine."""
    for _ in range(WALK):
        if matcher.is_error() or matcher.is_stopped():
            return
        mask = matcher.compute_bitmask()
        byte = next((place for place, bits in enumerate(mask) if bits), None)
        if byte is None or not matcher.consume_token(byte * 8 + (mask[byte] & -mask[byte]).bit_length() - 1):
            return


def install() -> None:
    """Let vLLM not check again, in the event loop, what `FrontEnd` has checked; doing so twice changes nothing."""
    original = backend_guidance.validate_guidance_grammar
    if getattr(original, CHECKED, False):
        return

    def validate(sampling_params: Any, tokenizer: Any = None) -> None:
        if not getattr(sampling_params.structured_outputs, CHECKED, False):
            original(sampling_params, tokenizer)

    setattr(validate, CHECKED, True)
    backend_guidance.validate_guidance_grammar = validate


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "grammars")


def _invalid(fact: str) -> VLLMValidationError:
    return VLLMValidationError(f"This structured output is not supported: {fact}.", parameter=PARAMETER)

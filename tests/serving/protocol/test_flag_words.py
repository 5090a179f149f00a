"""What a tenant reads where vLLM speaks of its command line."""

from __future__ import annotations

from serving.protocol.flag_words import plain


def test_a_tenant_reads_what_it_and_the_operator_can_do() -> None:
    told = plain('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    assert "--" not in told
    assert "`tool_call_parser`" in told
    assert 'send `tool_choice`: "none"' in told
    assert "`engines[].vllm`" in told


def test_other_messages_stay_as_they_are() -> None:
    for message in ("max_tokens must be at least 1.", "a -- b", "--", "temperature --1"):
        assert plain(message) == message

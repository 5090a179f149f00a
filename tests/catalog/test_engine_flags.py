"""What of vLLM's flags a catalog may set."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from catalog.model import Engine


def engine(**more: Any) -> Engine:
    return Engine(id="e", gpu_type="h100", **more)


def test_a_flag_is_the_same_however_it_is_spelt() -> None:
    spelt = ({"tool_call_parser": "hermes"}, {"tool-call-parser": "hermes"}, {"--tool-call-parser": "hermes"})
    assert [engine(vllm=flags).vllm for flags in spelt] == [{"tool-call-parser": "hermes"}] * 3


def test_values_keep_their_kind() -> None:
    flags = {"dtype": "float32", "enforce-eager": True, "max-logprobs": 5, "lora-target-modules": ["q", "v"]}
    assert engine(vllm=flags | {"hf-overrides": {"a": {"b": 1}}}).vllm == flags | {"hf-overrides": {"a": {"b": 1}}}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"scheduler_cls": "x.Y"}, "the meter needs it"),
        ({"no_enable_lora": True}, "adapters are declared"),
        ({"enable_prefix_caching": False}, "prefix cache keeps tenants apart"),
        ({"prefix_caching_hash_algo": "xxhash"}, "its keys must be strong"),
        ({"max_loras": 4}, "`max_loras`"),
        ({"model": "other"}, "`base_model.path`"),
        ({"additional_config": {}}, "the meter needs it"),
        ({"api_key": "k"}, "environment"),
        ({"middleware": ["a.B"]}, "the gateway does"),
        ({"enable_log_requests": True}, "never recorded"),
        ({"trust_remote_code": True}, "foreign code"),
        ({"data_parallel_size": 2}, "`gpu_count`"),
        ({"tensor_parallel_size": 2}, "`gpu_count`, 1"),
        ({"structured_outputs_config": {"backend": "auto"}}, "one `backend`"),
        ({"structured_outputs_config": "guidance"}, "one `backend`"),
        ({"no_enforce_eager": True}, "write enforce-eager: false"),
        ({"chat_template": "x" * 20_000}, "20000 characters"),
        ({"lora_target_modules": ["q"] * 300}, "300 values"),
        ({"dtype": None}, "vllm"),
        ({"Drop Table": 1}, "not the name of a flag"),
        ({"x": 1, "--x": 2}, "x is given twice"),
        ({"f" + str(n): n for n in range(65)}, "65 flags"),
    ],
)
def test_what_metering_and_isolation_need_cannot_be_set(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        engine(vllm=flags)
    assert said in str(refused.value)


def test_what_is_rented_may_be_said_twice_when_it_agrees() -> None:
    assert engine(gpu_count=2, vllm={"tensor_parallel_size": 2}).gpu_count == 2


def test_the_kv_cache_is_sized_in_one_way() -> None:
    assert engine(vllm={"gpu_memory_utilization": 0.8}).vllm
    with pytest.raises(ValidationError, match="give one"):
        engine(kv_cache_bytes=1 << 30, vllm={"gpu_memory_utilization": 0.8})

"""The first requests of an engine's life, on a host without a C++ compiler: nothing is compiled, nobody spoils it for others."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("vllm")

from billing.close.counters import Counted, explain
from catalog.model import BaseModelSpec, Engine
from serving.engine.vllm_engine import VllmEngine
from serving.engine.vllm_flags import flag_problems
from serving.engine.vllm_start import start_vllm
from serving.errors import EngineStartFailed
from serving.protocol.response import plain
from telemetry.engine_time import EngineCounters, EngineValue

pytestmark = [
    pytest.mark.engine,
    # vLLM and torch, while they are imported and while they answer.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    # vLLM's start-up handshake leaves its context to the garbage collector.
    pytest.mark.filterwarnings("ignore:.*Unclosed (context|socket) <zmq:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*zmq:pytest.PytestUnraisableExceptionWarning"),
]

COMPILER = re.compile(r"gcc|g\+\+|^cc$|c\+\+|clang|cpp")
WIDE = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2000)}}
TOOL = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"]}}
SAMPLING: dict[str, list[Any]] = {
    "temperature": [0, 0.7, 1.5],
    "top_p": [0.5, 1],
    "top_k": [1, 5, -1],
    "min_p": [0, 0.2],
    "seed": [7],
    "presence_penalty": [1],
    "frequency_penalty": [0.5],
    "repetition_penalty": [1.3],
    "logit_bias": [{"5": 4}],
    "bad_words": [["the", "a b"]],
    "allowed_token_ids": [[5, 6, 7, 8]],
    "min_tokens": [2],
    "stop": ["x"],
    "n": [2],
    "top_logprobs": [1, 3],
    "prompt_logprobs": [2],
}
TAKEN: dict[str, dict[str, Any]] = {
    "regex": {"structured_outputs": {"regex": "[ab]+"}},
    "tuple schema": {"structured_outputs": {"json": {"type": "array", "items": [{"type": "string"}]}}},
    "choice": {"structured_outputs": {"choice": ["yes", "no"]}},
    "lark": {"structured_outputs": {"grammar": 'start: "a" | "b"'}},
    "ebnf": {"structured_outputs": {"grammar": 'root ::= "a" | "b"'}},
    "any object": {"response_format": {"type": "json_object"}},
    "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"enum": [1, 2]}}}},
    "deep repeats": {"structured_outputs": {"regex": "((((a{1,50}){1,50}){1,50}){1,50}){1,50}"}},
    "tools": {"tools": [{"type": "function", "function": TOOL}]},
    "forced tool": {"tools": [{"type": "function", "function": TOOL}], "tool_choice": "required", "max_tokens": 200},
}
REFUSED: dict[str, dict[str, Any]] = {
    "bad regex": {"regex": "[a-"},
    "look ahead": {"regex": "(?=a)b"},
    "bad schema": {"json": {"type": "nonsense"}},
    "long": {"json": {"enum": [f"value {n}" for n in range(20_000)]}},
    "many items": {"json": {"type": "array", "maxItems": 1_000_000, "items": {"type": "string"}}},
    "wide": {"json": WIDE},
    "deep": {"json": json.loads('{"items":' * 90 + "{}" + "}" * 90)},
    "bad grammar": {"grammar": "start: nowhere"},
    "foreign tag": {"structural_tag": '{"format": {"type": "const_string", "value": "x"}}'},
}


def drawn(seed: int, count: int) -> list[dict[str, Any]]:
    """Sampling parameters, drawn; the first asks for what torch would compile."""
    draw = random.Random(seed)
    out: list[dict[str, Any]] = [{"logprobs": True, "top_logprobs": 1}]
    for _ in range(count):
        names = draw.sample(sorted(SAMPLING), draw.randint(1, 5))
        asked = {name: draw.choice(SAMPLING[name]) for name in names}
        out.append(asked | ({"logprobs": True} if "top_logprobs" in asked else {}))
    return out


class World:
    def __init__(self, runner: asyncio.Runner, door: VllmEngine, values: list[EngineValue]) -> None:
        self.runner, self.door, self.values, self.attempts = runner, door, values, 0

    def ask(self, *bodies: dict[str, Any]) -> list[httpx.Response]:
        """All at once."""

        async def send() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.door.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=60) as client:
                return list(await asyncio.gather(*(self._one(client, body) for body in bodies)))

        return self.runner.run(send())

    async def _one(self, client: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
        attempt, self.attempts = f"gw:{self.attempts}", self.attempts + 1
        whole = {"model": "tiny-llama", "max_tokens": 6, "messages": [{"role": "user", "content": "hello"}], **body}
        whole |= {"cache_salt": "s", "vllm_xargs": {"ll_attempt": attempt, "ll_tenant": "bank"}}
        reply = await client.post("/v1/chat/completions", json=whole)
        if reply.status_code == 200:
            assert await self.door.measured(attempt, 5) is not None
        else:
            assert not self.door.knows(attempt)
        return reply


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PATH with everything but compilers; in their place, scripts that tell when they are called."""
    path = tmp_path_factory.mktemp("path")
    for program in Path("/usr/bin").iterdir():
        if not COMPILER.search(program.name):
            (path / program.name).symlink_to(program)
    for name in ("gcc", "g++", "cc", "c++", "clang", "clang++"):
        (path / name).write_text(f"#!/bin/sh\necho {name} >> {path}/called\nexit 1\n")
        (path / name).chmod(0o755)
    return path


@pytest.fixture(scope="module")
def world(engine_home: Path, trap: Path) -> Iterator[World]:
    values: list[EngineValue] = []
    engine = Engine(id="cpu-0", gpu_type="demo-cpu", vllm={"max_logprobs": 3})
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setenv("PATH", str(trap))
        for name in ("CC", "CXX"):
            patch.delenv(name, raising=False)
        door = runner.run(start_vllm(engine, BaseModelSpec(name="tiny-llama"), engine_home, values.append))
        try:
            yield World(runner, door, values)
        finally:
            runner.run(door.stop())


def test_no_sampling_parameters_make_the_engine_compile(world: World, trap: Path) -> None:
    for asked in drawn(seed=8, count=24):
        (reply,) = world.ask(asked)
        assert reply.status_code == 200, (asked, reply.text)
    assert not (trap / "called").exists()
    assert world.runner.run(world.door.healthy())


def test_what_one_tenant_asks_for_first_decides_nothing_for_the_next(world: World) -> None:
    alone = {name: world.ask(body)[0] for name, body in TAKEN.items()}
    assert {name: reply.status_code for name, reply in alone.items()} == dict.fromkeys(TAKEN, 200)
    assert set(alone["regex"].json()["choices"][0]["message"]["content"]) <= set("ab")
    assert alone["choice"].json()["choices"][0]["message"]["content"] in {"yes", "no"}
    assert alone["schema"].json()["choices"][0]["message"]["content"].strip() in {"1", "2"}
    together = world.ask(*TAKEN.values(), *({"structured_outputs": spec} for spec in REFUSED.values()))
    assert [reply.status_code for reply in together] == [200] * len(TAKEN) + [400] * len(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_a_grammar_that_cannot_be_had_fails_alone_and_names_the_field(world: World, name: str) -> None:
    reply, other = world.ask({"structured_outputs": REFUSED[name]}, {})
    assert (reply.status_code, other.status_code) == (400, 200)
    error = reply.json()["error"]
    assert error["param"] == "structured_outputs" or "JSON schema is nested too deeply" in error["message"]


def test_a_flag_of_the_catalog_reaches_vllm_and_its_refusal_speaks_to_the_tenant(world: World) -> None:
    reply = world.ask({"logprobs": True, "top_logprobs": 4})[0]
    assert reply.status_code == 400
    assert "--" not in plain(reply.json()["error"]["message"])


def test_flags_that_vllm_does_not_know_or_take_are_named() -> None:
    flags: dict[str, Any] = {"such_flag": 1, "dtype": "float33", "max_logprobs": "many", "enforce_eager": True}
    found = flag_problems(Engine(id="e", gpu_type="x", vllm=flags))
    assert [line.split(":")[0] for line in found] == ["such-flag", "dtype", "max-logprobs"]
    for flags in (
        {"tool_call_parser": "no-such", "enable_auto_tool_choice": True},
        {"chat_template": "/nowhere.jinja"},
    ):
        (said,) = flag_problems(Engine(id="e", gpu_type="x", vllm=flags))
        assert "no-such" in said or "nowhere" in said


def test_an_engine_with_a_flag_that_vllm_refuses_does_not_start(world: World, engine_home: Path) -> None:
    engine = Engine(id="cpu-1", gpu_type="x", vllm={"quantization": "no-such-method"})
    with pytest.raises(EngineStartFailed, match="no-such-method"):
        world.runner.run(start_vllm(engine, BaseModelSpec(name="tiny-llama"), engine_home, lambda _: None))


def test_the_books_are_whole_after_all_that(world: World) -> None:
    world.runner.run(world.door.stop())
    last = [value for value in world.values if isinstance(value, EngineCounters)][-1]
    claimed = Counted(0, last.meter["claimed_prompt_tokens"], last.meter["claimed_output_tokens"])
    assert last.final
    assert {gap.unexplained for gap in explain(last, claimed)} == {0}

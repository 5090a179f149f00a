"""Monthly budgets through the real gateway: bursts, crashes, fallbacks, restarts, and the ledger's figures coming in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from catalog.load import parse
from serving.attempt.limits import Clock, Limits
from serving.attempt.quotas import SnapshotFile, TenantQuotas
from serving.policy import budgets
from serving.policy.admission import Demand
from serving.protocol.errors import Refusal
from telemetry.usage import ErrorType, Status
from tests.fakes.fake_engine import ManualClock

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]
Text = Callable[..., str]
BY_TOKEN = '{kind: per_token, input: "0", cached_input: "0", output: "250000"}'
"""A request of four output tokens costs one."""
NOW = "2026-09-21T14:13:20+00:00"
TO_OCTOBER_S = (9 * 24 + 9) * 3600 + 46 * 60 + 40
"""From the moment at which the clock of these tests begins."""


@pytest.fixture
def budgeted(catalog_text: Text) -> Text:
    """Catalog text in which the clinic has a budget of 10."""

    def make(plan: str = BY_TOKEN, budget: str = "10", quotas: str = "", price: str = "1", **fields: Any) -> str:
        text = catalog_text(clinic=f'quotas: {{monthly_budget: "{budget}"{quotas}}}', **fields)
        return text.replace("{kind: cost_plus}", plan, 1).replace('per_hour: "1"', f'per_hour: "{price}"')

    return make


def publish(
    bench: Any,
    charged: str,
    month: str = "2026-09",
    at: str = NOW,
    until: str | None = None,
    **counted: list[list[int]],
) -> None:
    figures = {
        "published_at": at,
        "tenants": {"clinic": {"month": month, "charged": charged}},
        "counted": {emitter.replace("_", "-"): spans for emitter, spans in counted.items()},
        "charged_until": until,
    }
    draft: Path = bench.directory / "draft.json"
    draft.write_text(json.dumps(figures))
    draft.replace(bench.directory / "snapshot.json")


def spent(bench: Any) -> Fraction:
    """What the clinic's month has come to, as the gateway has it."""
    catalog = bench.source.view.catalog
    found: Fraction = bench.gateway.app.pages._services.quotas.spent(catalog, catalog.tenant("clinic"))
    return found


async def burst(bench: Any, ask: Ask, count: int, **fields: Any) -> list[Any]:
    return await asyncio.gather(*(bench.post(ask(f"number {n:02}", **fields)) for n in range(count)))


def test_of_a_hundred_at_once_ten_pass_a_budget_of_ten(run_bench: Run, ask: Ask, budgeted: Text) -> None:
    async def test(bench: Any) -> None:
        replies = await burst(bench, ask, 100)
        assert sorted(reply.status_code for reply in replies) == [200] * 10 + [429] * 90
        assert spent(bench) == 10
        paid = [record for record in bench.records() if record.status is Status.OK]
        assert sum(record.output_tokens_delivered for record in paid) == 40
        refused = [record for record in bench.records() if record.status is Status.REJECTED]
        assert len(refused) == 90
        assert {(record.error_type, record.slices, record.admitted_ns) for record in refused} == {
            (ErrorType.REJECTED, (), None)
        }
        last = await bench.post(ask())
        assert last.status_code == 429
        assert last.json()["error"]["code"] == "monthly_budget"
        assert "10.00 charged in 2026-09" in last.json()["error"]["message"]
        left_s = int(last.headers["retry-after"])
        assert TO_OCTOBER_S - 60 < left_s <= TO_OCTOBER_S
        bench.clock.advance(left_s * 10**9)
        assert (await bench.post(ask())).status_code == 200, "the month has turned"

    run_bench(test, catalog=budgeted())


def test_by_time_a_burst_overshoots_by_what_it_came_to_beyond_its_holds(
    run_bench: Run, ask: Ask, budgeted: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is slower than the gateway supposes of a tenant that it does not know yet."""
    plan, price, supposed_ns = '{kind: cost_plus, margin: "0.5"}', 1_200_000, 50_000
    monkeypatch.setattr(budgets, "DEFAULT_NS_PER_TOKEN", supposed_ns)

    async def test(bench: Any) -> None:
        statuses = sorted(reply.status_code for reply in await burst(bench, ask, 100, model="tiny-llama"))
        served = [record for record in bench.records() if record.status is Status.OK]
        assert 0 < len(served) < 100
        assert statuses == [200] * len(served) + [429] * (100 - len(served))
        per_ns = Fraction(price, 3600 * 10**9) * Fraction(3, 2)
        charges = [sum(part.measured_ns for part in record.slices) * per_ns for record in served]
        tokens = len(["<user>", "number", "10"]) + 4
        held = tokens * supposed_ns * per_ns
        overshoot = sum(max(Fraction(0), came_to - held) for came_to in charges)
        assert spent(bench) == sum(charges)
        assert 10 < sum(charges) <= 10 + overshoot
        # What a token takes is known now: the budget is used up, so nothing passes, one at a time or together.
        assert {reply.status_code for reply in await burst(bench, ask, 20)} == {429}

    run_bench(test, catalog=budgeted(plan, price=str(price)))


def test_what_fails_costs_nothing_and_holds_nothing(run_bench: Run, ask: Ask, budgeted: Text, raw: Any) -> None:
    async def test(bench: Any) -> None:
        for fault in ("raise", "error", "stream_error"):
            bench.engine.switches.faults.append(fault)
            await bench.post(ask(max_tokens=40, stream=fault == "stream_error"))
            assert spent(bench) == 0, fault
        bench.engine.switches.broken_adapters.add("coder")
        assert (await bench.post(ask(max_tokens=40, model="coder"))).status_code == 503
        assert (await bench.post({"messages": "none", "max_tokens": 40})).status_code == 400
        assert spent(bench) == 0
        bench.engine.switches.stepping.clear()
        assert (await bench.post(ask("slow", max_tokens=40))).status_code == 504
        bench.engine.switches.stepping.set()
        gone = raw(json.dumps(ask("gone", max_tokens=40)).encode())
        gone.hang_up.set()
        await bench.raw(gone)
        charged = sum(
            record.output_tokens_delivered
            for record in bench.records()
            if record.status in (Status.OK, Status.CLIENT_ABORT)
        )
        assert spent(bench) == Fraction(charged, 4)
        assert bench.gateway.app.pages._services.quotas.written_off == 0

    run_bench(test, catalog=budgeted(), limits=Limits(engine_s=0.1))


@pytest.mark.parametrize(
    "fields",
    [{"model": "coder"}, {"model": "tiny-llama"}, {"model": "auto"}, {}, {"stream": True}, {"n": 3}, {"user": "u"}],
    ids=str,
)
def test_no_route_and_no_fallback_leads_past_a_used_up_budget(
    run_bench: Run, ask: Ask, budgeted: Text, fields: dict[str, Any]
) -> None:
    """The adapter cannot be loaded, and the only other way there is, the base model, costs as much."""

    async def test(bench: Any) -> None:
        publish(bench, "10")
        bench.engine.switches.broken_adapters.update(("coder", "tone"))
        for text in ("hello", "ICD code of this"):
            assert (await bench.post(ask(text, **fields))).status_code == 429
        completion = {"prompt": "hello", "max_tokens": 4, **fields}
        assert (await bench.post(completion, path="/v1/completions")).status_code == 429
        assert (bench.engine.seen, bench.engine.loads_done) == ([], [])
        assert {record.status for record in bench.records()} == {Status.REJECTED}
        assert (await bench.post(ask(), "bank")).status_code == 200, "another tenant's budget is its own"

    run_bench(test, catalog=budgeted())


def test_a_refusal_for_the_budget_takes_no_other_quota_and_another_quotas_none_of_the_budget(
    run_bench: Run, ask: Ask, budgeted: Text
) -> None:
    async def test(bench: Any) -> None:
        publish(bench, "1")
        assert (await bench.post(ask(max_tokens=40))).json()["error"]["code"] == "monthly_budget"
        publish(bench, "0", at="2026-09-21T14:13:21+00:00")
        assert (await bench.post(ask(max_tokens=20))).status_code == 200
        reply = await bench.post(ask(max_tokens=20))
        assert reply.json()["error"]["code"] == "requests_per_minute"
        assert spent(bench) == 5
        bench.clock.advance(60 * 10**9)
        assert (await bench.post(ask(max_tokens=20))).status_code == 200

    run_bench(test, catalog=budgeted(quotas=", requests_per_minute: 1"))


def test_the_ledgers_figures_replace_exactly_what_they_count(run_bench: Run, ask: Ask, budgeted: Text) -> None:
    async def test(bench: Any) -> None:
        for _ in range(3):
            await bench.post(ask())
        publish(bench, "1.5", gw_test=[[0, 0]])
        assert spent(bench) == Fraction(3, 2) + 2, "half a unit is another gateway's"
        publish(bench, "4.5", gw_test=[[0, 2]], gw_else=[[0, 900]])
        assert spent(bench) == Fraction(9, 2)
        await bench.post(ask())
        publish(bench, "4.5", at="2026-09-21T15:00:00+00:00", gw_test=[[0, 2]])
        assert spent(bench) == Fraction(11, 2), "a publisher whose clock is ahead makes nothing look forgotten"
        (bench.directory / "snapshot.json").write_text("{")
        assert spent(bench) == Fraction(11, 2)
        (bench.directory / "snapshot.json").unlink()
        assert spent(bench) == Fraction(11, 2)
        scrape = (await bench.get("/metrics")).text
        assert 'loraledger_tenant_budget_used_ratio{tenant="clinic"} 0.55' in scrape
        assert 'tenant="bank"' not in "".join(line for line in scrape.splitlines() if "budget_used" in line)
        assert "loraledger_budget_written_off_total 0.0" in scrape
        bench.clock.advance(31 * 24 * 3600 * 10**9)
        assert spent(bench) == 0, "figures of September say nothing of October"

    run_bench(test, catalog=budgeted())


@pytest.mark.parametrize(
    ("charged", "fault"),
    [
        ("NaN", "an amount is not a number"),
        ("-Infinity", "an amount is not a number"),
        ("-4.5", "an amount is below 0"),
        ("1E+999999999", "an amount is not below"),
    ],
)
def test_figures_that_cannot_be_are_refused_once_and_those_before_stay(
    run_bench: Run, ask: Ask, budgeted: Text, charged: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(bench: Any) -> None:
        publish(bench, "9.5")
        assert (await bench.post(ask())).status_code == 429
        publish(bench, charged)
        assert (await bench.post(ask())).status_code == 429, "no file raises a budget"
        assert spent(bench) == Fraction(19, 2)
        (said,) = [record.getMessage() for record in caplog.records if "ledger snapshot" in record.getMessage()]
        assert fault in said
        assert said.endswith("the one before it stays")

    run_bench(test, catalog=budgeted())


def test_a_ledger_that_derives_late_makes_nothing_look_forgotten(run_bench: Run, ask: Ask, budgeted: Text) -> None:
    async def test(bench: Any) -> None:
        await bench.post(ask())
        bench.clock.advance(3600 * 10**9)
        publish(bench, "0", at="2026-09-21T15:13:20+00:00", until="2026-09-21T14:00:00+00:00")
        assert spent(bench) == 1
        publish(bench, "0", at="2026-09-21T15:13:21+00:00", until="2026-09-21T15:13:21+00:00")
        assert spent(bench) == 0
        assert bench.gateway.app.pages._services.quotas.written_off == 1

    run_bench(test, catalog=budgeted())


def test_figures_of_another_month_or_none_at_all_stop_nobody(run_bench: Run, ask: Ask, budgeted: Text) -> None:
    async def test(bench: Any) -> None:
        assert (await bench.post(ask())).status_code == 200
        publish(bench, "500", month="2026-08")
        assert (await bench.post(ask())).status_code == 200
        assert spent(bench) == 2
        publish(bench, "10")
        assert (await bench.post(ask())).status_code == 429

    run_bench(test, catalog=budgeted())


def test_a_budget_raised_in_the_catalog_holds_at_once(run_bench: Run, ask: Ask, budgeted: Text) -> None:
    async def test(bench: Any) -> None:
        publish(bench, "10")
        assert (await bench.post(ask())).status_code == 429
        bench.catalog_path.write_text(budgeted(budget="20"))
        assert await bench.gateway.reload()
        assert (await bench.post(ask())).status_code == 200
        assert spent(bench) == 11

    run_bench(test, catalog=budgeted())


def answers(output: int) -> Demand:
    """A request for one answer to nothing."""
    return Demand((0,), 1, limit=4096, block=16, output=output)


def desks(directory: Path, count: int, text: str, charged: str) -> tuple[Any, list[TenantQuotas]]:
    clock = ManualClock()
    path = directory / "snapshot.json"
    path.write_text(
        json.dumps(
            {"published_at": NOW, "tenants": {"clinic": {"month": "2026-09", "charged": charged}}, "counted": {}}
        )
    )
    catalog = parse(text, "test")
    made = [
        TenantQuotas(
            Clock(clock.utc_ns, clock.mono_ns), SnapshotFile(path), f"gw-{n}", catalog.engine("fake-0"), 10**12
        )
        for n in range(count)
    ]
    return catalog, made


def test_three_gateways_start_cold_with_50_spent_and_it_is_50(tmp_path: Path, budgeted: Text) -> None:
    catalog, gateways = desks(tmp_path, 3, budgeted(budget="51"), "50")
    clinic = catalog.tenant("clinic")
    assert [desk.spent(catalog, clinic) for desk in gateways] == [50, 50, 50]
    # Each may spend what is left: the bound of what several gateways overshoot between two snapshots.
    for desk in gateways:
        desk.admit(catalog, clinic, answers(4), 0)
        with pytest.raises(Refusal):
            desk.admit(catalog, clinic, answers(1), 1)


def test_a_process_that_dies_takes_its_holds_with_it(tmp_path: Path, budgeted: Text) -> None:
    text = budgeted()
    catalog, (dying,) = desks(tmp_path, 1, text, "0")
    clinic = catalog.tenant("clinic")
    dying.admit(catalog, clinic, answers(40), 0)
    assert dying.spent(catalog, clinic) == 10
    _, (after,) = desks(tmp_path, 1, text, "2.5")
    assert after.spent(catalog, clinic) == Fraction(5, 2), "what the ledger knows, and nothing else"

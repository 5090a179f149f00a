"""One life of a real gateway and engine, to a SIGKILL in mid-load, and what the ledger knows of it afterwards."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from billing.close.reconcile import Reconciliation
from billing.store.intake.ingest import IngestReport
from catalog.owners import TimeOwner
from loraledger.books import Books
from loraledger.child import ServeProcess
from loraledger.load import drive
from loraledger.settings import Settings
from loraledger.traffic import HOUSE_RULES, calls

ROOT = Path(__file__).parents[2]
PROMPT = HOUSE_RULES + "What must I record?"

pytestmark = pytest.mark.engine


@dataclass
class Life:
    """What was seen from outside, and what the ledger says."""

    replies: dict[str, httpx.Response] = field(default_factory=dict)
    finished_before_kill: list[str] = field(default_factory=list)
    scrape: str = ""
    ingests: list[IngestReport] = field(default_factory=list)
    usage: list[dict[str, Any]] = field(default_factory=list)
    usage_again: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, Any] = field(default_factory=dict)
    reconciliation: Reconciliation | None = None
    invoices: list[Path] = field(default_factory=list)


def _catalog(path: Path) -> Path:
    raw = yaml.safe_load((ROOT / "examples" / "catalog.yaml").read_text())
    raw["adapters"].append(
        {"name": "ghost", "path": str(path.parent / "no-such-adapter"), "rank": 8, "owner": "campus"}
    )
    next(t for t in raw["tenants"] if t["id"] == "campus")["adapters"] = ["ghost"]
    path.write_text(yaml.safe_dump(raw))
    return path


def _chat(
    client: httpx.Client, tenant: str, model: str, text: str = PROMPT, key: str | None = None, **more: Any
) -> httpx.Response:
    body = {
        "model": model,
        "max_tokens": 8,
        "ignore_eos": True,
        "messages": [{"role": "user", "content": text}],
        **more,
    }
    return client.post(
        "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key or 'demo-key-' + tenant}"}
    )


def _hang_up(client: httpx.Client) -> None:
    body = {
        "model": "tiny-llama",
        "max_tokens": 400,
        "ignore_eos": True,
        "stream": True,
        "messages": [{"role": "user", "content": "hang up on me"}],
    }
    with client.stream(
        "POST", "/v1/chat/completions", json=body, headers={"authorization": "Bearer demo-key-freeride"}
    ) as reply:
        chunks = 0
        for line in reply.iter_lines():
            chunks += line.startswith("data:")
            if chunks >= 4:
                return


def _load_until_killed(url: str, life: Life) -> None:
    async def send() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:

            async def one(number: int) -> None:
                body = {
                    "model": "tiny-llama",
                    "max_tokens": 4 + number % 3 * 450,
                    "ignore_eos": True,
                    "messages": [{"role": "user", "content": f"case {number}"}],
                }
                reply = await client.post(
                    "/v1/chat/completions", json=body, headers={"authorization": "Bearer demo-key-campus"}
                )
                life.finished_before_kill.append(reply.headers["x-request-id"])

            await asyncio.gather(*(one(n) for n in range(60)), return_exceptions=True)

    asyncio.run(send())


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    home = tmp_path_factory.mktemp("life")
    settings = Settings.from_environ(
        {**os.environ, "LORALEDGER_HOME": str(home), "LORALEDGER_CATALOG": str(_catalog(home / "catalog.yaml"))}
    )
    life = Life()
    with ServeProcess(settings, lambda _: None) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        life.replies["clinic first"] = _chat(client, "clinic", "icd10-coder")
        life.replies["clinic again"] = _chat(client, "clinic", "icd10-coder")
        life.replies["campus, same text"] = _chat(client, "campus", "tiny-llama")
        life.replies["freeride, same text"] = _chat(client, "freeride", "tiny-llama")
        life.replies["campus again"] = _chat(client, "campus", "tiny-llama")
        life.replies["forbidden fields"] = _chat(
            client, "shop", "auto", cache_salt="stolen", priority=-5, vllm_xargs={"ll_tenant": "bank"}
        )
        _hang_up(client)
        life.replies["bad request"] = _chat(client, "campus", "tiny-llama", max_tokens=-1)
        life.replies["unknown key"] = _chat(client, "nobody", "tiny-llama", key="stolen-key")
        life.replies["not granted"] = _chat(client, "campus", "icd10-coder")
        life.replies["unknown model"] = _chat(client, "campus", "gpt-9")
        life.replies["missing files"] = _chat(client, "campus", "ghost")
        life.replies["after missing files"] = _chat(client, "campus", "tiny-llama")
        life.replies["models of campus"] = client.get("/v1/models", headers={"authorization": "Bearer demo-key-campus"})
        asyncio.run(drive(server.url, calls(3, 40), at_once=8, budget_s=60, done=lambda _: None))
        time.sleep(1.5)
        life.scrape = client.get("/metrics").text
        loader = threading.Thread(target=_load_until_killed, args=(server.url, life))
        loader.start()
        # Longer than a meter window, so that the open ones have engine time on record.
        time.sleep(2.5)
        while len(life.finished_before_kill) < 12:
            time.sleep(0.01)
        server.kill()
        loader.join()
    _book(settings, life)
    return life


def _book(settings: Settings, life: Life) -> None:
    # A minute later: the killed engine has given no sign of life for so long that it is gone.
    books = replace(Books.of(settings), clock=lambda: datetime.now(UTC) + timedelta(minutes=1))
    life.ingests.append(books.ingest([]))
    month = books.current_month()
    books.month(month, issue=False)
    query = "SELECT request_id, tenant, status, http_status, output_tokens_computed, output_tokens_delivered, cached_tokens, base_ns + adapter_ns + recompute_ns AS measured_ns FROM usage ORDER BY emitter, seq"
    with books.open() as ledger:
        life.usage = ledger.ask(query).dicts()
    life.ingests.append(books.ingest([]))
    books.month(month, issue=False)
    with books.open() as ledger:
        life.usage_again = ledger.ask(query).dicts()
        life.costs = {
            row["status"]: row
            for row in ledger.ask(
                "SELECT status, sum(measured_ns) AS ns, sum(cost) AS cost, sum(revenue) AS revenue FROM tenant_cost GROUP BY status"
            ).dicts()
        }
    life.reconciliation = books.reconcile(month)
    life.invoices = sorted(settings.out.rglob("*.pdf"))


def _cached(reply: httpx.Response) -> int:
    cached: int = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return cached


def test_a_prefix_is_shared_inside_a_tenant_and_never_between_two(life: Life) -> None:
    assert _cached(life.replies["clinic first"]) == 0
    assert _cached(life.replies["clinic again"]) > 0
    assert _cached(life.replies["campus, same text"]) == 0
    assert _cached(life.replies["freeride, same text"]) == 0
    assert _cached(life.replies["campus again"]) > 0


def test_a_client_cannot_become_another_tenant_or_take_its_cache(life: Life) -> None:
    reply = life.replies["forbidden fields"]
    assert reply.status_code == 200
    assert _of(life, reply)["tenant"] == "shop"
    assert _cached(reply) == 0


def test_replies_name_public_models_only(life: Life) -> None:
    assert life.replies["clinic first"].json()["model"] == "icd10-coder"
    assert [m["id"] for m in life.replies["models of campus"].json()["data"]] == ["tiny-llama", "ghost"]
    assert all("@" not in reply.text for reply in life.replies.values())


def test_what_may_not_be_asked_is_refused_without_telling_what_exists(life: Life) -> None:
    assert life.replies["bad request"].status_code == 400
    assert life.replies["unknown key"].status_code == 401
    denied, unknown = life.replies["not granted"], life.replies["unknown model"]
    assert denied.status_code == unknown.status_code == 404
    assert denied.text.replace("icd10-coder", "X") == unknown.text.replace("gpt-9", "X")


def test_a_missing_adapter_fails_its_own_request_and_the_engine_lives_on(life: Life) -> None:
    failed = life.replies["missing files"]
    assert failed.status_code >= 400
    assert "ghost" in failed.json()["error"]["message"]
    assert "no-such-adapter" not in failed.text
    assert life.replies["after missing files"].status_code == 200


def test_who_hung_up_has_a_record_with_what_was_computed_and_its_time(life: Life) -> None:
    rows = [row for row in life.usage if row["status"] == "client_abort"]
    assert [row["tenant"] for row in rows if row["tenant"] == "freeride"]
    for row in rows:
        assert row["output_tokens_computed"] >= row["output_tokens_delivered"] > 0
        assert row["measured_ns"] > 0


@pytest.mark.parametrize("name", ["bad request", "unknown key", "not granted", "missing files"])
def test_what_never_reached_the_engine_has_a_record_and_costs_nothing(life: Life, name: str) -> None:
    reply = life.replies[name]
    row = _of(life, reply)
    assert row["http_status"] == reply.status_code
    assert row["measured_ns"] == 0


def test_every_finished_request_is_in_the_ledger_once_and_the_open_ones_are_lost(life: Life) -> None:
    ids = [row["request_id"] for row in life.usage]
    assert len(ids) == len(set(ids))
    by_id = {row["request_id"]: row["status"] for row in life.usage}
    assert len(life.finished_before_kill) >= 12
    assert {by_id.get(request) for request in life.finished_before_kill} == {"ok"}
    lost = [row for row in life.usage if row["status"] == "lost"]
    assert lost
    assert all(row["measured_ns"] is None for row in lost)
    assert life.costs["lost"]["ns"] > 0
    assert life.costs["lost"]["revenue"] == 0


def test_ingesting_and_deriving_again_changes_nothing(life: Life) -> None:
    assert life.ingests[0].records > 0
    assert life.ingests[1].records == life.ingests[1].spans == life.ingests[1].events == 0
    assert life.usage_again == life.usage


def test_every_nanosecond_of_the_killed_engine_has_an_owner(life: Life) -> None:
    found = life.reconciliation
    assert found is not None
    found.check()
    assert found.rented_ns > found.owners[TimeOwner.TENANTS] > 0
    assert found.owners[TimeOwner.COLD] > 0
    assert found.owners[TimeOwner.DOWN] > 0
    assert found.uneven_attempts == 0
    busy = found.rented_ns - found.owners[TimeOwner.DOWN] - found.owners[TimeOwner.IDLE]
    assert found.owners[TimeOwner.UNATTRIBUTED] * 1000 <= busy


def test_each_tenant_has_a_draft(life: Life) -> None:
    assert {path.name for path in life.invoices} >= {
        f"{t}-draft.pdf" for t in ("bank", "campus", "clinic", "forge", "freeride", "shop")
    }


def _of(life: Life, reply: httpx.Response) -> dict[str, Any]:
    return next(row for row in life.usage if row["request_id"] == reply.headers["x-request-id"])

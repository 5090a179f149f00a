"""The page of a small ledger: its figures, its looks in a real browser, and that it asks nobody for anything."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from alerts.promises import DEFAULT
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_cold_starts, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_spans
from billing.store.report import report_facts
from catalog.model import Catalog
from loraledger.page.build import build_page, judge
from loraledger.page.render import render
from loraledger.page.view import Page, Verdict
from telemetry.engine_time import SessionEvent
from telemetry.usage import ErrorType, Status

S = 1_000_000_000
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-dev-shm-usage", "--disable-features=NetworkTimeServiceQuerying", "--dump-dom", "--virtual-time-budget=4000",
)  # fmt: skip
LOOK = """<!DOCTYPE html><body><script>
const found = {};
let left = 0;
for (const [name, width] of [['light', 390], ['dark', 390], ['light', 1280]]) {
  left += 1;
  const frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:800px;border:0`;
  frame.src = `/${name}.html`;
  frame.onload = () => {
    const inside = frame.contentDocument, root = inside.documentElement, wide = [], outside = [];
    for (const one of inside.body.querySelectorAll('*')) {
      const box = one.getBoundingClientRect();
      if (box.width && (box.right > width + 0.5 || box.left < -0.5)) wide.push(one.tagName + ' ' + one.textContent.trim().slice(0, 30));
    }
    for (const text of inside.querySelectorAll('svg text')) {
      const box = text.getBoundingClientRect(), card = text.closest('section').getBoundingClientRect();
      if (box.width && (box.right > card.right || box.left < card.left)) outside.push(text.textContent);
    }
    const panels = [...inside.querySelectorAll('.answers .card .headline')].map(one => Math.round(one.getBoundingClientRect().bottom));
    const size = Math.min(...[...inside.querySelectorAll('svg text')].filter(t => t.getBoundingClientRect().width).map(
      t => parseFloat(inside.defaultView.getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width));
    found[`${name} ${width}`] = {scroll: root.scrollWidth, wide, outside, panels, size, paper: inside.defaultView.getComputedStyle(inside.body).backgroundColor};
    if (Object.keys(found).length == 3) document.body.textContent = JSON.stringify(found);
  };
  document.body.append(frame);
}
</script></body>"""


MADE: list[Page] = []


@pytest.fixture
def page(
    shared_ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> Page:
    """One page for all tests: a ledger takes seconds."""
    if not MADE:
        MADE.append(made(shared_ledger, traffic, example, ns, now, tmp_path))
    return MADE[0]


def made(ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path) -> Page:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0 - 9 * S)
    traffic.serve("freeride", t0 - 4 * S, 2_400_000_000, adapter="brand-voice", length_ns=3 * S, cold_ns=20_000_000)
    traffic.serve("clinic", t0 + S, 350_000_000, 50_000_000, adapter="icd10-coder", saved=(30_000_000, 10_000_000))
    traffic.serve("clinic", t0 + 2 * S, 100_000_000, adapter="icd10-coder", length_ns=1_700_000_000)
    traffic.serve("bank", t0 + 4 * S, 100_000_000, length_ns=1_500_000_000)
    traffic.serve("shop", t0 + 6 * S, 10_000_000, status=Status.SERVER_ERROR)
    for n, status in enumerate((Status.OK, Status.CLIENT_ABORT)):
        slow = traffic.open("bank", t0 + 10 * S, engine=None)
        late_ns = t0 + (40 + n) * S
        traffic.close(replace(slow, status=status, error_type=ErrorType.CLIENT_SLOW, finished_ns=late_ns, slices=()))
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    ingest(ledger, [traffic.write(tmp_path / "spool")], example, now)
    window = month_window("2026-10", example)
    book_spans(ledger, *window, example, now)
    write_engine_time(ledger, *window, example, now)
    write_cold_starts(ledger, *window, now)
    write_tenant_cost(ledger, *window, example, now)
    latency = DEFAULT.latency
    facts = report_facts(ledger, "2026-10", example, latency.yellow, latency.red, now)
    return build_page(facts, example, DEFAULT, now)


def html_of(page: Page, example: Catalog, theme: Any = None) -> str:
    return render(page, {tenant.id: tenant.name for tenant in example.tenants}, theme)


def test_promises_are_judged_exactly_and_nothing_is_made_up(page: Page) -> None:
    found = {row.tenant: row for row in page.promises}
    assert [row.tenant for row in page.promises][:3] == ["shop", "clinic", "bank"], "worst first"
    clinic, bank, shop = found["clinic"], found["bank"], found["shop"]
    assert (clinic.judged, clinic.above_slo, clinic.above_yellow, clinic.above_red) == (2, 1, 1, 0)
    assert (clinic.p50_s, clinic.p99_s, clinic.verdict) == (1.0, 1.7, Verdict.LATE)
    assert (bank.above_slo, bank.verdict) == (0, Verdict.KEPT), "exactly the promised time is kept"
    assert (shop.failed, shop.above_red, shop.p99_s, shop.verdict) == (1, 1, None, Verdict.BROKEN)
    assert found["campus"].verdict is Verdict.IDLE
    assert (bank.judged, bank.above_slo) == (2, 0), (
        "a slow client is no fault of ours: cut off it has no say, served it is kept"
    )
    assert found["freeride"].few


def test_the_share_that_may_be_late_is_a_sharp_edge() -> None:
    assert judge(DEFAULT.latency, 1000, 10, 0) is Verdict.KEPT
    assert judge(DEFAULT.latency, 1000, 11, 10) is Verdict.LATE
    assert judge(DEFAULT.latency, 1000, 11, 11) is Verdict.BROKEN


def test_the_figures_are_the_ledgers(page: Page, shared_ledger: Ledger) -> None:
    months = shared_ledger.ask(
        "SELECT tenant, cost, revenue, t_b_ns, t_a_ns, t_kv_ns, t_cold_ns FROM finance_tenant_month WHERE billing_month = '2026-10'"
    )
    wanted = {row[0]: row[1:] for row in months.rows if row[0] != "provider"}
    shown = {
        row.tenant: (row.cost, row.revenue, row.t_b_ns, row.t_a_ns, row.t_kv_ns, row.t_cold_ns) for row in page.money
    }
    assert shown == wanted
    assert page.missing_ns == 0
    assert not page.missing_cost
    assert sum(owner.gpu_ns for owner in page.owners) == page.rented_ns
    assert {row.adapter: (row.loads, row.engine_sum_ms) for row in page.cold} == {"brand-voice": (1, 20.0)}
    assert page.timeline is not None
    assert [lane.adapter for lane in page.timeline.lanes] == ["icd10-coder", "brand-voice"]
    assert [alert.name for alert in page.alerts.active] == ["LoraCloseOverdue", "LoraMarginNegative"]


def test_the_page_is_one_file_with_everything_in_it(page: Page, example: Catalog) -> None:
    html = html_of(page, example)
    assert html == html_of(page, example), "the same ledger, the same bytes"
    assert len(html) < 400_000
    assert "<script" not in html
    assert not re.findall(r'(?:src|href|url\()="?(?!#|data:|https?://www\.w3\.org)([^"\s)]+)', html)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:xlink:href="#|href="#|url\(#)([^")]+)', html)) <= set(ids)
    text = unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)))
    for answer in (
        "Tenants: is the promise kept?",
        "4 of 6 kept",
        "LoraMarginNegative",
        "Residency",
        "Cold starts",
        "T_kv",
    ):
        assert answer in text
    assert "#0102" not in html, "every colour is the page's"


def test_what_tenants_and_prometheus_write_cannot_become_markup(page: Page, example: Catalog) -> None:
    evil = "<img src=x onerror=alert(1)>"
    html = render(page, {tenant.id: evil for tenant in example.tenants})
    assert "<img" not in html


def test_a_month_without_anything_is_a_page_too(shared_ledger: Ledger, example: Catalog, now: datetime) -> None:
    latency = DEFAULT.latency
    facts = report_facts(shared_ledger, "2026-03", example, latency.yellow, latency.red, now)
    html = html_of(build_page(facts, example, DEFAULT, now), example)
    assert "No adapter was loaded in this month." in html
    assert "no requests" in html


@contextmanager
def served(files: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.headers['host']}{self.path}")
            body = files.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_in_a_real_browser_nothing_overflows_on_a_phone_and_nobody_is_asked(
    page: Page, example: Catalog, tmp_path: Path
) -> None:
    files = {"/": LOOK, **{f"/{theme}.html": html_of(page, example, theme) for theme in ("light", "dark")}}
    with served(files) as (host, asked):
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"http://{host}/"]
        # Whatever name the page might ask for would come here, where it is seen.
        command.insert(-1, f"--host-resolver-rules=MAP * {host}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    looks = json.loads(unescape(re.sub(r"<[^>]+>", "", done.stdout)))
    assert sorted(looks) == ["dark 390", "light 1280", "light 390"]
    for name, look in looks.items():
        assert look["scroll"] <= int(name.split()[1]), name
        assert (look["wide"], look["outside"]) == ([], []), name
        assert look["size"] >= 10, f"{name}: the text of a chart is {look['size']} px high"
    assert max(looks["light 1280"]["panels"]) < 800, "each reader's answer is on the first screen"
    assert looks["light 390"]["paper"] != looks["dark 390"]["paper"]
    assert {one.removeprefix(host) for one in asked} <= {"/", "/light.html", "/dark.html", "/favicon.ico"}

"""The page as HTML: one file that asks for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from loraledger.page import charts, words
from loraledger.page.view import Page

SHOWN: Final = 6
"""Tenants in the answers on top; the sections below have all."""


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table of the page; cells are text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] = ()


class Drawn(NamedTuple):
    """One chart in two widths: for a wide screen and for a phone."""

    wide: Markup
    narrow: Markup


def render(page: Page, names: Mapping[str, str], theme: Literal["light", "dark"] | None = None) -> str:
    """The whole page; `names` are the tenants' names by id. `theme` None follows the reader's setting."""
    environment = Environment(
        loader=PackageLoader("loraledger.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for word in (
        words.money, words.signed, words.percent, words.seconds, words.ms, words.instant, words.moment, words.month, words.meter,
    ):  # fmt: skip
        environment.filters[word.__name__] = word
    assert environment.loader is not None
    css = Markup(environment.loader.get_source(environment, "report.css")[0])
    return environment.get_template("page.html.j2").render(
        page=page,
        names=names,
        theme=theme,
        css=css,
        shown=SHOWN,
        charts=_charts(page),
        owner_colour=charts.OWNER_COLOUR,
        tables={"promises": _promises(page), "terms": _terms(page), "cold": _cold(page)},
    )


def _charts(page: Page) -> dict[str, Drawn]:
    """The charts by name; one without data is left out."""
    found = page.timeline
    drawings: list[tuple[str, bool, Callable[[int], str]]] = [
        ("promise", bool(page.promises), lambda width: charts.promise_chart(page, width)),
        ("terms", bool(page.money), lambda width: charts.terms_chart(page, width)),
        ("share", bool(page.money), lambda width: charts.share_chart(page, width)),
        ("owners", page.rented_ns > 0, lambda width: charts.owners_chart(page.owners, width)),
        ("cold", bool(page.cold), lambda width: charts.cold_chart(page, width)),
    ]
    if found is not None:
        drawings.append(("residency", bool(found.lanes), lambda width: charts.residency_chart(found, width)))
    return {
        name: Drawn(Markup(draw(charts.WIDE)), Markup(draw(charts.NARROW))) for name, some, draw in drawings if some
    }


def _promises(page: Page) -> HtmlTable:
    columns = (
        "tenant",
        "requests",
        "failed",
        "median",
        "P99",
        "worst",
        "promise",
        "above it",
        f"above {page.yellow} ×",
        f"above {page.red} ×",
        "verdict",
    )
    rows = tuple(
        (
            row.tenant,
            f"{row.judged:,}{'*' if row.few else ''}",
            f"{row.failed:,}",
            words.seconds(row.p50_s),
            words.seconds(row.p99_s),
            words.seconds(row.max_s),
            words.seconds(row.slo_s),
            *(
                words.percent(above / row.judged if row.judged else None)
                for above in (row.above_slo, row.above_yellow, row.above_red)
            ),
            row.verdict,
        )
        for row in page.promises
    )
    return HtmlTable(columns, rows)


def _terms(page: Page) -> HtmlTable:
    columns = (
        "tenant", "requests", "tokens in", "out", "T_B s", "T_A s", "T_kv s", "T_cold s", "measured s", f"cost {page.currency}",
        "per 1M out", "asked", "margin",
    )  # fmt: skip
    rows = tuple(
        (
            row.tenant,
            f"{row.requests:,}",
            f"{row.input_tokens:,}",
            f"{row.output_tokens:,}",
            *map(words.engine_seconds, (row.t_b_ns, row.t_a_ns, row.t_kv_ns, row.t_cold_ns, row.measured_ns)),
            words.money(row.cost),
            words.money(row.per_million),
            words.money(row.revenue),
            words.signed(row.margin),
        )
        for row in page.money
    )
    sums = [sum(getattr(row, name) for row in page.money) for name in ("requests", "input_tokens", "output_tokens")]
    times = [
        sum(getattr(row, name) for row in page.money)
        for name in ("t_b_ns", "t_a_ns", "t_kv_ns", "t_cold_ns", "measured_ns")
    ]
    total = (
        "all", *(f"{value:,}" for value in sums), *map(words.engine_seconds, times), words.money(page.cost), "",
        words.money(page.revenue), words.signed(page.revenue - page.cost),
    )  # fmt: skip
    return HtmlTable(columns, rows, total)


def _cold(page: Page) -> HtmlTable:
    columns = (
        "adapter",
        "loads",
        "ahead of requests",
        "waits seen",
        "longest wait",
        "above the promise",
        "engine time, median",
        "engine time, sum",
    )
    rows = tuple(
        (
            row.adapter,
            f"{row.loads:,}",
            f"{row.ahead:,}",
            f"{len(row.waits_ms):,}",
            words.ms(max(row.waits_ms)) if row.waits_ms else words.DASH,
            f"{row.late:,}",
            words.ms(row.engine_median_ms),
            words.ms(row.engine_sum_ms),
        )
        for row in page.cold
    )
    return HtmlTable(columns, rows)

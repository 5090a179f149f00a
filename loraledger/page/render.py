"""The page as HTML: one file that asks for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from loraledger.page import charts, words
from loraledger.page.view import Cold, Money, Page, Promise

R = TypeVar("R")

SHOWN: Final = 6
"""Tenants in the answers on top; the sections below have all."""


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table of the page; cells are text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] = ()


def render(page: Page, names: Mapping[str, str], theme: Literal["light", "dark"] | None = None) -> str:
    """The whole page; `names` are the tenants' names by id. `theme` None follows the reader's setting."""
    environment, css = templates()
    return environment.get_template("page.html.j2").render(
        page=page,
        names=names,
        theme=theme,
        css=css,
        shown=SHOWN,
        charts=charts.drawn(page),
        owner_colour=charts.OWNER_COLOUR,
        tables={"promises": _promises(page), "terms": _terms(page), "cold": _cold(page)},
    )


def templates() -> tuple[Environment, Markup]:
    """The pages' templates with the words they use as filters, and the style sheet."""
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
    return environment, Markup(environment.loader.get_source(environment, "report.css")[0])


def table(rows: Sequence[R], columns: Mapping[str, Callable[[R], str]], total: tuple[str, ...] = ()) -> HtmlTable:
    """A row each, by what each column says of it."""
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return HtmlTable(tuple(columns), cells, total)


def _promises(page: Page) -> HtmlTable:
    def above(row: Promise, count: int) -> str:
        return words.percent(count / row.judged if row.judged else None)

    columns: dict[str, Callable[[Promise], str]] = {
        "tenant": lambda row: row.tenant,
        "requests": lambda row: f"{row.judged:,}{'*' if row.few else ''}",
        "failed": lambda row: f"{row.failed:,}",
        "median": lambda row: words.seconds(row.p50_s),
        "P99": lambda row: words.seconds(row.p99_s),
        "worst": lambda row: words.seconds(row.max_s),
        "promise": lambda row: words.seconds(row.slo_s),
        "above it": lambda row: above(row, row.above_slo),
        f"above {page.yellow} ×": lambda row: above(row, row.above_yellow),
        f"above {page.red} ×": lambda row: above(row, row.above_red),
        "verdict": lambda row: row.verdict,
    }
    return table(page.promises, columns)


def _terms(page: Page) -> HtmlTable:
    columns: dict[str, Callable[[Money], str]] = {
        "tenant": lambda row: row.tenant,
        "requests": lambda row: f"{row.requests:,}",
        "tokens in": lambda row: f"{row.input_tokens:,}",
        "out": lambda row: f"{row.output_tokens:,}",
        "T_B s": lambda row: words.engine_seconds(row.t_b_ns),
        "T_A s": lambda row: words.engine_seconds(row.t_a_ns),
        "T_kv s": lambda row: words.engine_seconds(row.t_kv_ns),
        "T_cold s": lambda row: words.engine_seconds(row.t_cold_ns),
        "measured s": lambda row: words.engine_seconds(row.measured_ns),
        f"cost {page.currency}": lambda row: words.money(row.cost),
        "per 1M out": lambda row: words.money(row.cost_per_million_tokens),
        "asked": lambda row: words.money(row.revenue),
        "margin": lambda row: words.signed(row.margin),
    }
    total = tuple("" if name == "per 1M out" else cell(page.whole) for name, cell in columns.items())
    return table(page.money, columns, total)


def _cold(page: Page) -> HtmlTable:
    columns: dict[str, Callable[[Cold], str]] = {
        "adapter": lambda row: row.adapter,
        "loads": lambda row: f"{row.loads:,}",
        "ahead of requests": lambda row: f"{row.ahead:,}",
        "waits seen": lambda row: f"{len(row.waits_ms):,}",
        "longest wait": lambda row: words.ms(max(row.waits_ms)) if row.waits_ms else words.DASH,
        "above the promise": lambda row: f"{row.late:,}",
        "engine time, median": lambda row: words.ms(row.engine_median_ms),
        "engine time, sum": lambda row: words.ms(row.engine_sum_ms),
    }
    return table(page.cold, columns)

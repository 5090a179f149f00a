"""The pictures of the report page. The door to matplotlib; every function takes values and a width in pixels and gives inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from catalog.durations import SECOND_NS
from catalog.owners import TimeOwner
from loraledger.page.svg import INK, STYLE, inline_svg
from loraledger.page.view import Cold, Owner, Page, Promise, Timeline, Verdict

WIDE: Final = 960
NARROW: Final = 358
RATIO_SHOWN: Final = 4.0
"""Latencies beyond this multiple of the promise stand at the edge, with their number beside them."""
_COLOUR: Final = {Verdict.KEPT: "good", Verdict.LATE: "warn", Verdict.BROKEN: "bad", Verdict.IDLE: "muted"}
OWNER_COLOUR: Final[dict[str, str]] = {
    TimeOwner.TENANTS: "base",
    TimeOwner.COLD: "cold",
    TimeOwner.RECOMPUTE: "warn",
    TimeOwner.SYSTEM: "system",
    TimeOwner.IDLE: "idle",
    TimeOwner.UNATTRIBUTED: "bad",
    TimeOwner.DOWN: "down",
}


class _Rows:
    """Axes with one row per label, first on top; on a narrow page the labels stand above their rows."""

    def __init__(self, labels: Sequence[str], width: int, *, right: int = 64, row: int = 34, left: int = 132) -> None:
        self.narrow = width < WIDE
        self.row = row + 12 if self.narrow else row
        self.height = self.row * max(1, len(labels)) + 52
        left, right = (30 if self.narrow else left), (min(right, 70) if self.narrow else right)
        self.figure = Figure(figsize=(width / 72, self.height / 72), dpi=72)
        self.figure.patch.set_alpha(0)
        box = (left / width, 42 / self.height, (width - left - right) / width, (self.height - 52) / self.height)
        self.axes: Axes = self.figure.add_axes(box)
        self.axes.patch.set_alpha(0)
        self.axes.set_ylim(len(labels) - 0.5, -0.5)
        self.axes.tick_params(length=0, pad=6)
        for side in ("top", "right", "left"):
            self.axes.spines[side].set_visible(False)
        if self.narrow:
            self.axes.set_yticks([])
            for number, label in enumerate(labels):
                self.axes.annotate(
                    label, (0, number - 0.42), (-left, 0), va="top", zorder=9,
                    xycoords=("axes fraction", "data"), textcoords="offset points",
                )  # fmt: skip
        else:
            self.axes.set_yticks(range(len(labels)), labels)

    def beside(self, number: int, text: str, colour: str = "ink") -> None:
        """Write something at the right end of a row."""
        where = (1, self.y(number))
        self.axes.annotate(
            text, where, (8, 0), va="center", color=INK[colour], xycoords=("axes fraction", "data"), textcoords="offset points"
        )  # fmt: skip

    def y(self, number: int) -> float:
        """Where the marks of a row stand."""
        return number + (0.2 if self.narrow else 0)

    @property
    def thick(self) -> float:
        """Height of a bar in rows."""
        return 15 / self.row

    def grid(self, ticks: int = 6) -> None:
        """Light vertical rules."""
        self.axes.xaxis.set_major_locator(MaxNLocator(ticks if not self.narrow else 4, prune=None))
        self.rules()

    def rules(self) -> None:
        """Light vertical rules at the ticks there are."""
        self.axes.grid(axis="x", color=INK["rule"], linewidth=0.8)
        self.axes.set_axisbelow(True)


def promise_chart(page: Page, width: int) -> str:
    """P50 to P99 of each tenant on the scale of its promise, with the zones of the alerts."""
    with rc_context(STYLE):
        rows = _Rows([row.tenant for row in page.promises], width)
        axes = rows.axes
        top = min(RATIO_SHOWN, max([2.0, *(1.15 * row.ratio for row in page.promises if row.ratio)]))
        axes.set_xlim(0, top)
        axes.axvspan(page.yellow, page.red, color=INK["warn-tint"], linewidth=0)
        axes.axvspan(page.red, top, color=INK["bad-tint"], linewidth=0)
        axes.axvline(1, color=INK["ink"], linewidth=1.2)
        for number, row in enumerate(page.promises):
            _promise_row(rows, row, rows.y(number), top)
            if row.p99_s is not None:
                rows.beside(number, f"{row.p99_s:.2f} s")
        marks = [mark for mark in (0, 0.5, 1, page.yellow, page.red, 2, 3, 4) if mark <= top]
        shown = {page.yellow: "", page.red: f"{page.red:g}"}
        axes.set_xticks(marks, [shown.get(mark, f"{mark:g}") for mark in marks])
        axes.set_xlabel("latency ÷ promise")
        return inline_svg(rows.figure, f"promise{width}", "P50 and P99 latency of each tenant, divided by its promise")


def _promise_row(rows: _Rows, row: Promise, y: float, top: float) -> None:
    if row.ratio is None or row.p50_s is None or row.p99_s is None:
        rows.axes.text(
            0.02, y, "no request succeeded" if row.judged else "no requests", va="center", color=INK["muted"]
        )
        return
    colour, p50, p99 = INK[_COLOUR[row.verdict]], row.p50_s / row.slo_s, min(row.ratio, top)
    rows.axes.plot([min(p50, top), p99], [y, y], color=colour, linewidth=4, solid_capstyle="round", alpha=0.45)
    rows.axes.plot(
        [min(p50, top)], [y], "o", color=INK["surface"], markeredgecolor=colour, markersize=8, markeredgewidth=2
    )
    rows.axes.plot([p99], [y], ">" if row.ratio > top else "o", color=colour, markersize=10, clip_on=False)


def terms_chart(page: Page, width: int) -> str:
    """The four terms of the cost formula in seconds: what adds to the right, what the prefix cache saved to the left."""
    with rc_context(STYLE):
        rows = _Rows([row.tenant for row in page.money], width, right=110)
        for number, row in enumerate(page.money):
            y, left = rows.y(number), 0.0
            for ns, colour in ((row.t_b_ns, "base"), (row.t_a_ns, "adapter"), (row.t_cold_ns, "cold")):
                rows.axes.barh(y, ns / SECOND_NS, rows.thick, left, color=INK[colour], linewidth=0)
                left += ns / SECOND_NS
            saved, measured = -row.t_kv_ns / SECOND_NS, row.measured_ns / SECOND_NS
            rows.axes.barh(y, saved, rows.thick, facecolor="none", edgecolor=INK["saved"], hatch="////", linewidth=0.8)
            rows.axes.plot([measured] * 2, [y - rows.thick * 0.8, y + rows.thick * 0.8], color=INK["ink"], linewidth=2)
            rows.beside(number, f"{row.cost:,.2f}")
        rows.axes.axvline(0, color=INK["ink"], linewidth=1)
        rows.grid()
        rows.axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s".replace("-", "−")))
        rows.axes.margins(x=0.02)
        return inline_svg(rows.figure, f"terms{width}", "Engine time of each tenant by cost term")


def share_chart(page: Page, width: int) -> str:
    """Each tenant's share of the GPU time beside its share of the revenue."""
    shown = [row for row in page.money if row.gpu_share is not None]
    with rc_context(STYLE):
        rows = _Rows([row.tenant for row in shown], width, right=110)
        for number, row in enumerate(shown):
            y, used, paid = rows.y(number), 100 * (row.gpu_share or 0), 100 * (row.revenue_share or 0)
            colour = "bad" if row.margin < 0 else "good"
            rows.axes.plot([used, paid], [y, y], color=INK[colour], linewidth=4, alpha=0.45, solid_capstyle="round")
            rows.axes.plot([used], [y], "s", color=INK["base"], markersize=9, clip_on=False)
            rows.axes.plot(
                [paid],
                [y],
                "o",
                color=INK["surface"],
                markeredgecolor=INK["ink"],
                markeredgewidth=2,
                markersize=9,
                clip_on=False,
            )
            rows.beside(number, f"{row.margin:+,.2f}".replace("-", "−"), colour)
        highest = max([1.0, *(100 * max(row.gpu_share or 0, row.revenue_share or 0) for row in shown)])
        rows.axes.set_xlim(0, highest * 1.06)
        rows.grid()
        rows.axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        return inline_svg(rows.figure, f"share{width}", "Share of GPU time and share of revenue of each tenant")


def owners_chart(owners: Sequence[Owner], width: int) -> str:
    """One bar: whose the rented time was."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width / 72, 26 / 72), dpi=72)
        figure.patch.set_alpha(0)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        left = 0.0
        for owner in owners:
            axes.barh(0, owner.share, 1, left, color=INK[OWNER_COLOUR[owner.name]], linewidth=0)
            left += owner.share
        axes.set_xlim(0, left or 1)
        axes.set_ylim(-0.5, 0.5)
        return inline_svg(figure, f"owners{width}", "Rented time by owner")


def residency_chart(found: Timeline, width: int) -> str:
    """Stays of each adapter in an engine: surely there, perhaps there, in use, and its loads."""
    several = len({lane.engine for lane in found.lanes}) > 1
    with rc_context(STYLE):
        rows = _Rows(
            [f"{lane.adapter} · {lane.engine}" if several else lane.adapter for lane in found.lanes],
            width,
            right=16,
            row=28,
        )
        axes, begin = rows.axes, found.start_ns

        def at(ns: int) -> float:
            return (ns - begin) / SECOND_NS

        for number, lane in enumerate(found.lanes):
            y = rows.y(number)
            for stay in lane.stays:
                axes.barh(
                    y,
                    at(stay.end_ns) - at(stay.start_ns),
                    rows.thick,
                    at(stay.start_ns),
                    color=INK["maybe"],
                    linewidth=0,
                )
                axes.barh(
                    y,
                    at(stay.sure_ns) - at(stay.start_ns),
                    rows.thick,
                    at(stay.start_ns),
                    color=INK["stay"],
                    linewidth=0,
                )
            for first, last in lane.uses:
                axes.barh(y, at(last) - at(first), rows.thick * 0.45, at(first), color=INK["use"], linewidth=0)
            for load in lane.loads_ns:
                axes.plot(
                    [at(load)] * 2,
                    [y - rows.thick * 0.75, y + rows.thick * 0.75],
                    color=INK["cold"],
                    linewidth=2.2,
                    clip_on=False,
                )
        axes.set_xlim(0, max(1.0, at(found.end_ns)))
        rows.grid(8)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _clock(begin, value, at(found.end_ns))))
        return inline_svg(rows.figure, f"residency{width}", "When each adapter was in an engine")


def _clock(begin_ns: int, seconds: float, span_s: float) -> str:
    form = "%H:%M:%S" if span_s < 600 else "%H:%M" if span_s < 86_000 else "%d %b %H:%M"
    return datetime.fromtimestamp(begin_ns / SECOND_NS + seconds, UTC).strftime(form)


def cold_chart(page: Page, width: int) -> str:
    """How long requests waited for a cold adapter, and how long the engine's thread was lost to it; milliseconds, log scale."""
    with rc_context(STYLE):
        rows = _Rows([row.adapter for row in page.cold], width, right=88, row=28)
        axes = rows.axes
        axes.set_xscale("log")
        for number, row in enumerate(page.cold):
            _cold_row(axes, row, rows.y(number), rows.thick)
            worst = max(row.waits_ms, default=None)
            if worst is not None:
                rows.beside(number, f"{worst:,.0f} ms")
        axes.axvline(page.cold_promise_ms, color=INK["ink"], linewidth=1.2)
        highest = max([page.cold_promise_ms * 1.3, *(1.3 * wait for row in page.cold for wait in row.waits_ms)])
        axes.axvspan(page.cold_promise_ms, highest, color=INK["bad-tint"], linewidth=0)
        axes.set_xlim(1, highest)
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g} ms"))
        rows.rules()
        return inline_svg(rows.figure, f"cold{width}", "Adapter loads: waits of requests and lost engine time")


def _cold_row(axes: Axes, row: Cold, y: float, thick: float) -> None:
    axes.plot(
        row.waits_ms,
        [y] * len(row.waits_ms),
        "o",
        color=INK["cold"],
        markersize=7,
        alpha=0.55,
        markeredgewidth=0,
        clip_on=False,
    )
    axes.plot([row.engine_median_ms] * 2, [y - thick * 0.6, y + thick * 0.6], color=INK["base"], linewidth=3)

"""The pictures of the report page. The door to matplotlib; each picture in two widths, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from catalog.durations import SECOND_NS
from catalog.owners import TimeOwner
from loraledger.page.svg import INK, STYLE, inline_svg
from loraledger.page.view import Page, Promise, Verdict

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


def _figure(width: int, height: int, box: tuple[float, float, float, float]) -> tuple[Figure, Axes]:
    """A clear figure of that many pixels, with axes in a part of it."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_alpha(0)
    return figure, figure.add_axes(box)


class _Rows:
    """Axes with one row per label, first on top; on a narrow page the labels stand above their rows."""

    def __init__(self, labels: Sequence[str], width: int, *, right: int = 64, row: int = 34, left: int = 132) -> None:
        self.narrow = width < WIDE
        self.row = row + 12 if self.narrow else row
        height = self.row * max(1, len(labels)) + 52
        left, right = (30 if self.narrow else left), (min(right, 70) if self.narrow else right)
        box = (left / width, 42 / height, (width - left - right) / width, (height - 52) / height)
        self.figure, self.axes = _figure(width, height, box)
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

    def bar(self, number: int, left: float, length: float, colour: str, thick: float = 1) -> None:
        """A bar of a row, `thick` times as high as others."""
        self.axes.barh(self.y(number), length, self.thick * thick, left, color=INK[colour], linewidth=0)

    def band(self, number: int, first: float, last: float, colour: str) -> None:
        """A pale band between two points."""
        y = [self.y(number)] * 2
        self.axes.plot([first, last], y, color=INK[colour], linewidth=4, solid_capstyle="round", alpha=0.45)

    def tick(self, number: int, x: float, colour: str, reach: float, linewidth: float, **style: Any) -> None:
        """A rule across a row that reaches so many bars up and down."""
        y, reach = self.y(number), self.thick * reach
        self.axes.plot([x] * 2, [y - reach, y + reach], color=INK[colour], linewidth=linewidth, **style)

    def ring(self, number: int, x: float, colour: str, **style: Any) -> None:
        """A hollow point."""
        style |= {"color": INK["surface"], "markeredgecolor": INK[colour], "markeredgewidth": 2}
        self.axes.plot([x], [self.y(number)], "o", **style)

    def measure(self, form: str) -> None:
        """Write the numbers of the scale like this, with a real minus."""
        self.axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value).replace("-", "−")))

    def grid(self, ticks: int = 6) -> None:
        """Light vertical rules."""
        self.axes.xaxis.set_major_locator(MaxNLocator(ticks if not self.narrow else 4, prune=None))
        self.rules()

    def rules(self) -> None:
        """Light vertical rules at the ticks there are."""
        self.axes.grid(axis="x", color=INK["rule"], linewidth=0.8)
        self.axes.set_axisbelow(True)


def promise_chart(page: Page, width: int) -> Figure:
    """P50 to P99 of each tenant on the scale of its promise, with the zones of the alerts."""
    rows = _Rows([row.tenant for row in page.promises], width)
    axes = rows.axes
    top = min(RATIO_SHOWN, max([2.0, *(1.15 * row.ratio for row in page.promises if row.ratio)]))
    axes.set_xlim(0, top)
    axes.axvspan(page.yellow, page.red, color=INK["warn-tint"], linewidth=0)
    axes.axvspan(page.red, top, color=INK["bad-tint"], linewidth=0)
    axes.axvline(1, color=INK["ink"], linewidth=1.2)
    for number, row in enumerate(page.promises):
        _promise_row(rows, number, row, top)
    marks = [mark for mark in (0, 0.5, 1, page.yellow, page.red, 2, 3, 4) if mark <= top]
    shown = {page.yellow: "", page.red: f"{page.red:g}"}
    axes.set_xticks(marks, [shown.get(mark, f"{mark:g}") for mark in marks])
    axes.set_xlabel("latency ÷ promise")
    return rows.figure


def _promise_row(rows: _Rows, number: int, row: Promise, top: float) -> None:
    y = rows.y(number)
    if row.ratio is None or row.p50_s is None or row.p99_s is None:
        said = "no request succeeded" if row.judged else "no requests"
        rows.axes.text(0.02, y, said, va="center", color=INK["muted"])
        return
    colour, p50, p99 = _COLOUR[row.verdict], min(row.p50_s / row.slo_s, top), min(row.ratio, top)
    rows.band(number, p50, p99, colour)
    rows.ring(number, p50, colour, markersize=8)
    rows.axes.plot([p99], [y], ">" if row.ratio > top else "o", color=INK[colour], markersize=10, clip_on=False)
    rows.beside(number, f"{row.p99_s:.2f} s")


def terms_chart(page: Page, width: int) -> Figure:
    """The four terms of the cost formula in seconds: what adds to the right, what the prefix cache saved to the left."""
    rows = _Rows([row.tenant for row in page.money], width, right=110)
    for number, row in enumerate(page.money):
        left = 0.0
        for ns, colour in ((row.t_b_ns, "base"), (row.t_a_ns, "adapter"), (row.t_cold_ns, "cold")):
            rows.bar(number, left, ns / SECOND_NS, colour)
            left += ns / SECOND_NS
        saved, y = -row.t_kv_ns / SECOND_NS, rows.y(number)
        rows.axes.barh(y, saved, rows.thick, facecolor="none", edgecolor=INK["saved"], hatch="////", linewidth=0.8)
        rows.tick(number, row.measured_ns / SECOND_NS, "ink", 0.8, 2)
        rows.beside(number, f"{row.cost:,.2f}")
    rows.axes.axvline(0, color=INK["ink"], linewidth=1)
    rows.grid()
    rows.measure("{:g} s")
    rows.axes.margins(x=0.02)
    return rows.figure


def share_chart(page: Page, width: int) -> Figure:
    """Each tenant's share of the GPU time beside its share of the revenue."""
    shown = [row for row in page.money if row.gpu_share is not None]
    rows = _Rows([row.tenant for row in shown], width, right=110)
    for number, row in enumerate(shown):
        used, paid = 100 * (row.gpu_share or 0), 100 * (row.revenue_share or 0)
        colour = "bad" if row.margin < 0 else "good"
        rows.band(number, used, paid, colour)
        rows.axes.plot([used], [rows.y(number)], "s", color=INK["base"], markersize=9, clip_on=False)
        rows.ring(number, paid, "ink", markersize=9, clip_on=False)
        rows.beside(number, f"{row.margin:+,.2f}".replace("-", "−"), colour)
    highest = max([1.0, *(100 * max(row.gpu_share or 0, row.revenue_share or 0) for row in shown)])
    rows.axes.set_xlim(0, highest * 1.06)
    rows.grid()
    rows.measure("{:g} %")
    return rows.figure


def owners_chart(page: Page, width: int) -> Figure:
    """One bar: whose the rented time was."""
    figure, axes = _figure(width, 26, (0, 0, 1, 1))
    axes.axis("off")
    left = 0.0
    for owner in page.owners:
        axes.barh(0, owner.share, 1, left, color=INK[OWNER_COLOUR[owner.name]], linewidth=0)
        left += owner.share
    axes.set_xlim(0, left or 1)
    axes.set_ylim(-0.5, 0.5)
    return figure


def residency_chart(page: Page, width: int) -> Figure:
    """Stays of each adapter in an engine: surely there, perhaps there, in use, and its loads."""
    found = page.timeline
    assert found is not None
    several = len({lane.engine for lane in found.lanes}) > 1
    labels = [f"{lane.adapter} · {lane.engine}" if several else lane.adapter for lane in found.lanes]
    rows = _Rows(labels, width, right=16, row=28)

    def at(ns: int) -> float:
        return (ns - found.start_ns) / SECOND_NS

    for number, lane in enumerate(found.lanes):
        for stay in lane.stays:
            for end_ns, colour in ((stay.end_ns, "maybe"), (stay.sure_ns, "stay")):
                rows.bar(number, at(stay.start_ns), at(end_ns) - at(stay.start_ns), colour)
        for first, last in lane.uses:
            rows.bar(number, at(first), at(last) - at(first), "use", 0.45)
        for load in lane.loads_ns:
            rows.tick(number, at(load), "cold", 0.75, 2.2, clip_on=False)
    rows.axes.set_xlim(0, max(1.0, at(found.end_ns)))
    rows.grid(8)
    clock = FuncFormatter(lambda value, _: _clock(found.start_ns, value, at(found.end_ns)))
    rows.axes.xaxis.set_major_formatter(clock)
    return rows.figure


def _clock(begin_ns: int, seconds: float, span_s: float) -> str:
    form = "%H:%M:%S" if span_s < 600 else "%H:%M" if span_s < 86_000 else "%d %b %H:%M"
    return datetime.fromtimestamp(begin_ns / SECOND_NS + seconds, UTC).strftime(form)


def cold_chart(page: Page, width: int) -> Figure:
    """How long requests waited for a cold adapter, and how long the engine's thread was lost to it; milliseconds, log scale."""
    rows = _Rows([row.adapter for row in page.cold], width, right=88, row=28)
    axes = rows.axes
    dots: dict[str, Any] = {"markersize": 7, "alpha": 0.55, "markeredgewidth": 0, "clip_on": False}
    axes.set_xscale("log")
    for number, row in enumerate(page.cold):
        axes.plot(row.waits_ms, [rows.y(number)] * len(row.waits_ms), "o", color=INK["cold"], **dots)
        rows.tick(number, row.engine_median_ms, "base", 0.6, 3)
        if row.waits_ms:
            rows.beside(number, f"{max(row.waits_ms):,.0f} ms")
    axes.axvline(page.cold_promise_ms, color=INK["ink"], linewidth=1.2)
    highest = max([page.cold_promise_ms * 1.3, *(1.3 * wait for row in page.cold for wait in row.waits_ms)])
    axes.axvspan(page.cold_promise_ms, highest, color=INK["bad-tint"], linewidth=0)
    axes.set_xlim(1, highest)
    axes.minorticks_off()
    rows.measure("{:,g} ms")
    rows.rules()
    return rows.figure


class Drawn(NamedTuple):
    """One chart in two widths: for a wide screen and for a phone."""

    wide: Markup
    narrow: Markup


def drawn(page: Page) -> dict[str, Drawn]:
    """The charts by name; one without data is left out."""
    found = page.timeline
    charts = (
        ("promise", page.promises, promise_chart, "P50 and P99 latency of each tenant, divided by its promise"),
        ("terms", page.money, terms_chart, "Engine time of each tenant by cost term"),
        ("share", page.money, share_chart, "Share of GPU time and share of revenue of each tenant"),
        ("owners", page.rented_ns > 0, owners_chart, "Rented time by owner"),
        ("cold", page.cold, cold_chart, "Adapter loads: waits of requests and lost engine time"),
        ("residency", found and found.lanes, residency_chart, "When each adapter was in an engine"),
    )
    with rc_context(STYLE):
        return {
            name: Drawn(*(Markup(inline_svg(draw(page, width), f"{name}{width}", title)) for width in (WIDE, NARROW)))
            for name, some, draw, title in charts
            if some
        }

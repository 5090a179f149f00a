"""A matplotlib figure as inline SVG that takes its colours and fonts from the page, so that it follows the reader's light or dark.

Charts draw with the stand-in colours of `INK`; the SVG has CSS variables in their place.
"""

from __future__ import annotations

import io
import re
from types import MappingProxyType
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.figure import Figure

_NAMES: Final = (
    "ink", "muted", "rule", "surface", "base", "adapter", "cold", "saved", "good", "warn", "bad", "warn-tint", "bad-tint", "idle",
    "system", "down", "stay", "maybe", "use",
)  # fmt: skip
INK: Final = MappingProxyType({name: f"#0102{number:02x}" for number, name in enumerate(_NAMES)})
"""Stand-in colour of each CSS variable `--<name>` of the page."""
FONT_PX: Final = 12.5
STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "loraledger",
    "font.size": FONT_PX,
    "hatch.linewidth": 1.4,
    "hatch.color": INK["saved"],
    "axes.linewidth": 0.8,
    "axes.edgecolor": INK["rule"],
    "axes.labelcolor": INK["muted"],
    "xtick.color": INK["muted"],
    "ytick.color": INK["ink"],
    "text.color": INK["ink"],
}
"""What every figure is drawn with; text stays text."""

_METADATA: Final = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def inline_svg(figure: Figure, name: str, title: str) -> str:
    """The figure as an `<svg>` element whose ids begin with `name`; `title` is for who cannot see it. Same figure, same text."""
    buffer = io.StringIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata=_METADATA)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for noise in (
        r"<metadata>.*?</metadata>",
        r"<!--.*?-->",
        r"<style.*?</style>",
        r" transform=\"rotate\(-?0[^\"]*\"",
        r"font(-size|-family)?: [^;\"]*; ",
    ):
        text = re.sub(noise, "", text, flags=re.DOTALL)
    for key, colour in INK.items():
        text = text.replace(colour, f"var(--{key})")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    width, height = figure.get_size_inches() * 72
    head = f'<svg role="img" aria-label="{title}" viewBox="0 0 {width:g} {height:g}" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    text = re.sub(r"<svg[^>]*>", head, text, count=1)
    return re.sub(r"\s*\n\s*", "\n", text).strip()

"""Which fonts documents are set in: those inside typst first, then Noto for the scripts of the world, then the operator's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import manimgx_fonts
import manimgx_fonts_cjk
import typst

_NOTO: Final = tuple(Path(str(package.__file__)).parent for package in (manimgx_fonts, manimgx_fonts_cjk))
"""Noto Sans for Arabic, Armenian, Bengali, Devanagari, Georgian, Hebrew, Khmer, Tamil, Thai and others, and for Chinese, Japanese and Korean."""
_PROBE: Final = b'#set text(font: "Libertinus Serif")\n#json(bytes(sys.inputs.text))'
_ANY_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)


@cache
def fonts(more: tuple[Path, ...] = ()) -> typst.Fonts:
    """The fonts of a document: never the machine's own, so that the same document gives the same bytes everywhere."""
    return typst.Fonts(include_system_fonts=False, font_paths=[*_NOTO, *more])


def undrawable(texts: Iterable[str], more: tuple[Path, ...] = ()) -> list[str]:
    """The characters of these texts that no font has, each once, in order; what is asked is the typesetter itself."""
    characters = dict.fromkeys(character for text in texts for character in text if not character.isascii())
    return [character for character in characters if not _drawn(character, more)]


def _drawn(character: str, more: tuple[Path, ...]) -> bool:
    try:
        typst.compile(
            _PROBE,
            format="pdf",
            sys_inputs={"text": json.dumps(character)},
            font_paths=fonts(more),
            ignore_system_fonts=True,
            pdf_standards="a-3b",
            timestamp=_ANY_TIME,
        )
    except typst.TypstError:
        return False
    return True

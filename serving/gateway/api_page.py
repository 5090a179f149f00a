"""Prints the table of routes into its page: `python -m serving.gateway.api_page [--check]` writes docs/api.md."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from serving.gateway.routes import table

PAGE: Final = Path(__file__).parents[2] / "docs" / "api.md"


def page() -> str:
    """The page with the table as it is now, between its marks."""
    marks = r"(<!-- routes -->\n).*(<!-- /routes -->)"
    return re.sub(marks, rf"\g<1>{table()}\g<2>", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def main() -> int:
    """Write the page, or with `--check` tell by the exit code whether it is as it would be written."""
    parser = argparse.ArgumentParser(prog="python -m serving.gateway.api_page", description="Write docs/api.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is out of date")
    if parser.parse_args().check:
        return int(page() != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

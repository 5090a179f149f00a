"""How far the attribution is from exact Shapley values of measured engine time, beside other methods.

`python -m bench.attribution_error` measures (more than an hour; it goes on where it was stopped) and writes the result.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bench.truth import result, sets
from bench.truth.machine import describe

OUT = Path(__file__).with_name("results") / "attribution_error.json"
WORK = Path(__file__).parents[1] / "build" / "truth"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--work", type=Path, default=WORK, help="raw runs, models and profiles (default build/truth)")
    options.add_argument(
        "--out", type=Path, default=OUT, help="the result (default bench/results/attribution_error.json)"
    )
    options.add_argument("--analyse", action="store_true", help="measure nothing; use the raw runs that are there")
    chosen = options.parse_args()
    if not chosen.analyse:
        for model in dict.fromkeys(one.model for one in sets.load().values()):
            subprocess.run([sys.executable, "-m", "bench.truth.measure", model, str(chosen.work)], check=True)
    found = result.build(chosen.work, describe())
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    show(found)


def show(found: result.Result) -> None:
    """The summary, for a person."""
    print(f"{'set':20} {'tenants mean/worst':>20} {'requests mean/worst':>20} {'token average (tenants)':>25}")
    for name, one in found["sets"].items():
        ours, theirs = (one["tenants"]["errors"][method] for method in ("ours", "token_average"))
        requests = one["requests"]["errors"]["ours"]
        print(f"{name:20} {_pair(ours):>20} {_pair(requests):>20} {_pair(theirs):>25}")
    for name, target in found["targets"].items():
        print(
            f"{name:40} target {target['target']:<6} measured {target['measured']:<8} {'met' if target['met'] else 'MISSED'}"
        )


def _pair(errors: result.Result) -> str:
    return f"{errors['mean']:.1%} / {errors['worst']:.1%}"


if __name__ == "__main__":
    main()

"""How many small faults the tests find: `python -m bench.mutants [TARGET...]`, or `--sample 40` of the files changed `--since` a commit.

Prints what lived, and a table of killed, lived and equivalent; ends with 1 where a target found fewer than it must.
`equivalent.yaml` names the faults that change nothing, each with its reason.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence, Set
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from bench.mutants.fault import Fault
from bench.mutants.python_faults import python_faults
from bench.mutants.sql_faults import sql_faults, written
from bench.mutants.targets import OTHERS, TARGETS, Target
from bench.mutants.trial import TrialsImpossible, Workbench

ROOT: Final = Path(__file__).parents[2]
EQUIVALENT: Final = Path(__file__).parent / "equivalent.yaml"
RESULT: Final = ROOT / "bench" / "results" / "mutants.json"


class Tried(NamedTuple):
    """A fault of a target, and what came of it."""

    target: Target
    fault: Fault
    verdict: str


def equivalent() -> dict[tuple[str, str, str], str]:
    """Why each fault of the committed list changes nothing."""
    rows = yaml.safe_load(EQUIVALENT.read_text()) or []
    return {(row["path"], row["before"], row["after"]): row["why"] for row in rows}


def faults(target: Target, touched: Set[str] | None = None) -> list[Fault]:
    """Every fault of the target's files, or of those that were `touched`."""
    made = []
    for path in target.paths(ROOT):
        if touched is not None and path not in touched:
            continue
        of = sql_faults if path.endswith(".sql") else python_faults
        made += of(path, (ROOT / path).read_text())
    return made


def changed(since: str) -> set[str]:
    """Files that are not as they were at that commit."""
    said = subprocess.run(["git", "diff", "--name-only", since], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(said.stdout.split())


def tried(bench: Workbench, target: Target, chosen: Sequence[Fault], until: float) -> list[Tried]:
    """Put each fault in and run the target's tests; after `until` (monotonic) faults are not run, and say so."""
    known, found = equivalent(), []
    for path in {fault.path for fault in chosen if fault.path.endswith(".sql")}:
        (bench.root / path).write_text(written((ROOT / path).read_text()))
    sound_s = bench.sound(target.tests)
    for fault in chosen:
        if fault.name in known:
            verdict = "equivalent"
        elif time.monotonic() > until:
            verdict = "not run"
        else:
            verdict = bench.judge(fault.path, fault.text, target.tests, sound_s)
        found.append(Tried(target, fault, verdict))
        if verdict == "lived":
            print(f"lived: {fault.path}:{fault.line} ({fault.kind})\n  - {fault.before}\n  + {fault.after}", flush=True)
    return found


def table(found: Sequence[Tried]) -> list[dict[str, object]]:
    """One row per target; `found` is percent of those that were run and are not equivalent."""
    rows = []
    for target in dict.fromkeys(one.target for one in found):
        n = Counter(one.verdict for one in found if one.target == target)
        killed, lived = n["killed"] + n["timed out"], n["lived"]
        share = round(100 * killed / (killed + lived), 1) if killed + lived else None
        rows.append(
            {"target": target.name, "killed": killed, "lived": lived, "equivalent": n["equivalent"], "not run": n["not run"], "found": share, "due": target.due}
        )  # fmt: skip
    return rows


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="all of them by default")
    parser.add_argument("--sample", type=int, help="so many faults only, drawn by the day")
    parser.add_argument("--day", type=date.fromisoformat, default=datetime.now(UTC).date(), help="the day that draws")
    parser.add_argument("--since", help="only files that changed since this commit")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="what is left after so long is not run")
    asked = parser.parse_args()
    named = {target.name for target in TARGETS}
    if strange := set(asked.targets) - named:
        parser.error(f"no target {', '.join(sorted(strange))}; there are {', '.join(sorted(named))}")
    until = time.monotonic() + 60 * asked.minutes
    touched = changed(asked.since) if asked.since else None
    chosen_by = [target for target in TARGETS if not asked.targets or target.name in asked.targets]
    pool = [(target, one) for target in chosen_by for one in faults(target, touched)]
    if asked.sample is not None and asked.sample < len(pool):
        pool = random.Random(asked.day.isoformat()).sample(pool, asked.sample)
    bench, found = Workbench(ROOT), []
    try:
        for target in TARGETS:
            if chosen := [one for owner, one in pool if owner == target]:
                found += tried(bench, target, chosen, until)
    except TrialsImpossible as error:
        print(f"could not judge: {error}", file=sys.stderr)
        return 2
    finally:
        bench.close()
    rows = table(found)
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    if asked.sample is None and not asked.since:
        _keep(rows)
        return int(any(row["found"] is not None and row["found"] < row["due"] for row in rows))  # type: ignore[operator]
    killed, lived = (sum(row[name] for row in rows) for name in ("killed", "lived"))  # type: ignore[misc]
    print(f"{killed} killed, {lived} lived")
    return int(100 * killed < OTHERS * (killed + lived))


def _keep(rows: Sequence[dict[str, object]]) -> None:
    """Write the figures beside those of other targets, with the code that they are of."""
    code = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for row in rows:
        kept[str(row["target"])] = {**row, "code": code.stdout.strip()}
    RESULT.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())

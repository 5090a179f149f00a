"""Runs tests on a copy of the tree with one fault in it. Each trial is a fork that dies with its fault; the checkout stays as it is."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import hypothesis
import pytest

Verdict = Literal["killed", "lived", "timed out"]

_PROFILE: Final = "mutants"
_SAID, _IMPORTED = ".said", ".imported"
_BROKEN: Final = 70
"""The trial itself went wrong, not a test of it."""
_STARTED: Final = 60
"""Seconds that a trial may take beside ten times what the sound tests took: a fault that loops is found by this."""


class TrialsImpossible(Exception):
    """The tests fail without a fault, or find nothing to run."""


class Workbench:
    """A copy of the tracked tree in which one file at a time is wrong."""

    def __init__(self, tree: Path) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="mutants-")
        self.root = Path(self._home.name)
        named = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=tree, check=True, capture_output=True
        )
        for name in filter(None, named.stdout.decode().split("\0")):
            if (tree / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, self.root / name)

    def close(self) -> None:
        """Remove the copy."""
        self._home.cleanup()

    def sound(self, tests: Sequence[str]) -> float:
        """How many seconds the tests take without a fault. What they import from elsewhere is imported here, once for all trials."""
        if self._run(tests, limit_s=3600) != 0:
            raise TrialsImpossible(
                f"{' '.join(tests)} fail where nothing is wrong:\n{(self.root / _SAID).read_text()[-3000:]}"
            )
        for name in json.loads((self.root / _IMPORTED).read_text()):
            with suppress(Exception):
                importlib.import_module(name)
        begun = time.monotonic()
        code = self._run(tests, limit_s=3600)
        if code != 0:
            said = (self.root / _SAID).read_text()
            raise TrialsImpossible(f"{' '.join(tests)} end with {code} where nothing is wrong:\n{said[-2000:]}")
        return time.monotonic() - begun

    def judge(self, path: str, text: str, tests: Sequence[str], sound_s: float) -> Verdict:
        """What the tests say of the file with that text."""
        file = self.root / path
        was = file.read_text()
        file.write_text(text)
        try:
            code = self._run(tests, limit_s=_STARTED + 10 * sound_s)
        finally:
            file.write_text(was)
        if code in (None, 0):
            return "timed out" if code is None else "lived"
        if code not in (1, 2, 4, 128 + signal.SIGABRT):
            raise TrialsImpossible(f"{' '.join(tests)} ended with {code} on a fault of {path}")
        return "killed"

    def _run(self, tests: Sequence[str], limit_s: float) -> int | None:
        """The exit code of the tests in a fork, None when they had to be ended."""
        child = os.fork()
        if not child:
            code = _BROKEN
            try:
                code = self._inside(tests)
            except BaseException:
                (self.root / _SAID).write_text(traceback.format_exc())
            finally:
                os._exit(code)
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) % 256
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None

    def _inside(self, tests: Sequence[str]) -> int:
        os.setsid()
        os.chdir(self.root)
        said = os.open(self.root / _SAID, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(said, stream)
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(self.root)]
        os.environ["PYTHONPATH"] = str(self.root)
        # The same examples for every fault, and no time for making a failing one small.
        hypothesis.settings.register_profile(
            _PROFILE, derandomize=True, database=None, deadline=None, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate]
        )  # fmt: skip
        code = pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", f"--hypothesis-profile={_PROFILE}", "-m", "not engine and not nightly", *tests]
        )  # fmt: skip
        home = str(self.root)
        strange = [n for n, m in sys.modules.items() if m is not None and not _within(m, home)]
        (self.root / _IMPORTED).write_text(json.dumps(strange))
        return int(code)


def _within(module: object, home: str) -> bool:
    paths = [str(getattr(module, "__file__", None) or ""), *map(str, getattr(module, "__path__", ()))]
    return any(path.startswith(home) for path in paths) or getattr(module, "__name__", "") == "__main__"

"""One small fault put into one file, named so that it stays the same when lines move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Fault:
    """`text` is the whole file with the fault in it; `before` and `after` are the lines that it changes, without their indent."""

    path: str
    kind: str
    line: int
    before: str
    after: str
    text: str = field(repr=False)

    @property
    def name(self) -> tuple[str, str, str]:
        """What a list of known faults calls it."""
        return self.path, self.before, self.after


def fault(path: str, kind: str, sound: str, text: str) -> Fault | None:
    """The fault between two texts of a file; None when there is none."""
    was, now = sound.splitlines(), text.splitlines()
    changed = [code for code in SequenceMatcher(None, was, now, autojunk=False).get_opcodes() if code[0] != "equal"]
    if not changed:
        return None
    before = [line for _, low, high, _, _ in changed for line in was[low:high]]
    after = [line for _, _, _, low, high in changed for line in now[low:high]]
    return Fault(path, kind, changed[0][1] + 1, _joined(before), _joined(after), text)


def _joined(lines: Iterable[str]) -> str:
    return " ⏎ ".join(stripped for line in lines if (stripped := line.strip()))

"""Faults of a Python file: cosmic-ray's operators, and those it lacks: a guard, a condition, a filter, a statement dropped, names swapped.

The words of messages (f-strings in `raise`, calls of `log`), annotations, decorators and what only states an invariant
(`assert`, `strict=`) are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from bench.mutants.fault import Fault, fault

_PAIRS: Final = ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")
_ARITHMETIC: Final = ("Add_Sub", "Sub_Add", "Mul_Add", "FloorDiv_Mul", "Div_Mul", "Mod_Mul")
OPERATORS: Final = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in _PAIRS),
    *(f"ReplaceBinaryOperator_{pair}" for pair in _ARITHMETIC),
    "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "AddNot", "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip
"""Of cosmic-ray's: those whose mutants are no mere errors of type."""
_TAKEN_OFF: Final = frozenset({"abs", "negated", "sorted", "trimmed", "reversed"})
_OTHER: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}

Span = tuple[int, int]


def python_faults(path: str, text: str) -> list[Fault]:
    """Every fault, once, in the order of the file."""
    source = _Source(text)
    found: dict[str, Fault] = {}
    for kind, changed in (*_of_cosmic_ray(source), *_of_our_own(source)):
        if changed != text and (made := fault(path, kind, text, changed)) is not None:
            found.setdefault(changed, made)
    return sorted(found.values(), key=lambda one: (one.line, one.kind, one.after))


class _Source:
    """A text, its tree, and where in it no fault belongs."""

    def __init__(self, text: str) -> None:
        self.text, self.data = text, text.encode()
        self.tree = ast.parse(text)
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.quiet = [self.span(node) for node in _quiet(self.tree)]

    def span(self, node: Any) -> Span:
        """From where to where the node goes, in bytes."""
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def characters(self, line: int, column: int) -> int:
        """The byte of a place that is given in characters, as parso does."""
        start, end = self._starts[line - 1], self._starts[line]
        return start + len(self.data[start:end].decode()[:column].encode())

    def silent(self, at: int) -> bool:
        """Whether a fault there would change words or types alone."""
        return any(low <= at < high for low, high in self.quiet)

    def put(self, *changes: tuple[Span, bytes]) -> str:
        """The text with pieces replaced."""
        data = self.data
        for (low, high), piece in sorted(changes, reverse=True):
            data = data[:low] + piece + data[high:]
        return data.decode()

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def _quiet(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Raise():
                yield from (part for part in ast.walk(node) if isinstance(part, ast.JoinedStr))
            case (
                ast.Assert()
                | ast.keyword(arg="strict")
                | ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log"))))
            ):
                yield node
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield node
            case ast.AnnAssign() | ast.arg() if node.annotation is not None:
                yield node.annotation
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from (*node.decorator_list, *([node.returns] if node.returns is not None else ()))
            case ast.ClassDef():
                yield from node.decorator_list


def _of_cosmic_ray(source: _Source) -> Iterator[tuple[str, str]]:
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = [place for node in ast_nodes(get_ast(source.text)) for place in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(places):
            if not source.silent(source.characters(*start)):
                yield name, mutate_code(source.text, operator, occurrence)


def _of_our_own(source: _Source) -> Iterator[tuple[str, str]]:
    for node in ast.walk(source.tree):
        if hasattr(node, "lineno") and source.silent(source.span(node)[0]):
            continue
        match node:
            case ast.If(body=[ast.Raise() | ast.Return() | ast.Continue()], orelse=[]):
                yield "guard dropped", source.put((source.span(node.test), b"False"))
            case ast.BoolOp(values=values):
                for value in values:
                    nothing = b"True" if isinstance(node.op, ast.And) else b"False"
                    yield "condition dropped", source.put((source.span(value), nothing))
            case ast.comprehension(ifs=ifs):
                for condition in ifs:
                    yield "filter dropped", source.put((source.span(condition), b"True"))
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
                yield "statement dropped", source.put((source.span(node), b"pass"))
            case ast.Call(func=ast.Name(id=name)):
                yield from _calls(source, node, name)


def _calls(source: _Source, node: ast.Call, name: str) -> Iterator[tuple[str, str]]:
    if name in _TAKEN_OFF and node.args:
        low, high = source.span(node.args[0])
        yield "call dropped", source.put((source.span(node), source.data[low:high]))
    if name in _OTHER:
        yield "other end", source.put((source.span(node.func), _OTHER[name].encode()))
    named = [word for word in node.keywords if word.arg is not None]
    if name == "replace":
        for word in named:
            low, high = source.span(word)
            yield "field not set", source.put(((low, high), b"**{}"))
    for one, other in pairwise(named):
        if isinstance(one.value, ast.Name | ast.Attribute) and isinstance(other.value, ast.Name | ast.Attribute):
            first, second = source.span(one.value), source.span(other.value)
            swap = (first, source.data[slice(*second)]), (second, source.data[slice(*first)])
            yield "values swapped", source.put(*swap)

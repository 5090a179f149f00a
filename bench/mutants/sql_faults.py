"""Faults of a SQL file, by sqlglot: a condition dropped, a join or a comparison changed, columns swapped, an aggregate exchanged.

A fault is put into sqlglot's own writing of the statement (`written`), which the tests must find as good as the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Final

import sqlglot
from sqlglot import exp

from bench.mutants.fault import Fault, fault

_OTHER: Final[dict[Any, Any]] = {
    exp.LT: exp.LTE, exp.LTE: exp.LT, exp.GT: exp.GTE, exp.GTE: exp.GT, exp.EQ: exp.NEQ, exp.NEQ: exp.EQ,
    exp.Add: exp.Sub, exp.Sub: exp.Add, exp.Min: exp.Max, exp.Max: exp.Min, exp.Sum: exp.Max,
}  # fmt: skip
_JOINS: Final = {"LEFT": "", "": "LEFT"}


def written(text: str) -> str:
    """The statements of a file as sqlglot writes them."""
    return _text(sqlglot.parse(text, dialect="clickhouse"))


def sql_faults(path: str, text: str) -> list[Fault]:
    """Every fault, once; none of a file that sqlglot does not understand as a statement."""
    sound = written(text)
    found: dict[str, Fault] = {}
    sites = [(n, place) for n, place in enumerate(_sites(sqlglot.parse(sound, dialect="clickhouse")))]
    for number, (kind, _) in sites:
        tree = sqlglot.parse(sound, dialect="clickhouse")
        _, change = next(site for n, site in enumerate(_sites(tree)) if n == number)
        change()
        changed = _text(tree)
        if (made := fault(path, kind, sound, changed)) is not None:
            found.setdefault(changed, made)
    return sorted(found.values(), key=lambda one: (one.line, one.kind, one.after))


def _text(statements: list[Any]) -> str:
    return ";\n".join(one.sql(dialect="clickhouse", pretty=True) for one in statements if one is not None) + "\n"


def _sites(statements: list[Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    for statement in statements:
        for node in statement.walk() if statement is not None else ():
            yield from _of(node)


def _of(node: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    if (other := _OTHER.get(type(node))) is not None:
        yield "other operator", partial(_become, node, other)
    match node:
        case exp.And():
            yield "condition dropped", lambda: node.replace(node.left)
            yield "condition dropped", lambda: node.replace(node.right)
        case exp.Where() | exp.Having() | exp.Distinct():
            yield f"{type(node).__name__.lower()} dropped", node.pop
        case exp.Join() if (side := node.args.get("side") or "") in _JOINS and node.args.get("on"):
            yield "other join", lambda: node.set("side", _JOINS[side])
        case exp.Literal(is_string=False) if node.name.isdigit():
            yield "number", lambda: node.replace(exp.Literal.number(int(node.name) + 1))
        case exp.Select():
            for one, other in pairwise(node.expressions):
                yield "columns swapped", partial(_swap, one, other)


def _become(node: Any, other: Any) -> None:
    node.replace(other(**node.args))


def _swap(one: Any, other: Any) -> None:
    """Each value under the other's name."""
    first, second = one.unalias().copy(), other.unalias().copy()
    one.replace(exp.alias_(second, one.alias_or_name))
    other.replace(exp.alias_(first, other.alias_or_name))

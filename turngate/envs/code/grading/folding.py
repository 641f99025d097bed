"""Values of expressions that are data: literals, arithmetic on them, and comprehensions over them. No code is executed:
an expression that is not known here is no data."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

STEPS = 100_000
LARGEST = 1 << 20


class NotData(Exception):
    """The value of an expression is not known without running code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approx:
    """``pytest.approx`` of a number, or of a list, tuple or dict of numbers, as pytest compares."""

    known: Any
    rel: float | None = None
    abs: float | None = None
    nan_ok: bool = False

    def __post_init__(self) -> None:
        inner = self.known.values() if isinstance(self.known, dict) else self.known
        for item in inner if isinstance(self.known, (list, tuple, dict)) else (self.known,):
            if type(item) not in (int, float):
                raise NotData

    def fits(self, value: Any) -> bool:
        """Whether a value is near enough."""
        if isinstance(self.known, dict):
            same = isinstance(value, dict) and value.keys() == self.known.keys()
            return same and all(self._near(value[key], known) for key, known in self.known.items())
        if isinstance(self.known, (list, tuple)):
            same = isinstance(value, (list, tuple)) and len(value) == len(self.known)
            return same and all(map(self._near, value, self.known))
        return self._near(value, self.known)

    def _near(self, value: Any, known: float) -> bool:
        if not isinstance(value, (int, float, complex)):
            return False
        if value == known:
            return True
        if math.isnan(known):
            return self.nan_ok and isinstance(value, (int, float)) and math.isnan(value)
        if math.isinf(known):
            return False
        absolute = 1e-12 if self.abs is None else self.abs
        relative = (1e-6 if self.abs is None else 0.0) if self.rel is None else self.rel
        return bool(abs(known - value) <= max(relative * abs(known), absolute))


def fold(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an expression, with these names. Raises NotData."""
    try:
        return _Folding(names).value(node)
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, RecursionError, MemoryError) as error:
        raise NotData from error


class _Folding:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names, self._left = dict(names), [STEPS]

    def value(self, node: ast.expr) -> Any:
        self._left[0] -= 1
        if self._left[0] < 0:
            raise NotData
        match node:
            case ast.Constant(value=value) if value is not ...:
                return value
            case ast.Name(id=name) if name in self._names:
                return self._names[name]
            case ast.List(elts=items):
                return self._items(items)
            case ast.Tuple(elts=items):
                return tuple(self._items(items))
            case ast.Set(elts=items):
                return set(self._items(items))
            case ast.Dict(keys=keys, values=values):
                return {self.value(key): self.value(value) for key, value in zip(self._keys(keys), values, strict=True)}
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
                return _SIGNS[type(op)](self.value(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
                return self._sum(self.value(left), _SUMS[type(op)], self.value(right))
            case ast.Subscript(value=inner, slice=ast.expr() as place):
                return self.value(inner)[self.value(place)]
            case ast.Attribute(value=ast.Name(id="math"), attr="pi" | "e" | "inf" | "nan" | "tau" as name):
                return getattr(math, name)
            case ast.ListComp(elt=item, generators=[loop]) | ast.GeneratorExp(elt=item, generators=[loop]):
                return [self.value(item) for _ in self._loop(loop)]
            case ast.SetComp(elt=item, generators=[loop]):
                return {self.value(item) for _ in self._loop(loop)}
            case ast.DictComp(key=key, value=item, generators=[loop]):
                return {self.value(key): self.value(item) for _ in self._loop(loop)}
            case ast.Call(func=ast.Name(id="approx") | ast.Attribute(value=ast.Name(id="pytest"), attr="approx")):
                return self._approx(node)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and len(args) < 2:
                return _CALLS[name](*self._items(args))
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(between)), attr="join"), args=[lines]):
                return self._joined(between, self.value(lines))
        raise NotData

    def _joined(self, between: str, lines: Any) -> str:
        if sum(len(line) + len(between) for line in lines) > LARGEST:
            raise NotData
        return between.join(lines)

    def _items(self, nodes: Iterable[ast.expr]) -> list[Any]:
        return [self.value(node) for node in nodes]

    def _keys(self, nodes: Iterable[ast.expr | None]) -> Iterator[ast.expr]:
        for node in nodes:
            if node is None:
                raise NotData
            yield node

    def _sum(self, left: Any, op: Callable[[Any, Any], Any], right: Any) -> Any:
        if op is operator.pow and not (abs(right) <= 1024 and abs(left) <= LARGEST):
            raise NotData
        if op is operator.mul:
            for one, other in ((left, right), (right, left)):
                if hasattr(one, "__len__") and len(one) * other > LARGEST:
                    raise NotData
        return op(left, right)

    def _loop(self, loop: ast.comprehension) -> Iterator[None]:
        if loop.ifs or loop.is_async:
            raise NotData
        kept = dict(self._names)
        for item in list(self.value(loop.iter)):
            self._bind(loop.target, item)
            yield
        self._names = kept

    def _bind(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._names[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for one, item in zip(targets, list(value), strict=True):
                    self._bind(one, item)
            case _:
                raise NotData

    def _approx(self, node: ast.expr) -> Approx:
        assert isinstance(node, ast.Call)
        given = dict(zip(("known", "rel", "abs", "nan_ok"), self._items(node.args), strict=False))
        for item in node.keywords:
            given[{"expected": "known"}.get(item.arg or "", item.arg or "")] = self.value(item.value)
        return Approx(**given)


_SIGNS: Final[Mapping[type, Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_SUMS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "sorted": sorted,
    "float": float,
}

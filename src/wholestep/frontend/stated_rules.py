"""Rules that the user states, at one call: the cotangents or tangents they give, checked, and the same over a batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.errors import DerivativeError, DtypeError, EscapedError, ShapeError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import Arguments, Traced, as_array
from wholestep.ir.build import build
from wholestep.ir.graph import Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.family import Maybe, expand, zeros
from wholestep.primitives.reduction import sum_


def body_graph(call: Arguments, f: Callable[..., Any], name: str) -> Traced:
    """The graph of f over the call's arrays and f's captured values, attached to an eager trace around it."""
    return call.traced(lambda given: f(*given[0], **given[1]), reason=name, name=name, attached=True)


def by_position(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], what: str) -> tuple[Any, ...]:
    """Keyword arguments moved to their positions, since a stated rule has one cotangent for each position."""
    if not kwargs:
        return tuple(args)
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except ValueError:
        bound = None
    if bound is None or bound.kwargs:
        raise DerivativeError(
            f"{what}: takes its arguments by position", hint="keyword-only arguments have no cotangent"
        )
    bound.apply_defaults()
    return bound.args


def name_of(f: Any) -> str:
    return str(getattr(f, "__name__", "function"))


class CustomRule:
    """A stated derivative, applied at one call; `batched` makes the same for a batch of calls."""

    over_batch: type[Batched]

    def __init__(self, call: Arguments, traced: Traced, name: str, *rules: Any) -> None:
        self.call, self.traced, self.name, self.rules = call, traced, name, rules
        self.n = len(call.arrays)

    def batched(self, batching: Any, on: Sequence[bool]) -> Any:
        return self.over_batch(self, batching, on)

    def cotangents(self, given: Any, name: str, args: Sequence[Any]) -> list[Maybe]:
        """One cotangent for each array among the arguments, from the tuple that the user's rule returned."""
        if not isinstance(given, tuple | list) or len(given) != len(args):
            raise TreeError(
                f"{name}: the backward rule returns a tuple with one cotangent for each of the {len(args)} arguments",
                hint="return None for an argument without a derivative",
            )
        out: list[Maybe] = []
        for arg, g in zip(args, given, strict=True):
            leaves = [leaf for leaf in tree.leaves(arg) if isinstance(leaf, Array)]
            gs = [None] * len(leaves) if g is None else tree.leaves(g)
            if len(gs) != len(leaves):
                raise TreeError(f"{name}: a cotangent has {len(gs)} leaves where the argument has {len(leaves)}")
            out += [cotangent_like(leaf, x, name) for leaf, x in zip(leaves, gs, strict=True)]
        keyword = self.n - len(out)
        return [*out, *[None] * keyword, *[None] * len(self.traced.captured)]


def cotangent_like(primal: Array, g: Any, name: str) -> Maybe:
    """A cotangent in its primal's type; raises ShapeError or DtypeError where it does not fit."""
    if g is None or not primal.type.inexact:
        return None
    a = as_array(g, name)
    if a.shape != primal.shape:
        raise ShapeError(f"{name}: the rule gives a cotangent {a.type} for an argument {primal.type}")
    if not np.can_cast(a.dtype, primal.dtype, "same_kind"):
        raise DtypeError(f"{name}: the rule gives a cotangent {a.type} for an argument {primal.type}")
    return a.astype(primal.dtype, copy=False).value


class Batched:
    """A stated rule over a batch: each half is traced for one element and batched."""

    def __init__(self, rule: Any, batching: Any, on: Sequence[bool]) -> None:
        self.rule, self.batching, self.on = rule, batching, list(on)

    @property
    def name(self) -> str:
        """The name of the function that has the rule."""
        return str(self.rule.name)

    def batched(self, batching: Any, on: Sequence[bool]) -> Any:
        return type(self)(self, batching, on)

    def over(self, one: Callable[..., Any], values: Sequence[Value], on: Sequence[bool]) -> Any:
        """Apply the function `one` over the batch; returns results, and marks of those that carry the batch."""
        types = [array_type(v.shape[1:], v.dtype) if o else v.type for v, o in zip(values, on, strict=True)]
        try:
            graph, captured = build(one, types, name="rule", reason="vmap")
        except EscapedError as error:
            raise EscapedError(
                f"{self.name}: its derivative reads a traced array that is not among its arguments, inside of ws.vmap",
                where=error.where,
                hint="make it an argument: for ws.custom_root and ws.custom_linear_solve after the solver (*args)",
            ) from error
        return self.batching.inline(graph, [*values, *captured], [*on, *[False] * len(captured)])

    def wide(self, outs: Sequence[Value], marks: Sequence[bool]) -> list[Value]:
        """The results, each with the batch axis; one that does not vary is repeated along it."""
        return [expand(v, self.batching.n, o) for v, o in zip(outs, marks, strict=True)]

    def cotangents(self, one: Callable[..., Any], values: Sequence[Value], on: Sequence[bool]) -> list[Maybe]:
        """The cotangents that a pullback gives; an argument that all elements share gets the sum."""
        missing: list[bool] = []

        def given(*rows: Value) -> list[Value]:
            gxs = one(*rows)
            missing.extend(g is None for g in gxs)
            return [g for g in gxs if g is not None]

        made = iter(self.wide(*self.over(given, values, on)))
        gxs = [None if gone else next(made) for gone in missing]
        return [g if g is None or o else sum_(g, axes=(0,)) for g, o in zip(gxs, self.on, strict=True)]


class BatchedPullback(Batched):
    """A custom_vjp rule over a batch."""

    def forward(self, values: Sequence[Value]) -> tuple[list[Value], Any]:
        found: dict[str, Any] = {}

        def one(*rows: Value) -> list[Value]:
            outs, residuals = self.rule.forward(list(rows))
            leaves, found["structure"] = tree.flatten(residuals)
            found["on"] = [isinstance(leaf, Array | Value) for leaf in leaves]
            found["static"] = [leaf for leaf, o in zip(leaves, found["on"], strict=True) if not o]
            kept = [leaf for leaf, o in zip(leaves, found["on"], strict=True) if o]
            found["scalars"] = [leaf._scalar if isinstance(leaf, Array) else None for leaf in kept]
            found["n"] = len(outs)
            return [*outs, *[leaf.value if isinstance(leaf, Array) else leaf for leaf in kept]]

        outs, marks = self.over(one, values, self.on)
        n = found["n"]
        return self.wide(outs[:n], marks[:n]), (found, outs[n:], marks[n:])

    def backward(self, kept: Any, gys: Sequence[Value]) -> list[Maybe]:
        found, residuals, marks = kept

        def one(*rows: Value) -> Any:
            own = zip(rows[: len(residuals)], found["scalars"], strict=True)
            arrays, static = iter([v if s is None else Array(v, s) for v, s in own]), iter(found["static"])
            leaves = [next(arrays) if o else next(static) for o in found["on"]]
            return self.rule.backward(tree.unflatten(found["structure"], leaves), rows[len(residuals) :])

        return self.cotangents(one, [*residuals, *gys], [*marks, *[True] * len(gys)])


class PullbackRule(CustomRule):
    """The forward and backward halves of a custom_vjp at one call."""

    over_batch = BatchedPullback

    def forward(self, values: Sequence[Value]) -> tuple[list[Value], Any]:
        args, kwargs = self.call.rebuild(values[: self.n])
        out, residuals = ordinary(self.rules[0])(*args, **kwargs)
        leaves, structure = tree.flatten(out)
        if structure != self.traced.structure:
            raise TreeError(f"{self.name}: the forward rule returns another structure than the function")
        return [as_array(leaf, self.name).value for leaf in leaves], residuals

    def backward(self, residuals: Any, gys: Sequence[Value]) -> list[Maybe]:
        args, _ = self.call.rebuild(self.call.values)
        return self.cotangents(ordinary(self.rules[1])(residuals, self.traced.arrays(gys)), self.name, args)


class BatchedTangent(Batched):
    """A custom_jvp rule over a batch."""

    @property
    def stated(self) -> Any:
        """The user's rule for one element."""
        return self.rule.stated

    def tangent(self, values: Sequence[Value], dxs: Sequence[Value]) -> list[Maybe]:
        n = len(values)

        def one(*rows: Value) -> list[Value]:
            return [g for g in self.rule.tangent(list(rows[:n]), list(rows[n:])) if g is not None]

        return [*self.wide(*self.over(one, [*values, *dxs], [*self.on, *self.on]))]


class TangentRule(CustomRule):
    """The tangent rule of a custom_jvp at one call."""

    over_batch = BatchedTangent

    @property
    def stated(self) -> Any:
        """The user's rule."""
        return self.rules[0]

    def tangent(self, values: Sequence[Value], dxs: Sequence[Value]) -> list[Value]:
        args, _ = self.call.rebuild(values[: self.n])
        dargs, _ = self.call.rebuild(dxs[: self.n])
        out = ordinary(self.rules[0])(args, dargs)
        if not isinstance(out, tuple) or len(out) != 2:
            raise TreeError(f"{self.name}: the tangent rule returns (out, tangent)")
        return tangents_like(self.traced.graph.out_types, self.traced.structure, out[1], self.name)


def tangents_like(types: Sequence[Type], structure: Any, given: Any, name: str) -> list[Value]:
    """The leaves of a tangent, each as its result; raises TreeError for another structure."""
    leaves, found = tree.flatten(given)
    if found != structure:
        raise TreeError(f"{name}: the rule gives a tangent {found} for a result {structure}")
    return [tangent_like(t, leaf, name) for t, leaf in zip(types, leaves, strict=True)]


def tangent_like(t: Type, given: Any, name: str) -> Value:
    """A tangent in the type of its result; raises ShapeError or DtypeError where it does not fit."""
    a = as_array(given, name)
    if a.shape != t.shape:
        raise ShapeError(f"{name}: the rule gives a tangent {a.type} for a result {t}")
    if not t.inexact:
        return zeros(t)
    if not np.can_cast(a.dtype, t.dtype, "same_kind"):
        raise DtypeError(f"{name}: the rule gives a tangent {a.type} for a result {t}")
    return a.astype(t.dtype, copy=False).value


class BatchedDeclared(Batched):
    """A declared pullback over a batch."""

    @property
    def narrow(self) -> bool:
        """Test whether it holds in half precisions."""
        return bool(self.rule.narrow)

    def pullback(self, xs: Sequence[Value], ys: Sequence[Value], gys: Sequence[Value]) -> list[Maybe]:
        n, m = len(xs), len(ys)

        def one(*rows: Value) -> Any:
            return self.rule.pullback(rows[:n], rows[n : n + m], rows[n + m :])

        return self.cotangents(one, [*xs, *ys, *gys], [*self.on, *[True] * (m + len(gys))])


class DeclaredPullback(CustomRule):
    """The declared pullback of a composite at one call, and whether it holds in half precisions."""

    over_batch = BatchedDeclared

    @property
    def narrow(self) -> bool:
        return bool(self.rules[1])

    def pullback(self, xs: Sequence[Value], ys: Sequence[Value], gys: Sequence[Value]) -> list[Maybe]:
        args, _ = self.call.rebuild(xs[: self.n])
        given = ordinary(self.rules[0])(args, self.traced.arrays(ys), self.traced.arrays(gys))
        return self.cotangents(given, self.name, args)

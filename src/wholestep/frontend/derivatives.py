"""vjp, jvp and linearize: derivatives as linear functions of (co)tangents, of Python functions of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from wholestep import tree
from wholestep.backends import reference
from wholestep.boundary.public import boundary
from wholestep.errors import DtypeError, ShapeError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.entered import Entered
from wholestep.frontend.promotion import constant_of
from wholestep.frontend.source.entrance import as_asked, ordinary
from wholestep.frontend.tracing import (
    Scope,
    as_array,
    constants_read,
    plain_data,
    scope,
    type_of,
)
from wholestep.ir.build import build, current, inline, trim
from wholestep.ir.graph import Graph, Value
from wholestep.primitives.family import zeros
from wholestep.transforms.forward import push
from wholestep.transforms.reverse import backward
from wholestep.tree import Tree

R = TypeVar("R")
A = TypeVar("A")
Pull: TypeAlias = Callable[[Any], tuple[Tree, ...]]
"""A function of a cotangent, which gives a tree for each primal."""


class Linearized:
    """A linear program and its residuals, the values from the point of linearization; it may be called many times."""

    def __init__(self, graph: Graph, captured: Sequence[Value], outermost: bool) -> None:
        self.graph = graph
        self.known = [plain_data(v) if outermost else v for v in captured]

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Apply to plain or traced arrays of the right types; plain in, plain out."""
        if current() is None and not any(isinstance(a, Array) for a in arrays):
            given = [np.asarray(x) for x in (*arrays, *self.known)]
            with np.errstate(all="ignore"):
                return [np.array(out) for out in reference.interpret(self.graph, given)]
        with scope("vjp") as work:
            values = [as_array(a, "pullback").value for a in arrays]
            known = [v if isinstance(v, Value) else constant_of(v) for v in self.known]
            outs = inline(self.graph, [*values, *known])
            return [work.leave(Array(v, v.ndim == 0)) for v in outs]


def region_outputs(f: Callable[..., Any], entered: Entered, work: Scope, has_aux: bool, what: str) -> Any:
    """Run f on entered arguments; returns result leaves, their structure, aux, and the nodes that the results need."""
    start = len(work.builder.nodes)
    out = ordinary(f)(*entered.args)
    aux = None
    if has_aux:
        out, aux = out
    leaves, structure = tree.flatten(out)
    arrays = [as_array(leaf, what) for leaf in leaves]
    values = [a.value for a in arrays]  # a view is read when it is asked for, which adds to the program
    return arrays, structure, aux, trim(work.builder.nodes[start:], values)


def checked_like(
    given: Any, structure: Any, types: Sequence[Any], what: str, scalars: Sequence[bool] | None = None
) -> list[Any]:
    """The leaves of a tangent or cotangent; raises TreeError or ShapeError where it does not fit."""
    leaves, found = tree.flatten(given)
    if found != structure:
        raise TreeError(f"{what}: expected the structure {structure}, got {found}")
    out = []
    for leaf, t in zip(constants_read(leaves), types, strict=True):
        own = type_of(leaf)
        if own.shape != t.shape:
            raise ShapeError(f"{what}: expected {t}, got {own}")
        if own.dtype != t.dtype:
            if not np.can_cast(own.dtype, t.dtype, "same_kind"):
                raise DtypeError(f"{what}: expected {t}, got {own}")
            leaf = leaf.astype(t.dtype) if hasattr(leaf, "astype") else np.asarray(leaf, t.dtype)
        out.append(leaf)
    return out


@overload
def vjp(f: Callable[..., R], *primals: Any, rewrite: bool = ...) -> tuple[R, Pull]: ...
@overload
def vjp(f: Callable[..., tuple[R, A]], *primals: Any, has_aux: bool, rewrite: bool = ...) -> tuple[R, Pull, A]: ...
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False, rewrite: bool = True) -> tuple[Any, ...]:
    """The value of f and the pullback of cotangents through it: `out, pullback = ws.vjp(f, *primals)`.

    `pullback(cotangent)` takes a tree like the result and returns a tuple, one tree for each primal; it may be called
    many times, with traced cotangents too. With `has_aux` f returns `(out, aux)` and vjp `(out, pullback, aux)`.
    Integer results take any cotangent and pass nothing on. With `rewrite=False` the user's functions run as they stand
    (see language.md).

    Shapes: primals are trees of floating or complex arrays, cotangents like the primals, results of any dtype.
    Raises: DtypeError for integer primals, TreeError and ShapeError for a cotangent that does not fit.

    >>> import numpy as np, wholestep as ws
    >>> out, pullback = ws.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pullback(1.0)
    (np.float64(3.0), np.float64(2.0))
    """
    f = as_asked(f, rewrite)
    with scope("vjp") as work:
        entered = Entered(f, tuple(range(len(primals))), primals, "vjp")
        arrays, structure, aux, nodes = region_outputs(f, entered, work, has_aux, "vjp")
        values = [a.value for a in arrays]
        flows = [v.type.inexact for v in values]

        def pull(*cotangents: Value) -> list[Value]:
            seeds = [(v, g) for v, g, ok in zip(values, cotangents, flows, strict=True) if ok]
            found = backward(nodes, seeds, entered.values)
            return [zeros(v.type) if g is None else g for v, g in zip(entered.values, found, strict=True)]

        graph, captured = build(pull, [v.type for v in values], name="pullback", reason="vjp")
        linear = Linearized(graph, captured, work.outermost)
        out = work.leave(tree.unflatten(structure, arrays))
        scalars = [a._scalar for a in entered.arrays]
        shapes = [v.type for v in values]

        @boundary
        def pullback(cotangent: Any) -> Any:
            given = [
                leaf if ok else np.zeros(t.shape, t.dtype)
                for leaf, t, ok in zip(_cotangents(cotangent, structure, shapes, flows), shapes, flows, strict=True)
            ]
            return entered.regroup([as_scalar(g, s) for g, s in zip(linear(given), scalars, strict=True)])

        return (out, pullback, work.leave(aux)) if has_aux else (out, pullback)


def _cotangents(given: Any, structure: Any, types: Sequence[Any], flows: Sequence[bool]) -> list[Any]:
    if all(flows):
        return checked_like(given, structure, types, "pullback")
    leaves, found = tree.flatten(given)
    if found != structure:
        raise TreeError(f"pullback: expected the structure {structure}, got {found}")
    return leaves


def as_scalar(x: Any, scalar: bool) -> Any:
    return x[()] if scalar and isinstance(x, np.ndarray) else x


@overload
def jvp(
    f: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], *, rewrite: bool = ...
) -> tuple[R, R]: ...
@overload
def jvp(
    f: Callable[..., tuple[R, A]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    has_aux: bool,
    rewrite: bool = ...,
) -> tuple[R, R, A]: ...
def jvp(
    f: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    has_aux: bool = False,
    rewrite: bool = True,
) -> tuple[Any, ...]:
    """The value of f and its derivative along tangents: `out, tangent = ws.jvp(f, primals, tangents)`.

    With `has_aux` f returns `(out, aux)` and jvp `(out, tangent, aux)`. With `rewrite=False` the user's functions run
    as they stand (see language.md).

    Shapes: `primals` and `tangents` are sequences, one tree of floating or complex arrays for each argument, with equal
    shapes leaf by leaf; the tangent is like the value.
    Raises: TreeError or ShapeError where they do not fit, DtypeError for integer primals.

    >>> import numpy as np, wholestep as ws
    >>> ws.jvp(np.sin, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TreeError(
            "jvp: primals and tangents are sequences, one item for each argument of the function",
            hint="for one argument: ws.jvp(f, (x,), (dx,))",
        )
    if len(primals) != len(tangents):
        raise TreeError(f"jvp: {len(primals)} primals and {len(tangents)} tangents")
    f = as_asked(f, rewrite)
    with scope("jvp") as work:
        entered = Entered(f, tuple(range(len(primals))), primals, "jvp")
        dxs = []
        for primal, tangent in zip(primals, tangents, strict=True):
            leaves, structure = tree.flatten(primal)
            dxs += checked_like(tangent, structure, [type_of(leaf) for leaf in leaves], "jvp")
        arrays, structure, aux, nodes = region_outputs(f, entered, work, has_aux, "jvp")
        known = {v: as_array(dx, "jvp").value for v, dx in zip(entered.values, dxs, strict=True)}
        with work.last_walk():
            push(nodes, known)
            dys = [Array(_tangent(a.value, known), a._scalar) for a in arrays]
        out = work.leave(tree.unflatten(structure, arrays))
        tangent_out = work.leave(tree.unflatten(structure, dys))
        return (out, tangent_out, work.leave(aux)) if has_aux else (out, tangent_out)


def _tangent(v: Value, tangents: dict[Value, Value]) -> Value:
    found = tangents.get(v)
    return zeros(v.type) if found is None else found


@overload
def linearize(f: Callable[..., R], *primals: Any, rewrite: bool = ...) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(
    f: Callable[..., tuple[R, A]], *primals: Any, has_aux: bool, rewrite: bool = ...
) -> tuple[R, Callable[..., R], A]: ...
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False, rewrite: bool = True) -> tuple[Any, ...]:
    """The value of f at a point and its derivative there as a linear function: `out, push = ws.linearize(f, x)`.

    `push(*tangents)` may be called many times without running f again. With `has_aux` f returns `(out, aux)` and
    linearize `(out, push, aux)`. With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: primals and tangents as in `jvp`; `push` returns a tree like the value.
    Raises: as `jvp` does.

    >>> import numpy as np, wholestep as ws
    >>> out, push = ws.linearize(np.sin, 0.0)
    >>> push(3.0)
    np.float64(3.0)
    """
    f = as_asked(f, rewrite)
    with scope("linearize") as work:
        entered = Entered(f, tuple(range(len(primals))), primals, "linearize")
        arrays, structure, aux, nodes = region_outputs(f, entered, work, has_aux, "linearize")

        def forward(*dxs: Value) -> list[Value]:
            tangents = dict(zip(entered.values, dxs, strict=True))
            push(nodes, tangents)
            return [_tangent(a.value, tangents) for a in arrays]

        graph, captured = build(forward, [v.type for v in entered.values], name="push", reason="jvp")
        linear = Linearized(graph, captured, work.outermost)
        scalars = [a._scalar for a in arrays]
        out = work.leave(tree.unflatten(structure, arrays))
        types = [v.type for v in entered.values]

        @boundary
        def pushforward(*tangents: Any) -> Any:
            if len(tangents) != len(primals):
                raise TreeError(f"linearize: {len(primals)} primals and {len(tangents)} tangents")
            dxs, at = [], 0
            for tangent, (own, n) in zip(tangents, entered.structures, strict=True):
                dxs += checked_like(tangent, own, types[at : at + n], "linearize")
                at += n
            made = [as_scalar(y, s) for y, s in zip(linear(dxs), scalars, strict=True)]
            return tree.unflatten(structure, made)

        return (out, pushforward, work.leave(aux)) if has_aux else (out, pushforward)

"""grad, vjp, jvp and what follows from them, on Python functions of trees of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, tree
from wholestep.backends import reference
from wholestep.boundary.counts import is_integer
from wholestep.boundary.public import boundary
from wholestep.errors import DerivativeError, DtypeError, NonScalarError, ShapeError, TreeError, show
from wholestep.frontend.array import Array
from wholestep.frontend.closure_reads import returns
from wholestep.frontend.promotion import constant_of
from wholestep.frontend.source.entrance import as_asked, ordinary
from wholestep.frontend.tracing import (
    LEAVES,
    Scope,
    as_array,
    check_function,
    differentiable,
    enter,
    guarded,
    parameter_names,
    plain_data,
    scope,
    type_of,
)
from wholestep.ir.build import build, current, inline, trim
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.family import Maybe, conj, ones, zeros
from wholestep.transforms.forward import push
from wholestep.transforms.reverse import backward


class Entered:
    """The arguments of one call, those to differentiate replaced by traced arrays."""

    def __init__(self, f: Any, argnums: int | Sequence[int], args: Sequence[Any], what: str) -> None:
        self.single = isinstance(argnums, int)
        numbers = [argnums] if isinstance(argnums, int) else list(argnums)
        for n in numbers:
            if not -len(args) <= n < len(args):
                raise DerivativeError(
                    f"{what}: argnums={argnums} is outside the {len(args)} positional arguments of this call",
                    hint="differentiated arguments are passed by position",
                )
        self.numbers = [n % len(args) for n in numbers]
        self.leaves: list[Any] = []
        self.arrays: list[Array] = []
        self.structures = []
        given = list(args)
        for i, arg in enumerate(args):
            given[i] = tree.map(guarded, arg) if i not in self.numbers else arg
        for n in self.numbers:
            leaves, structure = tree.flatten(args[n])
            differentiable(leaves, functools.partial(leaf_paths, f, args, n), what)
            arrays = [enter(leaf) for leaf in leaves]
            given[n] = tree.unflatten(structure, arrays)
            self.structures.append((structure, len(leaves)))
            self.leaves += leaves
            self.arrays += arrays
        self.values = [a.value for a in self.arrays]
        self.args = given
        self.f = f

    def regroup(self, items: Sequence[Any]) -> Any:
        """One item for each differentiated leaf, in the shape of the arguments."""
        out, at = [], 0
        for structure, n in self.structures:
            out.append(tree.unflatten(structure, items[at : at + n]))
            at += n
        return out[0] if self.single else tuple(out)

    def path(self, i: int) -> str:
        """The user's spelling of a leaf."""
        return [p for n in self.numbers for p in leaf_paths(self.f, self.args, n)][i]


def leaf_paths(f: Any, args: Sequence[Any], n: int) -> list[str]:
    """The user's spelling of the leaves of one argument."""
    return tree.paths(args[n], parameter_names(f, len(args))[n])


def check_argnums(argnums: Any, what: str) -> None:
    """Raise DerivativeError for what does not number arguments."""
    given = argnums if isinstance(argnums, tuple | list) else (argnums,)
    if not all(map(is_integer, given)):
        raise DerivativeError(
            f"{what}: argnums is {argnums!r:.60}, and numbers the arguments from 0",
            hint=f"the arguments come in a call of their own: ws.{what}(f)(x)",
        )


def loss_value(out: Any, what: str, holomorphic: bool, f: Any = None) -> Array:
    """The scalar to differentiate; raises where the result is none, at the line where `f` returns it."""
    if out is None:
        raise NonScalarError(
            f"{what}: the function returned None, not a scalar",
            where=returns(f),
            hint="is a `return` missing? end the function with `return` and the loss",
        )
    if not isinstance(out, LEAVES):
        raise NonScalarError(
            f"{what}: the function returned a {type(out).__name__}, not a scalar",
            where=returns(f),
            hint="return the loss alone, or (loss, aux) with has_aux=True",
        )
    loss = as_array(out, what)
    if loss.shape != ():
        raise NonScalarError(
            f"{what}: the loss is {loss.type}, not a scalar",
            where=returns(f),
            hint="np.mean(...) of it is one; else ws.jacobian, or ws.vjp with a cotangent of your own",
        )
    if dtypes.is_complex(loss.dtype) and not holomorphic:
        raise DtypeError(
            f"{what}: the loss is {loss.type}, and a gradient needs a real one",
            hint="take .real or abs() of it, or say holomorphic=True for the complex derivative",
        )
    if not dtypes.is_inexact(loss.dtype):
        raise DtypeError(
            f"{what}: the loss is {loss.type}, and an integer or boolean loss has no derivative",
            where=returns(f),
            hint="counts, comparisons and positions are constant almost everywhere; make it of floating-point values",
        )
    if holomorphic and not dtypes.is_complex(loss.dtype):
        raise DtypeError(f"{what}: holomorphic=True needs a complex result, not {loss.type}")
    return loss


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_unused: bool = True,
    rewrite: bool = True,
) -> Callable[..., Any]:
    """The value of a scalar function together with its gradient.

    The result is called as f is and returns `(value, gradient)`, or `((value, aux), gradient)` with `has_aux`, where f
    returns `(loss, aux)`. The gradient has the structure, shapes and dtypes of the arguments at `argnums`; for complex
    arguments it is dL/da + i dL/db, or the complex derivative with `holomorphic`. An argument that the loss does not
    depend on has gradient zero. With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: f returns a real floating scalar (complex if `holomorphic`); arguments are trees of inexact arrays.
    Raises: NonScalarError for a loss that is no scalar, DtypeError for integer arguments or losses, DerivativeError for
    `argnums` outside the call, and with `allow_unused=False` for an argument that the loss does not depend on.

    >>> import numpy as np, wholestep as ws
    >>> value, gradient = ws.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), gradient.tolist()
    (5.0, [2.0, 4.0])
    """

    check_function(f, "grad")
    check_argnums(argnums, "grad")
    f = as_asked(f, rewrite)

    def complete(entered: Entered, gxs: Sequence[Maybe]) -> None:
        if not allow_unused and None in gxs:
            raise DerivativeError(
                f"grad: the loss does not depend on {entered.path(gxs.index(None))}",
                hint="drop it from argnums, or allow_unused=True for a zero gradient",
            )

    return with_gradient(f, argnums, complete, has_aux=has_aux, holomorphic=holomorphic)


def with_gradient(
    f: Callable[..., Any],
    argnums: int | Sequence[int],
    look: Callable[[Entered, Sequence[Maybe]], None],
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The function that `value_and_grad` makes; `look` sees the cotangents first, None for what no gradient reaches."""

    @boundary
    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        with scope("grad") as work:
            start = len(work.builder.nodes)
            entered = Entered(f, argnums, args, "grad")
            out = ordinary(f)(*entered.args, **{k: tree.map(guarded, v) for k, v in kwargs.items()})
            aux = None
            if has_aux:
                if not isinstance(out, tuple) or len(out) != 2:
                    raise TreeError("grad: with has_aux=True the function returns (loss, aux)")
                out, aux = out
            loss = loss_value(out, "grad", holomorphic, f)
            value = loss.value
            with work.last_walk():
                gxs = backward(work.builder.nodes[start:], [(value, ones(value.type))], entered.values)
                look(entered, gxs)
                found = finish(work, entered, gxs, holomorphic)
            result = work.leave(Array(value, True))
            return ((result, work.leave(aux)) if has_aux else result), found

    return differentiated


def finish(work: Scope, entered: Entered, gxs: Sequence[Maybe], holomorphic: bool) -> Any:
    """Cotangents as the caller gets them."""
    items = []
    for v, g, array in zip(entered.values, gxs, entered.arrays, strict=True):
        g = zeros(v.type) if g is None else g
        if holomorphic:
            g = conj(g)
        items.append(plain_data(g, array._scalar) if work.outermost else Array(g, array._scalar))
    return entered.regroup(items)


def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_unused: bool = True,
    rewrite: bool = True,
) -> Callable[..., Any]:
    """The gradient of a scalar function; the arguments are those of `value_and_grad`.

    With `has_aux` the result returns `(gradient, aux)`.

    Shapes: f returns a real floating scalar; the gradient is like the arguments at `argnums`, dtypes too.
    Raises: as `value_and_grad` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.grad(np.sin)(0.0)
    np.float64(1.0)
    """
    options = {"holomorphic": holomorphic, "allow_unused": allow_unused, "rewrite": rewrite}
    both = value_and_grad(f, argnums, has_aux=has_aux, **options)

    @boundary
    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


class Linearized:
    """A linear program with what it needs from the point it was made at; it may be called many times."""

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
    for leaf, t in zip(leaves, types, strict=True):
        own = type_of(leaf)
        if own.shape != t.shape:
            raise ShapeError(f"{what}: expected {t}, got {own}")
        if own.dtype != t.dtype:
            if not np.can_cast(own.dtype, t.dtype, "same_kind"):
                raise DtypeError(f"{what}: expected {t}, got {own}")
            leaf = leaf.astype(t.dtype) if hasattr(leaf, "astype") else np.asarray(leaf, t.dtype)
        out.append(leaf)
    return out


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False, rewrite: bool = True) -> Any:
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
            return entered.regroup([_as_scalar(g, s) for g, s in zip(linear(given), scalars, strict=True)])

        return (out, pullback, work.leave(aux)) if has_aux else (out, pullback)


def _cotangents(given: Any, structure: Any, types: Sequence[Any], flows: Sequence[bool]) -> list[Any]:
    if all(flows):
        return checked_like(given, structure, types, "pullback")
    leaves, found = tree.flatten(given)
    if found != structure:
        raise TreeError(f"pullback: expected the structure {structure}, got {found}")
    return leaves


def _as_scalar(x: Any, scalar: bool) -> Any:
    return x[()] if scalar and isinstance(x, np.ndarray) else x


def jvp(
    f: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    has_aux: bool = False,
    rewrite: bool = True,
) -> Any:
    """The value of f and its derivative along tangents: `out, tangent = ws.jvp(f, primals, tangents)`.

    With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: `primals` and `tangents` are sequences, one tree of floating or complex arrays for each argument, with equal
    shapes leaf by leaf; the tangent is like the value.
    Raises: TreeError or ShapeError where they do not fit, DtypeError for integer primals.

    >>> import numpy as np, wholestep as ws
    >>> ws.jvp(np.sin, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TreeError("jvp: primals and tangents are sequences, one item for each argument of the function")
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


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False, rewrite: bool = True) -> Any:
    """The value of f at a point and its derivative there as a linear function: `out, push = ws.linearize(f, x)`.

    `push(*tangents)` may be called many times without running f again. With `rewrite=False` the user's functions run as
    they stand (see language.md).

    Shapes: primals and tangents as in `jvp`; `push` gives what is like the value.
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
            made = [_as_scalar(y, s) for y, s in zip(linear(dxs), scalars, strict=True)]
            return tree.unflatten(structure, made)

        return (out, pushforward, work.leave(aux)) if has_aux else (out, pushforward)


def trace_gradients(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, rewrite: bool = True
) -> Callable[..., Any]:
    """The gradient of a scalar function with respect to every intermediate value, the way a tape keeps them.

    The result is called as f is and returns `(value, gradient, records)`: a list of `Intermediate`, in the order of the
    program, with the operation, the user's line, the value and its gradient (None where the loss does not depend on
    it). With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: f returns a real floating scalar; each gradient has the shape and dtype of its value.
    Raises: as `value_and_grad` does.

    >>> import numpy as np, wholestep as ws
    >>> value, gradient, records = ws.trace_gradients(lambda x: np.exp(x) * 2.0)(0.0)
    >>> [(r.operation, float(r.gradient)) for r in records if r.operation == "exp"]
    [('exp', 2.0)]
    """
    f = as_asked(f, rewrite)

    @boundary
    @functools.wraps(f)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with scope("grad") as work:
            start = len(work.builder.nodes)
            entered = Entered(f, argnums, args, "trace_gradients")
            loss = loss_value(ordinary(f)(*entered.args, **kwargs), "trace_gradients", False, f)
            value = loss.value
            nodes = work.builder.nodes[start:]
            inner = [(n, v) for n in nodes for v in n.outputs if v.type.inexact]
            wanted = [*entered.values, *[v for _, v in inner]]
            gxs = backward(nodes, [(value, ones(value.type))], wanted)
            found = finish(work, entered, gxs[: len(entered.values)], False)
            records = [
                Intermediate(n, work.leave(Array(v)), None if g is None else work.leave(Array(g)))
                for (n, v), g in zip(inner, gxs[len(entered.values) :], strict=True)
            ]
            return work.leave(loss), found, records

    return traced


class Intermediate:
    """One value on the way to a loss, with its gradient."""

    def __init__(self, node: Node, value: Any, gradient: Any) -> None:
        self.operation: str = node.op.name
        self.label: str | None = node.params.get("label")
        self.where = node.where
        self.value = value
        self.gradient = gradient

    @property
    def line(self) -> str:
        """The user's file, line and source text."""
        return show(self.where)

    def __repr__(self) -> str:
        return f"Intermediate({self.operation}, {self.line})"

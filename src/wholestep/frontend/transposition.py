"""linear_transpose and closure_convert: functions made of the program of a function, instead of a run of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from wholestep import dtypes, tree
from wholestep.boundary.public import boundary
from wholestep.errors import DerivativeError, DtypeError, TreeError
from wholestep.frontend.argument_kinds import ENTERING, kind_of, number_kind
from wholestep.frontend.array import Array
from wholestep.frontend.closure_reads import returns
from wholestep.frontend.derivatives import Linearized, as_scalar, checked_like
from wholestep.frontend.source.entrance import as_asked, ordinary
from wholestep.frontend.tracing import (
    Traced,
    as_array,
    check_function,
    constants_read,
    parameter_names,
    scope,
    trace_flat,
)
from wholestep.ir.analysis import hollow
from wholestep.ir.build import build, inline
from wholestep.ir.graph import NDArray, Value
from wholestep.primitives.family import transposed, zeros
from wholestep.transforms.linearity import FIXED, HINT, LINEAR, standings
from wholestep.transforms.reverse import backward
from wholestep.tree import Tree
from wholestep.words import type_in_words

R = TypeVar("R")


class Written:
    """The program of a function for arguments like those given, of which the types alone are read."""

    def __init__(self, f: Callable[..., Any], primals: Sequence[Any], what: str) -> None:
        check_function(f, what)
        leaves, self.structure = tree.flatten(tuple(primals))
        self.leaves = constants_read(leaves)
        for leaf, path in zip(self.leaves, self.paths(f, primals), strict=True):
            if not isinstance(leaf, ENTERING):
                raise DtypeError(
                    f"{what}: {path} is {type_in_words(leaf)}, not an array", hint="close over it in a lambda"
                )
        self.types = [kind_of(leaf) for leaf in self.leaves]
        self.scalars = [number_kind(leaf)[0] for leaf in self.leaves]

        def whole(*arrays: Array) -> Any:
            return ordinary(f)(*tree.unflatten(self.structure, arrays))

        name = str(getattr(f, "__name__", "graph"))
        self.traced: Traced = trace_flat(whole, self.types, self.scalars, reason=what, name=name)

    def paths(self, f: Any, primals: Sequence[Any]) -> list[str]:
        """The user's spelling of every leaf."""
        names = parameter_names(f, len(primals))
        return [path for x, name in zip(primals, names, strict=True) for path in tree.paths(x, name)]


def hoisted(f: Callable[..., Any], what: str, *examples: Any) -> tuple[Callable[..., Any], list[Array]]:
    """f for arguments like the examples, as a function that also takes the traced arrays that f closes over.

    `g(*args, *closed)` is f(*args), where `closed` are the arrays returned beside g: g reads nothing of the trace in
    which it was made, so that a rule may call it in any other.
    """
    written = Written(f, examples, what)

    def whole(*given: Any) -> Any:
        leaves, _ = tree.flatten(given)
        return written.traced.arrays(inline(written.traced.graph, [as_array(leaf, what).value for leaf in leaves]))

    return whole, [Array(v, v.ndim == 0) for v in written.traced.captured]


def linear_transpose(f: Callable[..., Any], *primals: Any, rewrite: bool = True) -> Callable[[Any], tuple[Tree, ...]]:
    """The transpose of a linear function, which is not run: `transpose = ws.linear_transpose(f, *primals)`.

    `transpose(cotangent)` takes a tree like the result of f and returns a tuple, one tree for each primal: the function
    with <f(x), y> = <x, transpose(y)> in the real inner product Re(conj(a) b), which for complex linear functions is
    the conjugate transpose. The primals say shapes and dtypes; their values are not read. Indices, masks and factors
    that f closes over may be anything. With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: primals are trees of floating or complex arrays, or of `ShapeDtype`s; cotangents like the result of f.
    Raises: DerivativeError where f is not linear, at the line and with the operation that is not; DtypeError for
    integer primals or results, TreeError and ShapeError for a cotangent that does not fit.

    >>> import numpy as np, wholestep as ws
    >>> transpose = ws.linear_transpose(lambda x: np.cumsum(2.0 * x), ws.ShapeDtype(3))
    >>> transpose(np.array([1.0, 10.0, 100.0]))[0].tolist()
    [222.0, 220.0, 200.0]
    """
    f = as_asked(f, rewrite)
    with scope("linear_transpose") as work:
        written = Written(f, primals, "linear_transpose")
        for t, path in zip(written.types, written.paths(f, primals), strict=True):
            if not dtypes.is_inexact(t.dtype):
                raise DtypeError(f"linear_transpose: {path} is {t}, and a linear function takes floats or complex ones")
        traced, types = written.traced, written.types
        check_linear(f, traced, len(types))

        def pull(*gys: Value) -> list[Value]:
            found = transposed(types, lambda dxs: inline(traced.graph, [*dxs, *traced.captured]), gys, backward)
            gxs = [zeros(t) if g is None else g for t, g in zip(types, found, strict=True)]
            if hollow(gxs):
                raise DerivativeError("linear_transpose: the stated derivative reads the arguments", hint=HINT)
            return gxs

        outs = list(traced.graph.out_types)
        graph, captured = build(pull, outs, name="transpose", reason="vjp")
        linear = Linearized(graph, captured, work.outermost)

    @boundary
    def transpose(cotangent: Any) -> Any:
        leaves = checked_like(cotangent, traced.structure, outs, "linear_transpose")
        made = [as_scalar(g, s) for g, s in zip(linear(leaves), written.scalars, strict=True)]
        return tree.unflatten(written.structure, made)

    return transpose


def check_linear(f: Any, traced: Traced, count: int) -> None:
    """Raise DerivativeError or DtypeError for results that are not linear in the first `count` inputs."""
    found = standings(traced.graph, [LINEAR] * count + [FIXED] * len(traced.captured))
    for t, standing in zip(traced.graph.out_types, found, strict=True):
        if not t.inexact:
            raise DtypeError(f"linear_transpose: a result is {t}, not of floats or complex numbers", where=returns(f))
        if standing == FIXED:
            raise DerivativeError(
                f"linear_transpose: a result {t} does not depend on the arguments, and a linear one would be zero",
                where=returns(f),
                hint=HINT,
            )


def closure_convert(
    f: Callable[..., R], *examples: Any, rewrite: bool = True
) -> tuple[Callable[..., R], list[NDArray]]:
    """f with the traced arrays that it closes over as arguments of their own: `g, closed = ws.closure_convert(f, x)`.

    `g(x, *closed)` is f(x), as the program that f is for arguments of the types of the examples. A function with a rule
    of its own (`ws.custom_vjp`, `ws.custom_vmap`) that takes g and `closed` states derivatives in these arrays.
    `closed` holds the floating and complex arrays of the transforms around the call; outside of them it is empty, and
    other values that f closes over stay with g. With `rewrite=False` f runs as it stands (see language.md).

    Shapes: examples are trees of arrays or `ShapeDtype`s of any dtypes; g takes trees and types like theirs.
    Raises: TreeError, ShapeError or DtypeError where g is called with others, and the exceptions of f on traced
    arrays without values.

    >>> import numpy as np, wholestep as ws
    >>> def f(w):
    ...     g, closed = ws.closure_convert(lambda x: w * x, 3.0)
    ...     return g(3.0, *[2.0 * array for array in closed])
    >>> ws.grad(f)(2.0)
    np.float64(6.0)
    """
    f = as_asked(f, rewrite)
    with scope("closure_convert"):
        written = Written(f, examples, "closure_convert")
    traced = written.traced
    hoisted = [v.type.inexact for v in traced.captured]
    kinds = [v.type for v in traced.captured if v.type.inexact]
    flat = tree.structure((0,) * len(kinds))

    @boundary
    def converted(*given: Any) -> Any:
        args, closed = given[: len(examples)], given[len(examples) :]
        leaves = checked_like(args, written.structure, written.types, "closure_convert")
        if len(closed) != len(kinds):
            raise TreeError(
                f"closure_convert: {len(closed)} arrays after the arguments, and f closes over {len(kinds)}"
            )
        rest = iter(checked_like(closed, flat, kinds, "closure_convert"))
        with scope("closure_convert") as work:
            held = [next(rest) if h else Array(v) for h, v in zip(hoisted, traced.captured, strict=True)]
            values = [as_array(leaf, "closure_convert").value for leaf in (*leaves, *held)]
            return work.leave(traced.arrays(inline(traced.graph, values)))

    arrays: list[Any] = [Array(v, v.ndim == 0) for v, h in zip(traced.captured, hoisted, strict=True) if h]
    return converted, arrays

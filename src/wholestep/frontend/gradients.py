"""Gradients of scalar functions: grad, value_and_grad and trace_gradients, on Python functions of trees of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, overload

import numpy as np

from wholestep import dtypes, tree
from wholestep.boundary.public import boundary
from wholestep.errors import DerivativeError, DtypeError, NonScalarError, TreeError, show
from wholestep.frontend.array import Array
from wholestep.frontend.closure_reads import returns
from wholestep.frontend.entered import Entered, check_differentiated
from wholestep.frontend.known_tapes import Pullback, Tape, caller_own
from wholestep.frontend.source.entrance import as_asked, ordinary
from wholestep.frontend.tracing import (
    LEAVES,
    Scope,
    as_array,
    guarded,
    plain_data,
    scope,
)
from wholestep.ir.graph import NDArray, Node
from wholestep.primitives.family import Maybe, conj, ones, zeros
from wholestep.transforms.reverse import backward
from wholestep.tree import Tree
from wholestep.words import type_in_words

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")
P = ParamSpec("P")
Numbers: TypeAlias = int | Sequence[int]


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
            f"{what}: the function returned {type_in_words(out)}, not a scalar",
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


@overload
def value_and_grad(
    f: np.ufunc,
    argnums: int = ...,
    *,
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Callable[..., tuple[NDArray, NDArray]]: ...
@overload
def value_and_grad(  # type: ignore[overload-overlap]  # an argnums of 0 says more than another one
    f: Callable[Concatenate[T, P], R],
    argnums: Literal[0] = ...,
    *,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Callable[Concatenate[T, P], tuple[R, T]]: ...
@overload
def value_and_grad(
    f: Callable[P, R],
    argnums: Numbers,
    *,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Callable[P, tuple[R, Tree]]: ...
@overload
def value_and_grad(
    f: Callable[..., Any],
    argnums: Numbers = ...,
    *,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Any: ...  # the fallback where a type checker cannot choose, as for some lambdas
def value_and_grad(
    f: Callable[..., Any],
    argnums: Numbers = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_unused: bool = True,
    rewrite: bool = True,
) -> Callable[..., tuple[Any, Tree]]:
    """The value of a scalar function together with its gradient.

    The result is called as f is and returns `(value, gradient)`, or `((value, aux), gradient)` with `has_aux`, where f
    returns `(loss, aux)`. The gradient has the structure, shapes and dtypes of the arguments at `argnums`; for complex
    arguments it is dL/da + i dL/db, or the complex derivative with `holomorphic`. An argument that the loss does not
    depend on has gradient zero, or with `allow_unused=False` is an error. With `rewrite=False` the user's functions run
    as they stand (see language.md).

    Shapes: f returns a real floating scalar (complex if `holomorphic`); arguments are trees of inexact arrays.
    Raises: NonScalarError for a loss that is no scalar, DtypeError for integer arguments or losses, DerivativeError for
    `argnums` outside the call, and with `allow_unused=False` for an argument that the loss does not depend on.

    >>> import numpy as np, wholestep as ws
    >>> value, gradient = ws.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    return differentiated_function(f, argnums, True, has_aux, holomorphic, allow_unused, rewrite)


def differentiated_function(
    f: Callable[..., Any],
    argnums: int | Sequence[int],
    valued: bool,
    has_aux: bool,
    holomorphic: bool,
    allow_unused: bool,
    rewrite: bool,
) -> Callable[..., Any]:
    """The function that `value_and_grad` returns, or `grad`, which leaves the value out."""
    check_differentiated(f, argnums, "grad")
    f = as_asked(f, rewrite)

    def complete(entered: Entered, gxs: Sequence[Maybe]) -> None:
        if not allow_unused and None in gxs:
            raise DerivativeError(
                f"grad: the loss does not depend on {entered.path(gxs.index(None))}",
                hint="drop it from argnums, or allow_unused=True for a zero gradient",
            )

    return with_gradient(f, argnums, complete, has_aux=has_aux, holomorphic=holomorphic, valued=valued)


def with_gradient(
    f: Callable[..., Any],
    argnums: int | Sequence[int],
    look: Callable[[Entered, Sequence[Maybe]], None],
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    valued: bool = True,
) -> Callable[..., Any]:
    """The function that `value_and_grad` makes, or `grad` unless it is `valued`.

    `look` sees the cotangents first, None for an argument that no gradient reaches.
    """

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
            nodes = work.builder.nodes[start:]
            tape = Tape(nodes, entered.values, value, holomorphic) if work.outermost else None
            known = None if tape is None else tape.pullback()
            with work.last_walk():
                if tape is not None and known is not None:
                    found = by_known_tape(tape, known, entered, look)
                else:
                    held = [x.value for x in tree.leaves(aux) if isinstance(x, Array)]
                    gxs = backward(nodes, [(value, ones(value.type))], entered.values, held)
                    look(entered, gxs)
                    found = finish(work, entered, gxs, holomorphic)
            if not valued:
                return (found, work.leave(aux)) if has_aux else found
            result = work.leave(Array(value, True))
            return ((result, work.leave(aux)) if has_aux else result), found

    return differentiated


def by_known_tape(tape: Tape, known: Pullback, entered: Entered, look: Callable[[Entered, Sequence[Any]], None]) -> Any:
    """Cotangents as the caller gets them, by the program of an earlier tape."""
    look(entered, [reached or None for reached in known.reaches])
    found = zip(tape.gradients(known), entered.values, entered.arrays, strict=True)
    return entered.regroup([caller_own(g, v, array._scalar) for g, v, array in found])


def finish(work: Scope, entered: Entered, gxs: Sequence[Maybe], holomorphic: bool) -> Any:
    """Cotangents as the caller gets them."""
    items = []
    for v, g, array in zip(entered.values, gxs, entered.arrays, strict=True):
        g = zeros(v.type) if g is None else g
        if holomorphic:
            g = conj(g)
        items.append(plain_data(g, array._scalar) if work.outermost else Array(g, array._scalar))
    return entered.regroup(items)


@overload
def grad(
    f: np.ufunc,
    argnums: int = ...,
    *,
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Callable[..., NDArray]: ...
@overload
def grad(  # type: ignore[overload-overlap]  # an argnums of 0 says more than another one
    f: Callable[Concatenate[T, P], Any],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Callable[Concatenate[T, P], T]: ...
@overload
def grad(  # type: ignore[overload-overlap]  # likewise
    f: Callable[Concatenate[T, P], tuple[Any, A]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Callable[Concatenate[T, P], tuple[T, A]]: ...
@overload
def grad(
    f: Callable[P, tuple[Any, A]],
    argnums: Numbers,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Callable[P, tuple[Tree, A]]: ...
@overload
def grad(
    f: Callable[P, Any],
    argnums: Numbers,
    *,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Callable[P, Tree]: ...
@overload
def grad(
    f: Callable[..., Any],
    argnums: Numbers = ...,
    *,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_unused: bool = ...,
    rewrite: bool = ...,
) -> Any: ...  # the fallback where a type checker cannot choose, as for some lambdas
def grad(
    f: Callable[..., Any],
    argnums: Numbers = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_unused: bool = True,
    rewrite: bool = True,
) -> Callable[..., Tree]:
    """The gradient of a scalar function; the arguments are those of `value_and_grad`.

    With `has_aux` the result returns `(gradient, aux)`.

    Shapes: f returns a real floating scalar; the gradient is like the arguments at `argnums`, dtypes too.
    Raises: as `value_and_grad` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.grad(np.sin)(0.0)
    np.float64(1.0)
    """
    return differentiated_function(f, argnums, False, has_aux, holomorphic, allow_unused, rewrite)


@overload
def trace_gradients(  # type: ignore[overload-overlap]  # an argnums of 0 says more than another one
    f: Callable[Concatenate[T, P], R], argnums: Literal[0] = ..., *, rewrite: bool = ...
) -> Callable[Concatenate[T, P], tuple[R, T, list[Intermediate]]]: ...
@overload
def trace_gradients(
    f: Callable[P, R], argnums: Numbers, *, rewrite: bool = ...
) -> Callable[P, tuple[R, Tree, list[Intermediate]]]: ...
@overload
def trace_gradients(f: Callable[..., Any], argnums: Numbers = ..., *, rewrite: bool = ...) -> Any: ...
def trace_gradients(
    f: Callable[..., Any], argnums: Numbers = 0, *, rewrite: bool = True
) -> Callable[..., tuple[Any, Tree, list[Intermediate]]]:
    """The gradient of a scalar function with respect to every intermediate value, as a list in program order.

    The result is called as f is, differentiated with respect to the arguments at `argnums`, and returns
    `(value, gradient, records)`: a list of `Intermediate`, in the order of the program, with the operation, the user's
    line, the value and its gradient (None where the loss does not depend on it). With `rewrite=False` the user's
    functions run as they stand (see language.md).

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

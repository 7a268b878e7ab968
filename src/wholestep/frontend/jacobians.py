"""Whole Jacobians and Hessians: a vjp or jvp mapped over a basis."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

import numpy as np

from wholestep import dtypes, tree
from wholestep.boundary.counts import is_integer
from wholestep.boundary.public import boundary
from wholestep.errors import DtypeError
from wholestep.frontend.batching import vmap
from wholestep.frontend.derivatives import linearize, vjp
from wholestep.frontend.entered import argument_numbers, check_differentiated
from wholestep.frontend.gradients import Numbers
from wholestep.frontend.source.entrance import as_asked, ordinary
from wholestep.frontend.tracing import LEAVES, type_of
from wholestep.tree import Tree

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")


def typed_as(model: F) -> Callable[[Callable[..., Any]], F]:
    """Give a function the overloads of another one, for type checkers alone: it stays as it is."""

    def typed(f: Any) -> F:
        f.typed_as = model
        same: F = f
        return same

    return typed


def basis(example: Any) -> Any:
    """A tree like `example` with a leading axis that runs over every element of every leaf."""
    leaves, structure = tree.flatten(example)
    sizes = [math.prod(type_of(leaf).shape) for leaf in leaves]
    total = sum(sizes)
    out, at = [], 0
    for leaf, size in zip(leaves, sizes, strict=True):
        t = type_of(leaf)
        block = np.zeros((total, size), t.dtype)
        block[at : at + size] = np.eye(size, dtype=np.float64).astype(t.dtype)
        out.append(block.reshape(total, *t.shape))
        at += size
    return tree.unflatten(structure, out)


def partial(f: Callable[..., Any], argnums: int | Sequence[int], args: Sequence[Any], kwargs: Any) -> Any:
    """f as a function of the chosen arguments alone, and those arguments."""
    numbers = argument_numbers(argnums, len(args), "jacobian")

    def chosen(*own: Any) -> Any:
        given = list(args)
        for n, x in zip(numbers, own, strict=True):
            given[n] = x
        return ordinary(f)(*given, **kwargs)

    return functools.wraps(f)(chosen), [args[n] for n in numbers]


def split_basis_axis(wide: Any, example: Any, axis: int) -> Any:
    """Split the axis that ran over a basis back into the leaves of `example`."""
    leaves, structure = tree.flatten(example)
    out, at = [], 0
    for leaf in leaves:
        shape = type_of(leaf).shape
        size = math.prod(shape)
        index = (slice(None),) * axis + (slice(at, at + size),)
        block = wide[index]
        out.append(block.reshape((*wide.shape[:axis], *shape, *wide.shape[axis + 1 :])))
        at += size
    return tree.unflatten(structure, out)


@overload
def jacrev(
    f: Callable[P, tuple[Any, A]],
    argnums: Numbers = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    rewrite: bool = ...,
) -> Callable[P, tuple[Tree, A]]: ...
@overload
def jacrev(
    f: Callable[P, Any],
    argnums: Numbers = ...,
    *,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    rewrite: bool = ...,
) -> Callable[P, Tree]: ...
@overload
def jacrev(
    f: Callable[..., Any],
    argnums: Numbers = ...,
    *,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    rewrite: bool = ...,
) -> Any: ...
def jacrev(
    f: Callable[..., Any],
    argnums: Numbers = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    rewrite: bool = True,
) -> Callable[..., Tree]:
    """The Jacobian by reverse mode: one pass for each output element, all in one batch.

    The result is called as `f` is and returns the Jacobian with respect to the arguments at `argnums`, one or several,
    or `(jacobian, aux)` with `has_aux`, where f returns `(out, aux)`. With `holomorphic` it is the complex derivative;
    the rows of a complex Jacobian are else those of `vjp`, its conjugates. With `rewrite=False` the user's functions
    run as they stand (see language.md).

    Shapes: a result of shape s and an argument of shape t give an array of shape s + t; trees give a tree of results
    that holds trees of arguments. All are floating or complex.
    Raises: DtypeError for integer arguments or results, and for real ones if `holomorphic`; DerivativeError for
    `argnums` outside the call.

    >>> import numpy as np, wholestep as ws
    >>> ws.jacrev(lambda x: x**2)(np.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    check_differentiated(f, argnums, "jacrev")
    f = as_asked(f, rewrite)

    @boundary
    @functools.wraps(f)
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        own, primals = partial(f, argnums, args, kwargs)
        out, pullback, *aux = vjp(own, *primals, has_aux=has_aux)
        differentiable_outputs(out, "jacrev")
        if holomorphic:
            complex_alone("jacrev", primals, out)
            pullback = conjugated(pullback)
        if isinstance(out, LEAVES) and type_of(out).shape == ():
            row = pullback(np.ones((), type_of(out).dtype)[()])
            made = row[0] if is_integer(argnums) else row
            return (made, aux[0]) if has_aux else made
        rows = vmap(pullback)(basis(out))
        picked = rows[0] if is_integer(argnums) else rows
        columns = [split_basis_axis(row, out, 0) for row in tree.leaves(picked)]
        made = transpose_blocks(columns, tree.structure(out), tree.structure(picked))
        return (made, aux[0]) if has_aux else made

    return jacobian_of


def conjugated(pullback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A pullback whose cotangents are those of a complex derivative."""
    return lambda gy: tree.map(np.conj, pullback(gy))


def complex_alone(what: str, primals: Any, out: Any) -> None:
    """Raise DtypeError for real arguments or results of a function that is said to be holomorphic."""
    for where, t in [*[("an argument", x) for x in tree.leaves(primals)], *[("a result", x) for x in tree.leaves(out)]]:
        if not dtypes.is_complex(type_of(t).dtype):
            raise DtypeError(
                f"{what}: holomorphic=True needs complex arguments and results, and {where} is {type_of(t)}",
                hint="convert it: x.astype(np.complex128)",
            )


def differentiable_outputs(out: Any, what: str) -> None:
    """Raise DtypeError for a result without a derivative."""
    for leaf in tree.leaves(out):
        if not type_of(leaf).inexact:
            raise DtypeError(f"{what}: a result is {type_of(leaf)}, and integers and booleans have no derivative")


def transpose_blocks(columns: Sequence[Any], outer: Any, inner: Any) -> Any:
    """Trees of results, one for each argument leaf, as a tree of results that holds trees of arguments."""
    rows = list(zip(*[tree.leaves(c) for c in columns], strict=True))
    return tree.unflatten(outer, [tree.unflatten(inner, list(row)) for row in rows])


@typed_as(jacrev)
def jacfwd(
    f: Callable[..., Any],
    argnums: Numbers = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    rewrite: bool = True,
) -> Callable[..., Tree]:
    """The Jacobian by forward mode: one pass for each argument element, all in one batch.

    Arguments are those of `jacrev`. With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: as `jacrev`.
    Raises: as `jacrev` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.jacfwd(np.sin)(0.0)
    np.float64(1.0)
    """
    check_differentiated(f, argnums, "jacfwd")
    f = as_asked(f, rewrite)

    @boundary
    @functools.wraps(f)
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        own, primals = partial(f, argnums, args, kwargs)
        out, push, *aux = linearize(own, *primals, has_aux=has_aux)
        differentiable_outputs(out, "jacfwd")
        if holomorphic:
            complex_alone("jacfwd", primals, out)
        columns = vmap(push, out_axes=-1)(*basis(tuple(primals)))
        picked: Any = primals[0] if is_integer(argnums) else tuple(primals)
        made = tree.map(lambda leaf: scalar_like(split_basis_axis(leaf, picked, leaf.ndim - 1)), columns)
        return (made, aux[0]) if has_aux else made

    return jacobian_of


def scalar_like(x: Any) -> Any:
    """Plain arrays without axes as NumPy scalars."""
    return tree.map(lambda a: a[()] if isinstance(a, np.ndarray) and a.ndim == 0 else a, x)


@typed_as(jacrev)
def jacobian(
    f: Callable[..., Any],
    argnums: Numbers = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    rewrite: bool = True,
) -> Callable[..., Tree]:
    """The Jacobian, by reverse mode: another name of `jacrev`.

    Arguments are those of `jacrev`. With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: as `jacrev`.
    Raises: as `jacrev` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.jacobian(lambda x: x[::-1] * 2.0)(np.array([1.0, 2.0])).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    check_differentiated(f, argnums, "jacobian")
    return jacrev(f, argnums, has_aux=has_aux, holomorphic=holomorphic, rewrite=rewrite)


@typed_as(jacrev)
def hessian(
    f: Callable[..., Any],
    argnums: Numbers = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    rewrite: bool = True,
) -> Callable[..., Tree]:
    """The matrix of second derivatives: forward mode over reverse mode.

    Arguments are those of `jacrev`. With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: f returns a real floating scalar (complex if `holomorphic`); for an argument of shape s, an array of shape
    s + s and its dtype.
    Raises: as `jacrev` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    check_differentiated(f, argnums, "hessian")
    rows = jacrev(f, argnums, has_aux=has_aux, holomorphic=holomorphic, rewrite=rewrite)
    return jacfwd(rows, argnums, has_aux=has_aux, holomorphic=holomorphic)

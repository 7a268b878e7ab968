"""Parts of Jacobians and Hessians without the whole matrix: a product with a vector, and a diagonal."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from wholestep.boundary.public import boundary
from wholestep.frontend.array import Array
from wholestep.frontend.derivatives import jvp
from wholestep.frontend.entered import check_differentiated
from wholestep.frontend.gradients import grad
from wholestep.frontend.source.entrance import as_asked, ordinary
from wholestep.ir.graph import NDArray
from wholestep.tree import Tree

T = TypeVar("T")
P = ParamSpec("P")


@overload
def hvp(f: Callable[..., Any], primals: tuple[T], tangents: Sequence[Any], *, rewrite: bool = ...) -> T: ...
@overload
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, rewrite: bool = ...) -> Tree: ...
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, rewrite: bool = True) -> Tree:
    """The Hessian of a scalar function f times a vector, at the cost of two gradients.

    With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: `primals` and `tangents` as in `jvp`; the result like the primals: one tree for one argument, a tuple for
    several.
    Raises: as `jvp` and `grad` do.
    Source: Pearlmutter, "Fast exact multiplication by the Hessian", 1994.

    >>> import numpy as np, wholestep as ws
    >>> ws.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),)).tolist()
    [6.0, 0.0]
    """
    argnums: Any = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(f, argnums, rewrite=rewrite), primals, tangents)[1]


@overload
def elementwise_grad(f: np.ufunc, argnums: int = ..., *, rewrite: bool = ...) -> Callable[..., NDArray]: ...
@overload
def elementwise_grad(f: Callable[P, Any], argnums: int = ..., *, rewrite: bool = ...) -> Callable[P, NDArray]: ...
def elementwise_grad(f: Callable[..., Any], argnums: int = 0, *, rewrite: bool = True) -> Callable[..., NDArray]:
    """The derivative of an elementwise function, element by element: the gradient of the sum of its results.

    The result is called as f is; the argument number `argnums` is the one that `f` is differentiated with respect to.
    With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: the argument and the result floating or complex arrays of one shape, which the derivative has too.
    Raises: as `grad` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.elementwise_grad(np.exp)(np.array([0.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    check_differentiated(f, argnums, "elementwise_grad")
    f = as_asked(f, rewrite)

    @boundary
    @functools.wraps(f)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        def total(*own: Any) -> Any:
            out = ordinary(f)(*own, **kwargs)
            return out.sum() if isinstance(out, Array | np.ndarray) and out.ndim else out

        return grad(total, argnums)(*args)

    return derivative

"""Functions that return their pullback beside their value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from wholestep import tree
from wholestep.errors import TreeError
from wholestep.frontend.custom import custom_vjp
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.stated_rules import name_of
from wholestep.frontend.tracing import Traced, as_array, trace_flat
from wholestep.ir.build import current, inline
from wholestep.ir.graph import Value

P = ParamSpec("P")
R = TypeVar("R")


def custom_gradient(f: Callable[P, tuple[R, Callable[..., Any]]]) -> Callable[P, R]:
    """The function of the first item of f's result, whose reverse-mode derivative is the second.

    f returns `(out, pullback)`. `pullback(cotangent)` takes a tree like `out` and returns one cotangent for each
    argument, or None, in a tuple where there are several; it may read all local values of f. `ws.custom_vjp` is the
    same in two functions. Forward mode is the transpose of the pullback. Works under every transform.

    Shapes: those of the first item; cotangents have the shapes and dtypes of their arguments.
    Raises: TreeError where f returns no such pair, TreeError, ShapeError or DtypeError for cotangents that do not fit.

    >>> import numpy as np, wholestep as ws
    >>> @ws.custom_gradient
    ... def clipped(x):
    ...     return x**2, lambda g: np.clip(g * 2 * x, -1.0, 1.0)
    >>> clipped(3.0), ws.grad(clipped)(3.0), ws.grad(clipped)(0.25)
    (9.0, np.float64(1.0), np.float64(0.5))
    """
    name = name_of(f)

    def both(args: Any, kwargs: Any) -> tuple[Any, Callable[..., Any]]:
        made = ordinary(f)(*args, **kwargs)
        if not isinstance(made, tuple) or len(made) != 2 or not callable(made[1]):
            raise TreeError(f"{name}: custom_gradient takes a function that returns (out, pullback)")
        return made

    @functools.wraps(f)
    def value(*args: Any, **kwargs: Any) -> Any:
        return both(args, kwargs)[0]

    def forward(*args: Any) -> Any:
        out, pullback = both(args, {})
        leaves, structure = tree.flatten(out)
        arrays, builder = [as_array(leaf, name) for leaf in leaves], current()
        traced = trace_flat(
            lambda *gys: ordinary(pullback)(tree.unflatten(structure, gys)),
            [a.type for a in arrays],
            [a._scalar for a in arrays],
            reason="vjp",
            name="pullback",
            evaluate=None if builder is None else builder.evaluate,
        )
        return out, (functools.partial(run_pullback, traced), traced.captured, len(args))

    def backward(kept: Any, cotangent: Any) -> Any:
        run, captured, count = kept
        found = run(tree.leaves(cotangent), captured)
        return found if count != 1 or (isinstance(found, tuple) and len(found) == 1) else (found,)

    made: custom_vjp[P, R] = custom_vjp(value)
    made.defvjp(forward, backward)
    return made


def run_pullback(traced: Traced, cotangents: Sequence[Any], captured: Sequence[Value]) -> Any:
    """The cotangents of the arguments: the pullback's program, applied to the cotangents of the results."""
    gys = [as_array(g, "custom_gradient").value for g in cotangents]
    return traced.arrays(inline(traced.graph, [*gys, *captured]))

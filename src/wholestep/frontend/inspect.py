"""Inspection of functions without running them: `trace` gives the graph, `eval_shape` the shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.frontend.argument_kinds import ENTERING, kind_of
from wholestep.frontend.array import Array
from wholestep.frontend.einops import register_backend
from wholestep.frontend.jit import jit
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import as_array, check_function
from wholestep.ir.build import GraphBuilder, building
from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify
from wholestep.tree import Tree


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Tree:
    """The shapes and dtypes of f's results, without computing anything.

    Arguments are arrays, or `ShapeDtype`s, whose sizes may be symbolic.

    Shapes: trees of arrays or `ShapeDtype`s; a tree of `ShapeDtype`s like the result of f.
    Raises: DtypeError for a result that is no array, and the exceptions of f on such shapes.

    >>> import numpy as np, wholestep as ws
    >>> B = ws.Dim("B")
    >>> ws.eval_shape(lambda x: np.concatenate([x, x]).reshape(-1), ws.ShapeDtype((B, 3)))
    f64[6*B]
    """
    leaves, structure = tree.flatten((args, kwargs))
    register_backend()
    with building(GraphBuilder(None, "eval_shape")) as builder:
        given = [
            Array(builder.input(kind_of(leaf)), not kind_of(leaf).shape and not isinstance(leaf, np.ndarray))
            if isinstance(leaf, ENTERING) and not isinstance(leaf, bool)
            else leaf
            for leaf in leaves
        ]
        own, keywords = tree.unflatten(structure, given)
        return tree.map(described, ordinary(f)(*own, **keywords))


def described(leaf: Any) -> ShapeDtype:
    t = as_array(leaf, "eval_shape").type
    return ShapeDtype(t.shape, t.dtype)


def trace(f: Callable[..., Any], *, rewrite: bool = True) -> Callable[..., Graph]:
    """A function that returns the graph of f for its arguments; print the graph to read the program.

    With `rewrite=False` the user's functions run as they stand (see language.md).

    Shapes: arrays or `ShapeDtype`s of any shapes and dtypes; a `Graph`.
    Raises: DtypeError for a result that is no array, and the exceptions of f.

    >>> import numpy as np, wholestep as ws
    >>> print(ws.trace(lambda x: np.sin(x) * 2.0)(1.0))
    def graph(x: f64):
        sin_1: f64 = sin(x)
        full_1: f64 = full(value=2.0, shape=(), dtype=f64)
        mul_1: f64 = mul(sin_1, full_1)
        return mul_1
    <BLANKLINE>
    """
    check_function(f, "trace")

    def traced(*args: Any, **kwargs: Any) -> Graph:
        graph = jit(f, rewrite=rewrite).lower(*args, **kwargs)
        verify(graph)
        return graph

    return traced

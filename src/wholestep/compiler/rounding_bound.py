"""The error bound of compiled programs: as close to float64 as NumPy is in the same dtypes, to a small factor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from wholestep import dtypes
from wholestep.backends.reference import interpret
from wholestep.compiler.double_precision import double_dtype, in_double, widest
from wholestep.ir.graph import Graph, NDArray, Node
from wholestep.lower.legalize.tiled_convolutions import convolutions_by_tiles
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.passes.rewrite import map_nested_graphs

TIMES, ROUNDINGS = 4, 8
"""An error may be so many times NumPy's, and so many units in the last place of the largest element."""

EPS = {"f64": 2.0**-52, "c128": 2.0**-52, "f32": 2.0**-23, "c64": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
"""A unit in the last place of 1, by dtype."""

ROUNDED = frozenset(
    "add sub mul div sum contract prod cumsum cumprod sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh"
    " arcsin arccos arctan sinh cosh arcsinh arccosh arctanh arctan2 hypot logaddexp logaddexp2 pow erf erfc expit"
    " log_expit logit ndtr gammaln digamma scatter_add unwindow fft".split()
)
"""Operations whose results are rounded, beside those of linear algebra: the others move numbers, or choose among
them."""


def values(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
    """The outputs that NumPy makes of a graph."""
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in interpret(graph, list(args))]


def exact_values(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
    """The outputs in float64."""
    return values(in_double(graph), widest(args))


def with_tiles(graph: Graph) -> Graph:
    """The graph with convolutions by tiles wherever programs have them, for the same rounding errors in NumPy."""

    def tiled(given: Graph) -> Graph:
        return convolutions_by_tiles(map_nested_graphs(given, tiled)).graph

    return tiled(run_passes(graph, ALL_PASSES))


def error(found: NDArray, exact: NDArray) -> float:
    """The largest difference; infinite where one is not a number and the other is."""
    a, b = (np.asarray(x).astype(double_dtype(np.asarray(x).dtype)) for x in (found, exact))
    if a.dtype.kind not in "fc":
        return float(np.count_nonzero(a != b))
    with np.errstate(all="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def rounding(x: NDArray) -> float:
    """A unit in the last place of the largest element, plus the least normal number: programs flush subnormals to 0."""
    if not dtypes.is_inexact(x.dtype):
        return 0.0
    sizes = np.abs(np.asarray(x).astype(double_dtype(x.dtype)))
    least = np.finfo(np.float64 if dtypes.real_of(x.dtype) == np.float64 else np.float32).tiny
    return EPS[dtypes.short(x.dtype)] * float(sizes[np.isfinite(sizes)].max(initial=0.0)) + float(least)


def allowance(plain: NDArray, exact: NDArray) -> float:
    """The error allowed to a compiled value, where NumPy's result is `plain`, and `exact` in float64."""
    return TIMES * error(plain, exact) + ROUNDINGS * rounding(plain)


def jittered(rng: np.random.Generator, graph: Graph, args: Iterable[NDArray]) -> list[NDArray]:
    """The outputs that NumPy makes of a graph where roundings go other ways, and sums are added up otherwise."""

    def once(inner: Graph, xs: Iterable[NDArray]) -> list[NDArray]:
        env = dict(zip(inner.inputs, xs, strict=True))
        for node in inner.nodes:
            given = [np.broadcast_to(env[v], v.shape) for v in node.inputs]
            if node.op.name == "sum" and node.inputs[0].dtype in (np.float32, np.float64) and given[0].size:
                given[0] = summed(rng, given[0], node.params["axes"])
            made = node.op.ref(*given, **({"run": once} if node.op.nested else {}), **node.params)
            for v, x in zip(node.outputs, made if node.op.multiple else (made,), strict=True):
                env[v] = nudged(rng, np.asarray(x)) if is_rounded(node) else np.asarray(x)
        return [np.asarray(np.broadcast_to(env[v], v.shape)) for v in inner.outputs]

    with np.errstate(all="ignore"):
        return once(graph, list(args))


def is_rounded(node: Node) -> bool:
    """Test whether the results of a node are rounded."""
    return node.op.name in ROUNDED or getattr(node.op, "kind", "") == "linalg"


def summed(rng: np.random.Generator, x: NDArray, axes: Sequence[int]) -> NDArray:
    """An array of the same shape whose sum is that of x, one term after another in each of some lanes, as loops add.

    There are terms to be added.
    """
    terms = np.moveaxis(x, axes, range(len(axes)))
    rest = terms.shape[len(axes) :]
    flat = terms.reshape(-1, *rest)
    lanes = int(rng.choice([4, 8, 16, 64]))
    flat = np.concatenate([flat, np.zeros((-len(flat) % lanes, *rest), x.dtype)])
    found = np.zeros_like(terms)
    each = np.add.accumulate(flat.reshape(-1, lanes, *rest))[-1]
    found[(0,) * len(axes)] = np.add.accumulate(each)[-1]
    return np.moveaxis(found, range(len(axes)), axes)


def nudged(rng: np.random.Generator, x: NDArray) -> NDArray:
    """Numbers off by a rounding error."""
    if not dtypes.is_inexact(x.dtype):
        return x
    return (x * (1 + EPS[dtypes.short(x.dtype)] * rng.choice([-1.0, 0.0, 1.0], x.shape))).astype(x.dtype)

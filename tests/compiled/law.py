"""The law of compiled programs: as close to float64 as NumPy is in the same dtypes, to a small factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
from tests.compiled.double import doubled, wide, widest

from wholestep import config, dtypes
from wholestep.backends.reference import interpret
from wholestep.compiler import driver as program
from wholestep.compiler.artifact_entry import unpack_artifact
from wholestep.compiler.compilation_unit import CompilationUnit
from wholestep.compiler.driver import CompiledProgram, compile_entry
from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify
from wholestep.lower.buffers import assign
from wholestep.passes.reroll.emit import stacked_places
from wholestep.passes.reroll.reroll import Rerolled, reroll
from wholestep.passes.reroll.scan_accumulators import scan_accumulators
from wholestep.primitives.linalg import MatrixFunction
from wholestep.testing.arrays import EPS

TIMES, ROUNDINGS = 4, 8
"""An error may be so many times NumPy's, and so many units in the last place of the largest element."""
NEAR = 200
"""How often NumPy's error is looked at, with roundings that go other ways, before a program is found to be off: a
number that is rounded to float16 in between may go the other way in a few of them only."""


@contextmanager
def watched() -> Iterator[None]:
    """With what WHOLESTEP_CHECK=1 verifies of plans; the passes, which it tries on numbers that may lie at kinks, have
    laws of their own."""
    asked = SimpleNamespace(check=lambda: True, debug=config.debug)
    assign.config = program.config = asked  # type: ignore[attr-defined]
    try:
        yield
    finally:
        assign.config = program.config = config  # type: ignore[attr-defined]


def compiled(graph: Graph, resident: Sequence[tuple[int, int]] = ()) -> CompiledProgram:
    """The program of a graph, made anew and checked."""
    with watched():
        unit = CompilationUnit(graph, tuple(resident))
        return CompiledProgram(unit, unpack_artifact(unit, compile_entry(unit)))


def rolled_up(graph: Graph, kept: int, roll: str) -> Rerolled:
    """A graph with equal layers as loops, as `ws.compile` has it; the first inputs are the state, and may be joined."""
    if roll == "never":
        return Rerolled(graph)
    found = reroll(graph, lambda places: roll != "apart" and max(places) < kept, always=roll != "auto")
    found = found._replace(graph=scan_accumulators(found.graph))
    verify(found.graph)
    return found


def outputs(
    graph: Graph, args: Sequence[np.ndarray], resident: Sequence[tuple[int, int]] = (), roll: str = "never"
) -> list[np.ndarray]:
    """All outputs of one call of the program of a graph, on state that it replaces."""
    found = rolled_up(graph, len(resident), roll)
    joined = stacked_places(len(graph.inputs), found.groups)
    given = [np.stack([args[p] for p in ps]) if ps in found.groups else np.asarray(args[ps[0]]) for ps in joined]
    kept = len([ps for ps in joined if ps[0] < len(resident)])
    program = compiled(found.graph, [(i, i) for i in range(kept)])
    state = [x.copy() for x in given[:kept]]
    results = [*state, *(program.instance(state) if kept else program)(given[kept:])]
    out: dict[int, np.ndarray] = {}
    for places, x in zip(stacked_places(len(graph.outputs), found.groups), results, strict=True):
        out.update({p: np.array(x[k] if places in found.groups else x) for k, p in enumerate(places)})
    return [out[i] for i in range(len(graph.outputs))]


def values(graph: Graph, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What NumPy makes of a graph."""
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in interpret(graph, list(args))]


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest difference; infinite where one is not a number and the other is."""
    a, b = (np.asarray(x).astype(wide(np.asarray(x).dtype)) for x in (found, exact))
    if a.dtype.kind not in "fc":
        return float(np.count_nonzero(a != b))
    with np.errstate(all="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def rounding(x: np.ndarray) -> float:
    """A unit in the last place of the largest element; programs flush what is smaller than the normal numbers."""
    if not dtypes.is_inexact(x.dtype):
        return 0.0
    sizes = np.abs(np.asarray(x).astype(wide(x.dtype)))
    least = np.finfo(np.float64 if dtypes.real_of(x.dtype) == np.float64 else np.float32).tiny
    return EPS[dtypes.short(x.dtype)] * float(sizes[np.isfinite(sizes)].max(initial=0.0)) + float(least)


def problems(graph: Graph, args: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> list[tuple[int, float, float]]:
    """The outputs that are off, with their errors and what was allowed."""
    exact = values(doubled(graph), widest(args))
    plain = values(graph, args)
    out = []
    for i, (x, y, z) in enumerate(zip(found, plain, exact, strict=True)):
        assert (x.shape, x.dtype) == (y.shape, y.dtype), f"output {i} is {x.dtype} {x.shape}, not {y.dtype} {y.shape}"
        allowed = TIMES * error(y, z) + ROUNDINGS * rounding(y)
        if not error(x, z) <= allowed:
            out.append((i, error(x, z), allowed))
    return out


ROUNDED = frozenset(
    "add sub mul div sum contract prod cumsum cumprod sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh"
    " arcsin arccos arctan sinh cosh arcsinh arccosh arctanh arctan2 hypot logaddexp logaddexp2 pow erf erfc expit"
    " log_expit logit ndtr gammaln digamma scatter_add unwindow fft".split()
)
"""Operations whose results are rounded: the others move numbers, or choose among them."""


def jittered(rng: np.random.Generator, graph: Graph, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What NumPy makes of a graph if each rounding may go the other way, and each sum is added up in another order."""

    def once(inner: Graph, xs: Sequence[np.ndarray]) -> list[np.ndarray]:
        env = dict(zip(inner.inputs, xs, strict=True))
        for node in inner.nodes:
            given = [np.broadcast_to(env[v], v.shape) for v in node.inputs]
            if node.op.name == "sum" and node.inputs[0].dtype in (np.float32, np.float64) and given[0].size:
                given[0] = summed(rng, given[0], node.params["axes"])
            made = node.op.ref(*given, **({"run": once} if node.op.nested else {}), **node.params)
            for v, x in zip(node.outputs, made if node.op.multiple else (made,), strict=True):
                env[v] = np.asarray(x)
                if node.op.name in ROUNDED or isinstance(node.op, MatrixFunction):
                    env[v] = nudged(rng, env[v])
        return [np.asarray(np.broadcast_to(env[v], v.shape)) for v in inner.outputs]

    with np.errstate(all="ignore"):
        return once(graph, list(args))


def summed(rng: np.random.Generator, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
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


def nudged(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Numbers off by a rounding error."""
    if not dtypes.is_inexact(x.dtype):
        return x
    return (x * (1 + EPS[dtypes.short(x.dtype)] * rng.choice([-1.0, 0.0, 1.0], x.shape))).astype(x.dtype)


def unexplained(graph: Graph, args: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> list[str]:
    """Outputs that are off by more than what NumPy may be off where its roundings go other ways."""
    off = problems(graph, args, found)
    if not off:
        return []
    rng = np.random.default_rng(0)
    worst = {i: allowed for i, _, allowed in off}
    exact = values(doubled(graph), widest(args))
    for _ in range(NEAR):
        if all(e <= worst[i] for i, e, _ in off):
            return []
        here = jittered(rng, graph, args)
        for i in worst:
            worst[i] = max(worst[i], TIMES * error(here[i], exact[i]) + ROUNDINGS * rounding(here[i]))
    return [f"output {i} is off by {e:.3g}, allowed {worst[i]:.3g}" for i, e, _ in off if not e <= worst[i]]

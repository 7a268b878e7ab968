"""The law of compiled programs: as close to float64 as NumPy is in the same dtypes, to a small factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from wholestep import config
from wholestep.compiler import driver as program
from wholestep.compiler.backends import default_backend
from wholestep.compiler.driver import CompiledProgram, compile_entry
from wholestep.compiler.rounding_bound import allowance, error, exact_values, jittered, values
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.verify import verify
from wholestep.lower.buffers import assign
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.passes.reroll.emit import stacked_places
from wholestep.passes.reroll.reroll import Rerolled, reroll
from wholestep.passes.reroll.scan_accumulators import scan_accumulators

NEAR = 200
"""The number of times that NumPy's error is measured, with other roundings, before a program is found to be off: a
number that is rounded to float16 in between may go the other way in a few of them only."""


@contextmanager
def watched() -> Iterator[None]:
    """With the checks of plans of WHOLESTEP_CHECK=1; its checks of passes use inputs that may be at kinks, and have
    tests of their own."""
    asked = SimpleNamespace(check=lambda: True, debug=config.debug)
    assign.config = program.config = asked  # type: ignore[assignment, attr-defined]
    try:
        yield
    finally:
        assign.config = program.config = config  # type: ignore[attr-defined]


def compiled(graph: Graph, resident: Sequence[tuple[int, int]] = ()) -> CompiledProgram:
    """The program of a graph, made anew and checked."""
    with watched():
        unit, backend = CompilationUnit(graph, tuple(resident)), default_backend()
        return CompiledProgram(unit, backend, backend.load(unit, compile_entry(unit, backend)))


def rolled_up(graph: Graph, kept: int, roll: str) -> Rerolled:
    """A graph with equal layers as loops, as `ws.compile` has it; the first inputs are the state, and may be joined."""
    if roll == "never":
        return Rerolled(graph)
    found = reroll(graph, lambda places: roll != "apart" and max(places) < kept, always=roll != "auto")
    found = found._replace(graph=scan_accumulators(found.graph))
    verify(found.graph)
    return found


def outputs(
    graph: Graph, args: Sequence[NDArray], resident: Sequence[tuple[int, int]] = (), roll: str = "never"
) -> list[NDArray]:
    """All outputs of one call of the program of a graph, on state that it replaces."""
    found = rolled_up(graph, len(resident), roll)
    joined = stacked_places(len(graph.inputs), found.groups)
    given = [np.stack([args[p] for p in ps]) if ps in found.groups else np.asarray(args[ps[0]]) for ps in joined]
    kept = len([ps for ps in joined if ps[0] < len(resident)])
    program = compiled(found.graph, [(i, i) for i in range(kept)])
    state = [x.copy() for x in given[:kept]]
    results = [*state, *(program.instance(state) if kept else program)(given[kept:])]
    out: dict[int, NDArray] = {}
    for places, x in zip(stacked_places(len(graph.outputs), found.groups), results, strict=True):
        out.update({p: np.array(x[k] if places in found.groups else x) for k, p in enumerate(places)})
    return [out[i] for i in range(len(graph.outputs))]


def problems(graph: Graph, args: Sequence[NDArray], found: Sequence[NDArray]) -> list[tuple[int, float, float]]:
    """The outputs that are off, with their errors and the allowed ones."""
    exact, plain = exact_values(graph, args), values(graph, args)
    out = []
    for i, (x, y, z) in enumerate(zip(found, plain, exact, strict=True)):
        assert (x.shape, x.dtype) == (y.shape, y.dtype), f"output {i} is {x.dtype} {x.shape}, not {y.dtype} {y.shape}"
        allowed = allowance(y, z)
        if not error(x, z) <= allowed:
            out.append((i, error(x, z), allowed))
    return out


def unexplained(graph: Graph, args: Sequence[NDArray], found: Sequence[NDArray]) -> list[str]:
    """Outputs that are off by more than the error of NumPy on inputs perturbed by rounding."""
    off = problems(graph, args, found)
    if not off:
        return []
    rng = np.random.default_rng(0)
    worst = {i: allowed for i, _, allowed in off}
    exact = exact_values(graph, args)
    for _ in range(NEAR):
        if all(e <= worst[i] for i, e, _ in off):
            return []
        here = jittered(rng, graph, args)
        for i in worst:
            worst[i] = max(worst[i], allowance(here[i], exact[i]))
    return [f"output {i} is off by {e:.3g}, allowed {worst[i]:.3g}" for i, e, _ in off if not e <= worst[i]]

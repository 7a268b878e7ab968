"""The optimizing passes in their order, with names, run until none of them changes the graph."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify
from wholestep.passes.absorb_transposes import absorb_transposes
from wholestep.passes.convolution_gradients import convolution_gradients
from wholestep.passes.convolution_phases import convolution_phases
from wholestep.passes.cse import cse
from wholestep.passes.dce import dce
from wholestep.passes.fold import fold_constants
from wholestep.passes.matrix_chain import matrix_chain
from wholestep.passes.named_pass import Pass
from wholestep.passes.one_hot_indexing import one_hot_indexing
from wholestep.passes.optional import LeftOut, collect_left_out, report_left_out
from wholestep.passes.pads_to_concat import pads_to_concat
from wholestep.passes.rewrite import map_nested_graphs
from wholestep.passes.simplify import simplify
from wholestep.passes.simplify_reductions import simplify_reductions

OPTIMIZATIONS = (
    Pass("fold", fold_constants, exact=True),
    Pass("simplify", simplify, exact=True),
    Pass("one_hot_indexing", one_hot_indexing, exact=True),
    Pass("pads_to_concat", pads_to_concat),
    Pass("simplify_reductions", simplify_reductions),
    Pass("absorb_transposes", absorb_transposes),
    Pass("convolution_gradients", convolution_gradients),
    Pass("convolution_phases", convolution_phases),
    Pass("matrix_chain", matrix_chain),
    Pass("cse", cse, exact=True),
    Pass("dce", dce, exact=True),
)
"""The optimizing passes.

An exact pass changes no bit, since each operation that it keeps has the same operands; the other passes keep results to
rounding. A sum or a product of matrices may still round differently where NumPy finds its operand in another memory
order.
"""

PASSES = {item.name: item for item in OPTIMIZATIONS}
ALL_PASSES = tuple(PASSES)
EXACT_PASSES = tuple([name for name, item in PASSES.items() if item.exact])


def run_passes(graph: Graph, names: Sequence[str] = EXACT_PASSES) -> Graph:
    """The graph after the named passes, until none changes it; nested graphs included.

    A pass that fails is skipped. The result is verified; if it is invalid, the passes run again, each one verified.
    """
    key = ("optimized", tuple(names))
    graph = map_nested_graphs(graph, lambda inner: run_nested(inner, key, names))
    found = run_to_fixpoint(graph, names)
    return found if found is graph or is_valid(found) else run_to_fixpoint(graph, names, verified=True)


def run_nested(inner: Graph, key: Hashable, names: Sequence[str]) -> Graph:
    """A nested graph after the passes, made once; its failed rewrites are reported at each use of the graph."""

    def made() -> tuple[Graph, list[LeftOut]]:
        with collect_left_out() as left:
            return run_passes(inner, names), left

    found, left = inner.derived(key, made)
    for item in left:
        report_left_out(item)
    return cast(Graph, found)


def is_valid(graph: Graph) -> bool:
    """Test whether the verifier accepts a graph."""
    try:
        verify(graph)
    except Exception:  # a type rule may raise any exception
        return False
    return True


def run_to_fixpoint(graph: Graph, names: Sequence[str], verified: bool = False) -> Graph:
    """The graph after these passes, one after the other, until a round leaves it as it is."""
    at = quiet = 0
    while quiet < len(names):
        made = PASSES[names[at % len(names)]](graph, verified=verified)
        quiet = quiet + 1 if made is graph else 1  # each is idempotent: the others must be asked again
        at += 1
        graph = made
    return graph

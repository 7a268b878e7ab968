"""The legalizing passes in their order: what kernels have no code for, or read badly, is said otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.ir.graph import Graph, Value
from wholestep.lower.legalize.channels_last import CHANNELS_LAST
from wholestep.lower.legalize.contraction_operands import CONTRACTION_OPERANDS
from wholestep.lower.legalize.expand_ops import EXPAND_OPS
from wholestep.lower.legalize.split_reductions import SPLIT_REDUCTIONS
from wholestep.passes.inline_bodies import INLINE_BODIES
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import map_nested_graphs

LEGALIZATIONS = (INLINE_BODIES, EXPAND_OPS, SPLIT_REDUCTIONS, CHANNELS_LAST, CONTRACTION_OPERANDS)


def legalize(graph: Graph) -> tuple[Graph, set[Value]]:
    """The graph after every legalizing pass, loops and branches inside it included, and the values to materialize."""
    expansions, arrangements, contractions = LEGALIZATIONS[:2], LEGALIZATIONS[2:-1], LEGALIZATIONS[-1]
    done: dict[Graph, Graph] = {}
    stored: set[Value] = set()

    def run(given: Graph) -> Graph:
        if given not in done:
            found = map_nested_graphs(apply_passes(given, expansions), run)
            found = apply_passes(found, arrangements)
            nothing: set[Value] = set()
            found, copies = contractions(found, otherwise=(found, nothing))
            stored.update(copies)
            done[given] = done[found] = found  # the walk over an outer graph meets the nodes that it has replaced again
        return done[given]

    return run(graph), stored


def apply_passes(graph: Graph, passes: Sequence[Pass]) -> Graph:
    """The graph after these passes, one after the other."""
    for item in passes:
        graph = item(graph)
    return graph

"""The legalization passes in their order: operations without a kernel, or with a slow one, become others."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.ir.graph import Graph, Value
from wholestep.lower.legalize.channels_last import CHANNELS_LAST
from wholestep.lower.legalize.contraction_operands import CONTRACTION_OPERANDS
from wholestep.lower.legalize.expand_ops import EXPAND_OPS
from wholestep.lower.legalize.loop_invariants import LOOP_INVARIANTS
from wholestep.lower.legalize.sort_scatters import SORT_SCATTERS
from wholestep.lower.legalize.split_reductions import SPLIT_REDUCTIONS
from wholestep.lower.legalize.tiled_convolutions import TILED_CONVOLUTIONS, TiledConvolutions
from wholestep.lower.target import Target
from wholestep.passes.inline_bodies import INLINE_BODIES, SHARE_COMPOSITES
from wholestep.passes.rewrite import map_nested_graphs

LEGALIZATIONS = (
    SHARE_COMPOSITES,
    INLINE_BODIES,
    SORT_SCATTERS,
    EXPAND_OPS,
    LOOP_INVARIANTS,
    SPLIT_REDUCTIONS,
    CHANNELS_LAST,
    TILED_CONVOLUTIONS,
    CONTRACTION_OPERANDS,
)


class LegalGraph(NamedTuple):
    """A legal graph, the values to materialize, and a note on each convolution if tiles were requested."""

    graph: Graph
    stored: set[Value]
    notes: tuple[str, ...]


def legalize(graph: Graph, target: Target, winograd: bool = False) -> LegalGraph:
    """The graph after every legalizing pass, loops and branches inside it included; with `winograd`, convolutions are
    computed by tiles."""
    share_composites, inline_bodies, sort_scatters, expand_ops, *others = LEGALIZATIONS
    loop_invariants, split_reductions, channels_last, tiles, contractions = others
    done: dict[Graph, Graph] = {}
    stored: set[Value] = set()
    notes: list[str] = []

    def run(given: Graph) -> Graph:
        if given not in done:
            inlined = inline_bodies(share_composites(given))
            expanded = expand_ops(sort_scatters(inlined, target.looks), target)
            found = map_nested_graphs(loop_invariants(expanded, target.panel_columns), run)
            found = channels_last(split_reductions(found, target.split))
            if winograd:
                found, said = tiles(found, otherwise=TiledConvolutions(found))
                notes.extend(said)
            nothing: set[Value] = set()
            found, copies = contractions(found, target, otherwise=(found, nothing))
            stored.update(copies)
            done[given] = done[found] = found  # the walk over an outer graph meets the nodes that it has replaced again
        return done[given]

    legal = run(graph)
    if winograd and not notes:
        notes.append("by tiles: nothing, since there is no convolution over images")
    return LegalGraph(legal, stored, tuple(dict.fromkeys(notes)))

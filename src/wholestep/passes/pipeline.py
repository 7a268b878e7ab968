"""The passes in their order, with names; run, and checked where WHOLESTEP_CHECK asks for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from wholestep import config
from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify
from wholestep.passes.cse import cse
from wholestep.passes.dce import dce
from wholestep.passes.fold import fold
from wholestep.passes.rewrite import inside
from wholestep.passes.simplify import simplify

Pass = Callable[[Graph], Graph]


class Pipeline(NamedTuple):
    """Every pass, in the order in which they run."""

    fold: Pass = fold
    simplify: Pass = simplify
    cse: Pass = cse
    dce: Pass = dce


PIPELINE = Pipeline()


def optimized(graph: Graph) -> Graph:
    """The graph after every pass, until none changes it; nested graphs included. The meaning is the same to the bit."""
    while True:
        before = graph
        graph = inside(graph, optimized)
        for name, step in zip(PIPELINE._fields, PIPELINE, strict=True):
            graph = step(graph)
            if config.check():
                verify(graph)
            if config.debug("passes"):
                print(f"# after {name}\n{graph}", file=sys.stderr)
        if graph is before:
            return graph

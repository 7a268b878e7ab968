"""The passes in their order, with names; run, and checked where WHOLESTEP_CHECK asks for it."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, cast

from wholestep import config
from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify
from wholestep.passes.chains import chains
from wholestep.passes.check import check
from wholestep.passes.convolutions import convolutions
from wholestep.passes.cse import cse
from wholestep.passes.dce import dce
from wholestep.passes.fold import fold
from wholestep.passes.indicators import indicators
from wholestep.passes.joins import joins
from wholestep.passes.optional import LeftOut, attempted, heard, say
from wholestep.passes.rewrite import inside
from wholestep.passes.simplify import simplify
from wholestep.passes.sums import sums
from wholestep.passes.transposes import transposes

Pass = Callable[[Graph], Graph]


class Pipeline(NamedTuple):
    """Every pass, in the order in which they run."""

    fold: Pass = fold
    simplify: Pass = simplify
    indicators: Pass = indicators
    joins: Pass = joins
    sums: Pass = sums
    transposes: Pass = transposes
    convolutions: Pass = convolutions
    chains: Pass = chains
    cse: Pass = cse
    dce: Pass = dce


PIPELINE = Pipeline()
ALL = PIPELINE._fields
EXACT = ("fold", "simplify", "indicators", "cse", "dce")
"""The passes that keep every bit, since each operation that stays is given the same numbers; the others keep the
meaning to rounding. A sum or a product of matrices may still round otherwise where NumPy finds its operand laid
otherwise in memory."""


def optimized(graph: Graph, names: Sequence[str] = EXACT) -> Graph:
    """The graph after the named passes, until none changes it; nested graphs included.

    A pass that fails is left out. The result is verified; where it is refused, it is made anew with each pass verified.
    WHOLESTEP_CHECK=1 runs what each pass made and what it was given, and compares; WHOLESTEP_DEBUG=passes prints what
    changed.
    """
    key = ("optimized", tuple(names))
    graph = inside(graph, lambda inner: known(inner, key, names))
    found = passed(graph, [(name, getattr(PIPELINE, name)) for name in names])
    if found is graph or sound(found):
        return found
    return passed(graph, [(name, verified(getattr(PIPELINE, name))) for name in names])


def known(inner: Graph, key: Hashable, names: Sequence[str]) -> Graph:
    """A nested graph after the passes, made once; what was left out is said wherever the graph is used."""

    def made() -> tuple[Graph, list[LeftOut]]:
        with heard() as left:
            return optimized(inner, names), left

    found, left = inner.derived(key, made)
    for item in left:
        say(item)
    return cast(Graph, found)


def sound(graph: Graph) -> bool:
    """Whether a graph keeps the rules of the language."""
    try:
        verify(graph)
    except Exception:  # a rule of a type may raise whatever it likes
        return False
    return True


def verified(change: Pass) -> Pass:
    """A pass whose result is verified: one that is refused is no result."""

    def made(graph: Graph) -> Graph:
        found = change(graph)
        verify(found)
        return found

    return made


def passed(graph: Graph, passes: Sequence[tuple[str, Pass]]) -> Graph:
    """The graph after these passes, until none changes it."""
    watched = config.check() or config.debug("passes")
    at = quiet = 0
    while quiet < len(passes):
        name, change = passes[at % len(passes)]
        made = attempted(name, change, graph, graph)
        if made is not graph and watched:
            watch(name, graph, made)
        quiet = quiet + 1 if made is graph else 1  # it is idempotent: the others must be asked again
        at += 1
        graph = made
    return graph


def watch(name: str, before: Graph, after: Graph) -> None:
    """Print and check, as the environment asks, what a pass has done."""
    if config.debug("passes"):
        lines = difflib.unified_diff(
            str(before).splitlines(), str(after).splitlines(), "before", name, n=1, lineterm=""
        )
        print("\n".join(lines), file=sys.stderr)
    if config.check():
        check(name, before, after, name in EXACT)

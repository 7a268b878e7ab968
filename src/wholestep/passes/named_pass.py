"""A named pass: a rewrite of graphs that is skipped where it fails, printed, and compared with the original graph."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from wholestep import config
from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify
from wholestep.passes.differential_check import check_rewrite
from wholestep.passes.optional import try_rewrite


def graph_in(result: Any) -> Graph:
    """The graph that a pass returned, alone or as the first of several results."""
    return result if isinstance(result, Graph) else result[0]


class Pass(NamedTuple):
    """A rewrite of graphs under a name; the docstring of `rewrite` shows a graph before and after.

    WHOLESTEP_DEBUG=passes prints the changes of a call, and WHOLESTEP_CHECK=1 runs the graphs before and after the pass
    and compares their results: to the bit where the pass is `exact`, else to rounding.
    """

    name: str
    rewrite: Callable[..., Any]
    exact: bool = False
    optional: bool = True
    """True where the program stays as it was if the rewrite fails; a pass that lowering depends on raises."""
    comparable: Callable[[Graph, Any], Graph] = lambda graph, result: graph_in(result)
    """(graph, result) -> the rewritten graph with the inputs and outputs of the one before."""

    def __call__(self, graph: Graph, *args: Any, otherwise: Any = None, verified: bool = False, **options: Any) -> Any:
        """The result of the rewrite, verified if `verified`; where it fails, `otherwise`, or else the graph."""

        def change(given: Graph) -> Any:
            result = self.rewrite(given, *args, **options)
            if verified and graph_in(result) is not given:
                verify(graph_in(result))
            return result

        if not self.optional:
            result = change(graph)
        else:
            result = try_rewrite(self.name, change, graph, graph if otherwise is None else otherwise)
        after = graph_in(result)
        if after is not graph and config.debug("passes"):
            print(text_diff(self.name, graph, after), file=sys.stderr)
        if after is not graph and config.check():
            check_rewrite(self.name, graph, self.comparable(graph, result), self.exact)
        return result


def text_diff(name: str, before: Graph, after: Graph) -> str:
    """The lines that a pass changed in the text of a graph."""
    lines = str(before).splitlines(), str(after).splitlines()
    return "\n".join(importlib.import_module("difflib").unified_diff(*lines, "before", name, n=1, lineterm=""))

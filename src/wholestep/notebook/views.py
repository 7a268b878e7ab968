"""Views of programs and models in a notebook."""

from __future__ import annotations

from typing import Any

from wholestep.ir.graph import Graph
from wholestep.nn.module import Module
from wholestep.nn.summaries import summary
from wholestep.words import preformatted


def of_graph(graph: Graph) -> str:
    """A program as its text, which is Python that parses back."""
    return preformatted(str(graph))


def of_module(module: Module) -> str:
    """A model as the table of its parts."""
    return summary(module)._repr_html_()


VIEWS: tuple[tuple[type[Any], Any], ...] = ((Graph, of_graph), (Module, of_module))
"""Each class that has a view, and the view; subclasses have it too."""

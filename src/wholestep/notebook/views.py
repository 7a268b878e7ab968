"""How programs, steps and models look in a notebook."""

from __future__ import annotations

import html
from typing import Any

from wholestep.ir.graph import Graph
from wholestep.nn.module import Module
from wholestep.nn.overview import summary
from wholestep.train.step import Step


def preformatted(text: str) -> str:
    """Text as it is."""
    return f"<pre>{html.escape(text)}</pre>"


def of_graph(graph: Graph) -> str:
    """A program as its text, which is Python that parses back."""
    return preformatted(str(graph))


def of_step(step: Step) -> str:
    """What a compiled step holds and costs, with the program folded away."""
    program = f"<details><summary>program</summary>{of_graph(step.graph)}</details>"
    return preformatted(step.explain()) + program


def of_module(module: Module) -> str:
    """A model as the table of its parts."""
    return summary(module)._repr_html_()


VIEWS: tuple[tuple[type[Any], Any], ...] = ((Graph, of_graph), (Step, of_step), (Module, of_module))
"""Each class that has a view, and the view; subclasses have it too."""

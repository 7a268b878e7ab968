"""Printed sources as functions of this process: the text is that of a file, and its arrays are passed as objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wholestep.export.python.files import called_names, imports_text, support_text
from wholestep.export.python.printer import printed_functions
from wholestep.export.python.vocabulary import PythonTarget
from wholestep.ir.graph import Graph, NDArray

PROGRAM = "program"


def python_function(graph: Graph, target: PythonTarget) -> Callable[..., tuple[Any, ...]]:
    """A graph as a function of a library's arrays, which returns a tuple; made once for a graph and a library.

    Raises UnsupportedError for operations that the library has no words for.
    """
    made: Callable[..., tuple[Any, ...]] = graph.derived(("python", target.name), lambda: executed(graph, target))
    return made


def executed(graph: Graph, target: PythonTarget) -> Callable[..., tuple[Any, ...]]:
    """The function that a printed graph defines; the only user input in it is numbers and quoted strings."""
    source, constants = function_source(graph, target)
    return defined_function(source, constants, f"{graph.name} for {target.title}")


def defined_function(source: str, constants: Sequence[NDArray], title: str) -> Callable[..., tuple[Any, ...]]:
    """The function that the text of a graph defines; tracebacks name the text by its title."""
    names: dict[str, Any] = {"CONSTANTS": constants}
    exec(compile(source, f"<{title}>", "exec"), names)
    found: Callable[..., tuple[Any, ...]] = names[PROGRAM]
    return found


def function_source(graph: Graph, target: PythonTarget) -> tuple[str, Sequence[NDArray]]:
    """The text of a graph, and the arrays that it holds."""
    functions, constants = printed_functions(target, [(PROGRAM, graph, ())])
    support = support_text(target.support, called_names(functions))
    head = imports_text(target, f"{support}{functions}", setup=False)
    return "\n\n\n".join([head, support, functions]), constants

"""Traced functions as exported programs: inputs and outputs named by the paths that a user would write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wholestep import tree
from wholestep.errors import UnsupportedError
from wholestep.export.program import ExportedProgram
from wholestep.frontend import outside
from wholestep.frontend.argument_kinds import enters
from wholestep.frontend.jit import jit
from wholestep.frontend.printing import Printed
from wholestep.frontend.traced_function import TracedFunction
from wholestep.frontend.tracing import parameter_names
from wholestep.ir.build import lean
from wholestep.ir.graph import Graph

OUTPUT = "output"
"""The name of the result of a function, from which the paths into it begin."""


def export_function(
    f: Callable[..., Any] | jit[..., Any], examples: Sequence[Any]
) -> tuple[ExportedProgram, TracedFunction]:
    """A function as a program for arguments like these; raises UnsupportedError inside of another trace."""
    own = f if isinstance(f, jit) else jit(f)
    names = parameter_names(own.f, len(examples))
    args = [outside.taken_over(x, name, own.name, False) for x, name in zip(examples, names, strict=True)]
    function, _ = own.prepare(tuple(args), {})
    if function.outer:
        raise UnsupportedError(f"export: {own.name} closes over arrays of a surrounding trace")
    function.check(own.name)
    function = without_prints(function)
    inputs = [
        path
        for arg, name in zip(args, names, strict=True)
        for path, leaf in zip(tree.paths(arg, name), tree.leaves(arg), strict=True)
        if enters(leaf)
    ]
    outputs = result_paths(function)
    program = ExportedProgram(own.name, function.graph, tuple(inputs), tuple(outputs), winograd=function.winograd)
    return program, function


def without_prints(function: TracedFunction) -> TracedFunction:
    """A function whose program returns its result alone; values of `ws.print` are printed in this process only."""
    shape = tree.unflatten(function.structure, range(len(function.scalars)))
    if not isinstance(shape, Printed):
        return function
    graph, (made, _) = function.graph, shape
    places = tree.leaves(made)
    outputs = tuple([graph.outputs[i] for i in places])
    alone = Graph(graph.inputs, lean(graph.nodes, outputs), outputs, graph.name, graph.input_names)
    return function._replace(graph=alone, structure=tree.structure(made), scalars=[function.scalars[i] for i in places])


def result_paths(function: TracedFunction, root: str = OUTPUT) -> list[str]:
    """The paths of the arrays that a traced function returns."""
    return tree.paths(tree.unflatten(function.structure, range(len(function.scalars))), root)

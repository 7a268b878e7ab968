"""A traced step: the graph and the function that tracing and rewriting hand to the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wholestep import tree
from wholestep.compiler.devices import is_lowered
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.frontend.jit import identifier, jit, numbered
from wholestep.frontend.traced_function import TracedFunction
from wholestep.ir.graph import Graph
from wholestep.ir.sizes import named_sizes
from wholestep.passes.optional import collect_left_out
from wholestep.passes.reroll.emit import stacked_places
from wholestep.passes.reroll.reroll import REROLL, Rerolled
from wholestep.passes.reroll.scan_accumulators import SCAN_ACCUMULATORS
from wholestep.passes.sparse_rows.sparse_rows import SPARSE_ROWS, RowUpdates
from wholestep.train.program.step_function import StepFunction


class TracedStep(NamedTuple):
    """A function of the state as a graph whose first inputs are the state's arrays."""

    function: TracedFunction
    graph: Graph
    """The graph that is compiled, with the user's names for its inputs."""
    sizes: tuple[str, ...]
    """The symbolic sizes in its shapes."""
    groups: tuple[tuple[int, ...], ...] = ()
    """The arrays of the state that rerolling stacks into one input, by their places in the state."""
    notes: tuple[str, ...] = ()
    """Descriptions of attention by blocks, of the loops that rerolling made, and of rewrites that were left out."""
    tables: tuple[str, ...] = ()
    """A line for each large table of a gather: the rows that are updated, with the reason."""

    def resident(self, arrays: int) -> list[tuple[int, int]]:
        """The pairs of inputs and outputs that are the state, which consists of so many arrays before stacking."""
        return [(i, i) for i in range(arrays - sum([len(places) - 1 for places in self.groups]))]


def trace_step(f: jit[..., Any], args: Sequence[Any], name: str, roots: Sequence[str]) -> TracedStep:
    """Trace a function of these arguments, whose leaves are named by path from `roots`."""
    names = numbered([identifier(p) for arg, root in zip(args, roots, strict=True) for p in tree.paths(arg, root)])
    function, _ = f.prepare(tuple(args), {}, names)
    graph = with_input_names(function.graph, names, name if name.isidentifier() else "step")
    return TracedStep(function, graph, named_sizes(graph), notes=function.notes)


def with_input_names(graph: Graph, names: Sequence[str], name: str) -> Graph:
    """The graph under another name, with these names for its inputs; repeated ones are numbered."""
    return Graph(graph.inputs, graph.nodes, graph.outputs, name, tuple(numbered(names)))


def check_roll(roll: object, stream: object = None) -> None:
    """Raise ParameterError for an unknown choice, UnsupportedError for one that does not work with `stream`."""
    if not isinstance(roll, bool) and roll != "auto":
        raise ParameterError(f"compile: roll is {roll!r}; it is True, False or 'auto'")
    if roll is True and stream is not None:
        raise UnsupportedError(
            "compile: roll=True joins arrays of the state, and with stream= some of them lie in files of their own",
            hint="leave roll= out, and write the layers as an nn.Stack or a ws.scan over stacked parameters",
        )


def update_rows(graph: Graph, step_function: StepFunction, interpreted: bool) -> RowUpdates:
    """The step with updates of only the gathered rows of tables, as far as its options allow.

    The graph is unchanged for the interpreter, with state in files, which kernels write in order, and with derivatives
    through the steps.
    """
    unchanged = RowUpdates(graph)
    if interpreted or step_function.stream is not None or step_function.unroll == "through":
        return unchanged
    found: RowUpdates = SPARSE_ROWS(graph, otherwise=unchanged, verified=True)
    return found


def rewrite_step(
    traced: TracedStep, step_function: StepFunction, may_stack: Callable[[tuple[int, ...]], bool], device: str
) -> TracedStep:
    """The step with sparse updates and isomorphic layers rerolled into loops, as far as its options and device allow.

    Without `roll=True`, no layers are rerolled for the interpreter, which is the reference of comparisons, and for
    array libraries; under a budget, since rematerialization acts on single values, which a loop would stack; with
    symbolic sizes, which would not be the first axis of stacked values; and with `stream`, since arrays in separate
    files are not stacked.
    """
    roll, graph = step_function.roll, traced.graph
    if roll is True and traced.sizes:
        raise UnsupportedError(
            "compile: roll=True keeps what layers leave one behind the other, and the batch has symbolic sizes",
            hint="write the layers as an nn.Stack or a ws.scan over stacked parameters, or give numbers for the sizes",
        )
    interpreted = not is_lowered(device)
    apart = interpreted or step_function.budget is not None or step_function.stream is not None or traced.sizes
    with collect_left_out() as left:
        rows = update_rows(graph, step_function, interpreted)
        found = Rerolled(rows.graph)
        if roll is True or (roll == "auto" and not apart):
            found = REROLL(
                rows.graph,
                lambda places: rows.written.isdisjoint(places) and may_stack(places),
                otherwise=found,
                verified=True,
                always=roll is True,
            )
        if not interpreted:
            found = found._replace(graph=SCAN_ACCUMULATORS(found.graph, verified=True))
    if found.notes:
        places = stacked_places(len(graph.inputs), found.groups)
        names = [common_name([graph.input_names[p] for p in ps]) for ps in places]
        found = found._replace(graph=with_input_names(found.graph, names, graph.name))
    notes = (*traced.notes, *found.notes, *map(str, left))
    return traced._replace(graph=found.graph, groups=tuple(found.groups), notes=notes, tables=rows.notes)


def common_name(names: Sequence[str]) -> str:
    """The name of several inputs stacked into one: the words that their names share, without differing numbers."""
    if len(names) == 1:
        return names[0]
    tokens = zip(*[name.split("_") for name in names], strict=False)
    return "_".join([t[0] if len(set(t)) == 1 else t[0].rstrip("0123456789") or "all" for t in tokens])

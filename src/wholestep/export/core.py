"""Export core: a graph rewritten in the operations of a target, or one error that lists all unsupported ones.

bodies in the place of their calls, marks dropped -> exact passes -> for each operation the target's own word,
else a rule in graph words, else it is missing; loops and branches are gone into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from wholestep.dims import SymbolicError
from wholestep.errors import UnsupportedError, Where, show
from wholestep.export.targets import TARGETS, named_object
from wholestep.ir.build import blame, build
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.passes.inline_bodies import BODY_OPS, inline_bodies
from wholestep.passes.pipeline import EXACT_PASSES, run_passes
from wholestep.passes.rewrite import copy_node, map_nested_graphs, map_params

Rule = Callable[..., Value | Sequence[Value] | None]
"""(operands, **params) -> the results in other operations; None where the rule does not hold for these operands."""

MARKS = frozenset(("stop_gradient", "identity", "capture", "pin"))
"""Operations whose result is their operand."""
PARTS = ("real", "imag")
"""Operations that take a complex number apart, in the order of the operands of `make_complex`."""
CONVOLVING = (*EXACT_PASSES, "absorb_transposes", "convolution_gradients")
"""The passes before words are looked up, for a target that has convolutions."""
CLEANING = ("fold", "cse", "dce")
"""The passes after rules: they add no operations except constants."""
SHOWN = 12
"""Missing operations that a message lists."""


class Vocabulary(Protocol):
    """The words of a target."""

    @property
    def name(self) -> str:
        """The name of the target."""

    @property
    def convolves(self) -> bool:
        """True if products with windows are convolutions there, so that sums of windows become such products."""

    def has(self, node: Node) -> bool:
        """True if the target computes this operation, with these parameters and dtypes, itself."""

    def rule(self, node: Node) -> Rule | None:
        """The rule that replaces an operation which the target has no word for."""

    def outlines(self, node: Node) -> bool:
        """True if the operations that a rule puts in the place of one stay together, as the body of a `composite`."""


def export_core(graph: Graph, target: Vocabulary, differentiated: bool = False) -> Graph:
    """The graph in the words of a target.

        y = log1p(x)                                    where the target has log, and not log1p
        -->
        u = add(1, x); …; y = select(equal(u, 1), x, …)

    `differentiated` says that the target may differentiate the graph: what stops gradients stays, if it has a word.
    Raises UnsupportedError for all operations at once that it has neither a word nor a rule for.
    """
    legalizer = Legalizer(target, differentiated)
    with symbolic_sizes_refused(target.name, graph.name):
        made = legalizer.graph(run_passes(inline_everywhere(graph), CONVOLVING if target.convolves else EXACT_PASSES))
        if legalizer.missing:
            raise missing_words(target.name, legalizer.missing)
        return run_passes(made, CLEANING)


@contextmanager
def symbolic_sizes_refused(target: str, what: str, where: Where = None) -> Iterator[None]:
    """Raise UnsupportedError where something asks for the number of a size that is symbolic."""
    try:
        yield
    except SymbolicError as error:
        raise UnsupportedError(
            f"export to {target}: {what} needs a size as a number: {error}",
            hint="give examples, or a batch, whose sizes are numbers",
            where=where,
        ) from None


def inline_everywhere(graph: Graph) -> Graph:
    """The graph with all bodies inlined, also in loops and branches."""
    return map_nested_graphs(inline_bodies(graph), inline_everywhere)


class Legalizer:
    """The walk that replaces operations by rules; `missing` collects the operations without a rule."""

    def __init__(self, target: Vocabulary, differentiated: bool = False) -> None:
        self.target, self.differentiated = target, differentiated
        self.missing: list[Node] = []
        self.done: dict[Graph, Graph] = {}
        self.outlined: dict[Any, Graph] = {}
        """Graphs that replace operations by calls, by operation, types and parameters."""

    def graph(self, graph: Graph) -> Graph:
        """The graph and its nested graphs in the target's operations; each is rewritten once."""
        found = self.done.get(graph)
        if found is None:
            nodes: list[Node] = []
            outputs = self.run(graph, {}, nodes, whole=True)
            found = Graph(graph.inputs, tuple(nodes), tuple(outputs), graph.name, graph.input_names)
            self.done[graph] = found
        return found

    def run(self, graph: Graph, env: dict[Value, Value], nodes: list[Node], whole: bool = False) -> list[Value]:
        """Append the nodes of a graph whose inputs `env` replaces; the values of its outputs.

        The nodes of a body are copied, since it may be called twice; those of a whole graph may stay.
        """
        for node in graph.nodes:
            inputs = tuple([env.get(v, v) for v in node.inputs])
            stops = self.differentiated and node.op.name == "stop_gradient" and self.target.has(node)
            same = None if stops else same_value(node, inputs)
            if same is not None:
                env[node.outputs[0]] = same
                continue
            body = node.params["graph"] if node.op.name in BODY_OPS else self.replacement(node)
            if body is not None and self.target.outlines(node):
                nodes.append(call_of(self.outline(node, body), inputs, node))
                env.update(zip(node.outputs, nodes[-1].outputs, strict=True))
                continue
            if body is not None:
                found = self.run(body, dict(zip(body.inputs, inputs, strict=True)), nodes)
                env.update(zip(node.outputs, found, strict=True))
                continue
            params = map_params(node, self.graph)
            if whole and inputs == node.inputs and params is node.params:
                nodes.append(node)
            else:
                nodes.append(copy_node(node, inputs, params))
                env.update(zip(node.outputs, nodes[-1].outputs, strict=True))
        return [env.get(v, v) for v in graph.outputs]

    def outline(self, node: Node, body: Graph) -> Graph:
        """The graph that replaces an operation, in the target's operations: one graph for equal operations."""
        key = (node.op.name, node.types, repr(sorted(node.params.items())))
        if key not in self.outlined:
            self.outlined[key] = run_passes(self.graph(body), CLEANING)
        return self.outlined[key]

    def replacement(self, node: Node) -> Graph | None:
        """The graph that replaces an operation; None if the target has the operation, or if no rule holds for it."""
        if self.target.has(node):
            return None
        found = replaced_by(node, self.target.rule(node))
        if found is None:
            self.missing.append(node)
        return found


def same_value(node: Node, inputs: Sequence[Value]) -> Value | None:
    """The operand that an operation returns unchanged: that of a mark, or a part of a complex number made of parts."""
    if node.op.name in MARKS:
        return inputs[0]
    made = inputs[0].node if node.op.name in PARTS else None
    return made.inputs[PARTS.index(node.op.name)] if made is not None and made.op.name == "make_complex" else None


def call_of(graph: Graph, inputs: tuple[Value, ...], like: Node) -> Node:
    """A call of a graph in the place of an operation."""
    node = Node(OPS["composite"], inputs, {"graph": graph, "label": like.op.name, "rule": None}, like.where)
    node.outputs = tuple([Value(t, node, None) for t in graph.out_types])
    return node


def replaced_by(node: Node, rule: Rule | None) -> Graph | None:
    """The graph by which a rule replaces an operation; None without a rule, or if the rule does not hold."""
    if rule is None:
        return None
    stays = False

    def write(*xs: Value) -> Sequence[Value]:
        nonlocal stays
        blame(node.where)
        made = rule(*xs, **node.params)
        stays = made is None
        return [] if made is None else [made] if isinstance(made, Value) else list(made)

    graph, _ = build(write, node.types, name=node.op.name)
    return None if stays else graph


def missing_words(target: str, missing: Sequence[Node]) -> UnsupportedError:
    """The error for operations without words: each kind once, with its types and the line that asks for it."""
    first: dict[tuple[Any, ...], Node] = {}
    for node in missing:
        first.setdefault((node.op.name, *[v.type for v in node.inputs]), node)
    names = dict.fromkeys([node.op.name for node in first.values()])
    lines = [operation_line(node) for node in first.values()]
    count = f"{len(names)} operation{'s have' if len(names) > 1 else ' has'} no words there"
    more = [f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    others = which_have(target, list(first.values()))
    said = "\n".join([f"export to {target}: {count}", *lines[:SHOWN], *more])
    hint = f"all of them are in {others}" if others else "step.save writes the state alone; the step itself runs here"
    where: Where = next((node.where for node in first.values() if node.where is not None), None)
    return UnsupportedError(said, where=where, hint=hint)


def operation_line(node: Node) -> str:
    """An operation on one line: its name, the types of its operands, and the user's line."""
    place = show(node.where)
    types = ", ".join([str(v.type) for v in node.inputs])
    return f"  {node.op.name}({types})" + (f" at {place}" if place else "")


def which_have(target: str, nodes: Sequence[Node]) -> str:
    """The other targets that have words, or rules, for all of these operations."""
    others = {name: named_object(row.vocabulary) for name, row in TARGETS.items() if name != target}
    found = [name for name, words in others.items() if all([reaches(words, node) for node in nodes])]
    return ", ".join(found)


def reaches(words: Vocabulary, node: Node) -> bool:
    """True if a target has a word for an operation, or a rule that ends in its words."""
    legalizer = Legalizer(words)
    legalizer.run(Graph(node.inputs, (node,), node.outputs), {}, [])
    return not legalizer.missing

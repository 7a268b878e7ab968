"""The printer of Python sources: one walk over a graph, in the words of an array library.

Names are v0, v1, … for values, x0, x1, … for inputs, n0, n1, … for their symbolic sizes and part1, part2, … for graphs
inside; nothing of the user's is in the code but strings and numbers as `repr` writes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from wholestep.dims import Dim, names
from wholestep.errors import UnsupportedError, Where, line_of
from wholestep.export.biased_products import biased_convolutions_in
from wholestep.export.channels_last import channels_last
from wholestep.export.convolutions import ConvolvedProduct, convolutions_in, nodes_beside
from wholestep.export.core import export_core, symbolic_sizes_refused
from wholestep.export.own_memory import values_apart
from wholestep.export.python.vocabulary import (
    Call,
    Pattern,
    PythonTarget,
    Resident,
    Update,
    expression_of,
    joined_thin_shapes,
    listed,
    literal,
    thin_shape,
)
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.ir.sizes import all_names, graph_at, size_places
from wholestep.primitives.family import number_of
from wholestep.primitives.movement import Broadcast

NAME = re.compile(r"\bv\d+\b")
LARGE = 1 << 14
"""The bytes of an array whose memory is worth a line."""


def is_large(v: Value) -> bool:
    """True for an array of many bytes, or of a size that is not known."""
    size = v.type.size
    return not isinstance(size, int) or size * v.dtype.itemsize >= LARGE


class PrintedValue:
    """A printed value: an expression, and the expression's shape, which broadcasts to that of the value."""

    __slots__ = ("shape", "text")

    def __init__(self, text: str, shape: tuple[int, ...]) -> None:
        self.text, self.shape = text, shape


class GraphPrinter:
    """The functions printed so far, each after the functions that it calls, and the arrays that they hold."""

    def __init__(self, target: PythonTarget) -> None:
        self.target = target
        self.functions: list[str] = []
        self.constants: list[NDArray] = []
        self.named: dict[Graph, str] = {}

    def program(self, graph: Graph, name: str, resident: Resident = ()) -> None:
        """Print a graph, lowered to the words of the target, as a function of this name, which may write its state."""
        sizes = {known: Dim(f"n{i}") for i, known in enumerate(sorted(all_names(graph)))}
        core = export_core(graph_at(graph, sizes) if sizes else graph, self.target, differentiated=not resident)
        core = channels_last(core, self.target.has_convolution) if self.target.channels_last else core
        core = self.target.fused(core) if self.target.fused is not None and resident else core
        self.functions.append(FunctionPrinter(self, core, resident).source(name))

    def constant(self, value: NDArray) -> str:
        """An array that the program holds; the same one is held once."""
        for i, known in enumerate(self.constants):
            if known is value:
                return f"CONSTANTS[{i}]"
        self.constants.append(value)
        return f"CONSTANTS[{len(self.constants) - 1}]"

    def function(self, graph: Graph) -> str:
        """The name of the function for a graph inside of another."""
        if graph not in self.named:
            self.named[graph] = f"part{len(self.named) + 1}"
            self.print(graph, self.named[graph])
        return self.named[graph]

    def print(self, graph: Graph, name: str) -> None:
        """Append the function of a graph in the target's words."""
        self.functions.append(FunctionPrinter(self, graph).source(name))


class FunctionPrinter:
    """The walk over one graph."""

    def __init__(self, printer: GraphPrinter, graph: Graph, resident: Resident = ()) -> None:
        self.printer, self.target, self.graph, self.resident = printer, printer.target, graph, tuple(resident)
        self.env: dict[Value, PrintedValue] = {}
        for i, v in enumerate(graph.inputs):
            self.env[v] = PrintedValue(f"x{i}", v.type.shape)
        self.convolutions = (
            convolutions_in(graph, self.target.has_convolution) if self.target.convolved is not None else {}
        )
        searches = (*self.target.patterns, *(self.target.step_patterns if resident else ()))
        self.patterns = {node: (pattern, text) for find, text in searches for node, pattern in find(graph).items()}
        self.updates = [(each, word) for find, word in self.target.updates for each in find(graph, resident)]
        self.biased = biased_convolutions_in(graph, self.convolutions) if self.target.adds_bias else {}
        self.apart = set[Value]()
        """The values that a step may overwrite, since no other value shares their memory."""
        self.again: dict[str, list[tuple[str, str]]] = {}
        """By line, the names that its result may overwrite, and the line for each: arrays of the step alone."""
        self.count = 0
        self.last: tuple[str, int] = ("", 0)

    def source(self, name: str) -> str:
        """The function as text."""
        lines: list[str] = []
        read: dict[Node, tuple[Value, ...]] = {node: c.operands for node, c in self.convolutions.items()}
        read |= {node: pattern.operands for node, (pattern, _) in self.patterns.items()}
        read |= {node: (*self.convolutions[b.product].operands, b.bias) for node, b in self.biased.items()}
        joined = (*[each for each, _ in (*self.patterns.values(), *self.updates)], *self.biased.values())
        inner = frozenset[Node]().union(*[each.inner for each in joined])
        nodes = nodes_beside(self.before_updates(), read, inner)
        self.apart = values_apart(self.graph, nodes) if self.resident else self.apart
        for node in nodes:
            with symbolic_sizes_refused(self.target.name, node.op.name, node.where):
                lines += self.lines(node)
        lines += [self.update(*each) for each in self.updates]  # last, since they overwrite the operands of other lines
        head = f"def {name}({', '.join([self.env[v].text for v in self.graph.inputs])}):"
        outputs = listed([self.whole(v) for v in self.graph.outputs])
        if self.target.frees:
            lines = self.with_deletions(lines, outputs)
        return "\n".join([head, *["    " + line for line in [*self.sizes(), *lines]], f"    return {outputs}"])

    def with_deletions(self, lines: Sequence[str], outputs: str) -> list[str]:
        """The lines, and after the last one that reads a large array its deletion, so that its memory is used again."""
        known = {x.text: v for v, x in self.env.items() if is_large(v) and x.text not in NAME.findall(outputs)}
        last = {name: i for i, line in enumerate(lines) for name in NAME.findall(line)}
        ends: dict[int, list[str]] = {}
        for name, i in last.items():
            if name in known:
                ends.setdefault(i, []).append(name)
        found = []
        for i, line in enumerate(lines):
            over = [text for name, text in self.again.get(line, ()) if name in ends.get(i, ())]
            found += [over[0] if over else line, *([f"del {', '.join(ends[i])}"] if i in ends else [])]
        return found

    def sizes(self) -> list[str]:
        """The lines that read the symbolic sizes; raises UnsupportedError for a size that no axis of an input has."""
        used = {name for t in self.graph.types() for n in t.shape for name in names(n)}
        places = size_places(self.graph.in_types)
        if not used <= places.keys():
            raise UnsupportedError(
                f"export to {self.target.name}: no axis of the inputs of {self.graph.name} has one of its sizes",
                hint="give it an input of which an axis has that size, or shapes that are numbers",
            )
        return ["{} = x{}.shape[{}]".format(name, *places[name]) for name in sorted(used)]

    def lines(self, node: Node) -> list[str]:
        """The lines of one operation; none for a number, which is written where it is used."""
        if node.op.uniform:
            return []
        if isinstance(node.op, Broadcast):
            return self.broadcast(node)
        if node in self.biased:
            return self.convolution(node, self.convolutions[self.biased[node].product], self.biased[node].bias)
        if node in self.convolutions:
            return self.convolution(node, self.convolutions[node])
        if node in self.patterns:
            return self.pattern(node, *self.patterns[node])
        operands = self.thin_operands(node) if node.op.thin else [self.whole(v) for v in node.inputs]
        shape = node.outputs[0].type.shape
        if node.op.thin:
            shape = joined_thin_shapes([self.shape(v) for v in node.inputs])
        names = [self.new_name(v, shape if node.op.thin else v.type.shape) for v in node.outputs]
        call = Call(self.printer, self.target, node, operands, bool(self.resident))
        text = expression_of(self.target.words[node.op.name], call)
        left = ", ".join(names) + ("," if node.op.multiple and len(names) == 1 else "")
        remark = self.remark(node.where)
        line = f"{left} = {text}{remark}"
        self.again[line] = [(v, f"{left} = {text}{remark}") for v, text in self.in_place(node, call, shape)]
        return [line]

    def in_place(self, node: Node, call: Call, shape: tuple[int, ...]) -> list[tuple[str, str]]:
        """The operands that an operation's result may overwrite after their last use, and the spelling for each."""
        found = []
        for i, text in enumerate(self.target.in_place.get(node.op.name, ())):
            v = node.inputs[i]
            if v in self.apart and v.type == node.outputs[0].type and self.shape(v) == shape:
                found.append((call.a[i], text.format(*call.a)))
        return found

    def convolution(self, node: Node, c: ConvolvedProduct, *bias: Value) -> list[str]:
        """A product with windows as a convolution, with an optional bias of its channels."""
        assert self.target.convolved is not None
        call = Call(self.printer, self.target, node, [self.whole(v) for v in (*c.operands, *bias)])
        text = self.target.convolved(call, c)
        return [f"{self.new_name(node.outputs[0], call.out.shape)} = {text}{self.remark(node.where)}"]

    def pattern(self, node: Node, pattern: Pattern, text: str) -> list[str]:
        """Several operations by one spelling."""
        operands = [self.whole(v) for v in pattern.operands]
        told = {"operands": ", ".join(operands), "pattern": pattern, "in_step": bool(self.resident)}
        name, remark = self.new_name(node.outputs[0], node.outputs[0].type.shape), self.remark(node.where)
        line, over = [f"{name} = {text.format(*operands, **told, over=over)}{remark}" for over in (False, True)]
        if line != over and pattern.operands[0] in self.apart:
            self.again[line] = [(operands[0], over)]
        return [line]

    def before_updates(self) -> Graph:
        """The graph with the operands of updates as outputs, in the place of their results."""
        made = {v for each, _ in self.updates for v in each.outputs}
        outputs = [v for v in self.graph.outputs if v not in made]
        outputs += [v for each, _ in self.updates for v in each.operands]
        return Graph(self.graph.inputs, self.graph.nodes, tuple(outputs)) if made else self.graph

    def update(self, update: Update, word: str) -> str:
        """The line that replaces a part of the state."""
        columns = [listed([self.whole(v) for v in column]) for column in update.columns]
        numbers = ["None" if v is None else self.whole(v) for v in update.numbers]
        names = [self.new_name(v, v.type.shape) for v in update.outputs]
        return f"{', '.join(names)} = {word}({', '.join([*columns, *numbers])})"

    def broadcast(self, node: Node) -> list[str]:
        """A broadcast as the axes of size 1 that it adds; it is repeated where it is used whole."""
        (v,), (out,) = node.inputs, node.outputs
        if number_of(v) is not None:
            self.env[out] = PrintedValue(self.number(v), ())
            return []
        shape, axes = node.params["shape"], node.params["axes"]
        source = self.whole(v)
        thin = thin_shape(shape, axes, v.type.shape) if axes else ()
        if thin == v.type.shape:
            self.env[out] = PrintedValue(source, thin)
            return []
        name = self.new_name(out, thin)
        return [f"{name} = {self.target.words['reshape'].format(source, shape=thin)}"]  # type: ignore[union-attr]

    def new_name(self, v: Value, shape: tuple[int, ...]) -> str:
        """A new name for a value."""
        self.env[v] = PrintedValue(f"v{self.count}", shape)
        self.count += 1
        return self.env[v].text

    def shape(self, v: Value) -> tuple[int, ...]:
        """The shape that a value has where it is printed."""
        return () if number_of(v) is not None else self.env[v].shape

    def number(self, v: Value) -> str:
        """A value that is one number everywhere, as an array without axes."""
        return self.target.number(literal(number_of(v)), self.target.dtype(v.dtype))

    def thin_operands(self, node: Node) -> list[str]:
        """Operands that the library broadcasts itself, numbers among them where the operation takes those."""
        weak = node.inputs[-1].dtype.kind != self.target.widened_by_numbers
        plain = weak and node.op.name in self.target.numbers_in
        first = 1 if node.op.name == "select" else 0
        arrays = [v for v in node.inputs[first:] if number_of(v) is None]
        found = []
        for i, v in enumerate(node.inputs):
            if number_of(v) is None:
                found.append(self.env[v].text)
            elif plain and arrays and i >= first:
                found.append(literal(number_of(v)))
            else:
                found.append(self.number(v))
        return found

    def whole(self, v: Value) -> str:
        """A value in its own shape."""
        text = self.number(v) if number_of(v) is not None else self.env[v].text
        if self.shape(v) == v.type.shape:
            return text
        return self.target.broadcast(text, v.type.shape, self.target.dtype(v.dtype))

    def remark(self, where: Where) -> str:
        """A comment with the user's file and line, where it is another one than that of the line before."""
        filename, line = line_of(where)
        place = (os.path.basename(filename), line)
        if not filename or place == self.last:
            return ""
        self.last = place
        return f"  # {ascii(place[0])[1:-1]}:{line}"


def printed_functions(target: PythonTarget, graphs: Sequence[tuple[str, Graph, Resident]]) -> tuple[str, list[NDArray]]:
    """The functions of graphs, by their names, as source, and the arrays that it reads from `CONSTANTS`.

    The pairs of `resident` are inputs that a function may write the outputs beside them to.
    """
    printer = GraphPrinter(target)
    for name, graph, resident in graphs:
        printer.program(graph, name, resident)
    first = [target.of_constants] if target.of_constants and printer.constants else []
    return "\n\n\n".join([*first, *printer.functions]), printer.constants

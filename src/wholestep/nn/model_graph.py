"""The graph of a model's call: its arrays and operations, named by the part of the model that each belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import tree
from wholestep.errors import UnsupportedError, show
from wholestep.frontend.array import Array
from wholestep.frontend.inspect import eval_shape
from wholestep.frontend.tracing import as_array, type_of
from wholestep.ir.build import current, trim
from wholestep.ir.graph import Graph, Node, Value, subgraphs
from wholestep.ir.types import Type
from wholestep.nn.parameters import join, split
from wholestep.nn.summaries import described_inputs, watched_call
from wholestep.nn.traversal import SEGMENT, ArrayPlace, ModelWalk, holder

LONGEST = 2000
"""The most characters that are kept of one parameter of an operation."""


class DrawnNode(NamedTuple):
    """An array or an operation: its name, with slashes between the names of modules, and the names of its operands.

    The name of an operand ends in `:1` if it is the second result of an operation.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    types: tuple[Type, ...]
    notes: Mapping[str, str]


class ModelTrace:
    """A call of a model in evaluation mode, on shapes alone: its operations, and the part that made each of them."""

    def __init__(self, name: str, model: Any, inputs: Sequence[Any], named: dict[str, Any]) -> None:
        walk = ModelWalk(model)
        self.title = model._title() if hasattr(model, "_title") else type(model).__name__
        self.paths = [path for path, _ in walk.modules]
        self.parts: dict[Node, str] = {}
        given = described_inputs(name, model, walk, inputs)
        # Buffers and frozen arrays are arguments too: as constants they would be folded, and had no name.
        eval_shape(
            lambda held, args, kwargs: self.forward(join(model, *held), *args, **kwargs), split(model), given, named
        )

    def forward(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """The call, whose nodes and arrays are kept."""
        own = model.eval()
        self.places: list[ArrayPlace] = list(ModelWalk(own).places)
        self.inputs = [leaf.value for leaf in tree.leaves((args, kwargs)) if isinstance(leaf, Array)]
        out = watched_call(own, self.note, args, kwargs)
        self.outputs = [as_array(leaf, "graph").value for leaf in tree.leaves(out)]
        builder = current()
        assert builder is not None
        self.nodes = trim(builder.nodes, self.outputs)
        return out

    def note(self, path: str, out: Any, nodes: Sequence[Node]) -> None:
        """The innermost part that made each node: its call ended first."""
        for node in nodes:
            self.parts.setdefault(node, path)


class Drawing:
    """The nodes of a picture, whose names are told apart by numbers."""

    def __init__(self, trace: ModelTrace) -> None:
        self.trace = trace
        self.nodes: list[DrawnNode] = []
        self.taken = {self.scope(path) for path in trace.paths}
        self.names: dict[Value, str] = {}

    def scope(self, path: str) -> str:
        """The name of a part: that of the model, then the steps of its path."""
        steps = [attribute or item for attribute, item in SEGMENT.findall(path)]
        return "/".join([plain_text(step) for step in (self.trace.title, *steps)])

    def add(
        self, name: str, kind: str, inputs: tuple[str, ...], types: Iterable[Type], notes: Mapping[str, str]
    ) -> str:
        """A node under this name, or under it and a number."""
        found, count = name, 0
        while found in self.taken:
            count += 1
            found = f"{name}_{count}"
        self.taken.add(found)
        self.nodes.append(DrawnNode(found, kind, inputs, tuple(types), notes))
        return found

    def draw_arrays(self) -> None:
        """The inputs of the call, and the arrays of the model that it uses."""
        used = {v for node in self.trace.nodes for v in node.inputs} | set(self.trace.outputs)
        for i, v in enumerate(self.trace.inputs):
            self.names[v] = self.add(f"inputs/{i}", "Input", (), [v.type], {})
        for place in self.trace.places:
            held = place.value.value if isinstance(place.value, Array) else None
            if held is not None and held in used:
                scope = self.scope(holder(place.path, self.trace.paths))
                name, kind = f"{scope}/{plain_text(last_step(place.path))}", place.kind.capitalize()
                self.names[held] = self.add(name, kind, (), [held.type], {"path": place.path})

    def draw_node(self, node: Node) -> None:
        """One operation, in the scope of its part; one that holds programs has their text."""
        inputs = tuple([self.names[v] for v in node.inputs])
        notes = {key: text_of(x) for key, x in node.params.items() if not isinstance(x, Graph)}
        notes |= {f"program_{i}": text_of(graph) for i, graph in enumerate(subgraphs(node))}
        notes["line"] = show(node.where)
        kind = "Const" if node.op.literal else node.op.name
        place = f"{self.scope(self.trace.parts.get(node, ''))}/{plain_text(node.op.name)}"
        name = self.add(place, kind, inputs, [v.type for v in node.outputs], notes)
        for i, v in enumerate(node.outputs):
            self.names[v] = f"{name}:{i}" if i else name


def text_of(x: Any) -> str:
    """A parameter of an operation as text; a large array is its type."""
    text = str(type_of(x)) if isinstance(x, np.ndarray) and x.size > 16 else str(x)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def plain_text(name: str) -> str:
    """A name of the characters that graphs of TensorFlow allow."""
    made = re.sub(r"[^A-Za-z0-9_.]", "_", name)
    return made if re.match(r"[A-Za-z0-9.]", made) else f".{made}"


def last_step(path: str) -> str:
    """The last step of a path: `weight`, or the item between brackets."""
    *_, (attribute, item) = SEGMENT.findall(path)
    return str(attribute or item)


def drawn_nodes(name: str, model: Any, inputs: Sequence[Any], named: dict[str, Any]) -> list[DrawnNode]:
    """The graph of a model's call on these inputs, as `nn.summary` takes them, in evaluation mode."""
    if not inputs and not named:
        raise UnsupportedError(f"{name}: a model is drawn by a call of it", hint="give an input, or its shape")
    drawing = Drawing(ModelTrace(name, model, inputs, named))
    drawing.draw_arrays()
    for node in drawing.trace.nodes:
        drawing.draw_node(node)
    for i, v in enumerate(drawing.trace.outputs):
        drawing.add(f"outputs/{i}", "Output", (drawing.names[v],), [v.type], {})
    return drawing.nodes

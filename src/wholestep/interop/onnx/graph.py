"""The executable graph of a model: nodes with their attributes as values, functions in place, and all names defined."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wholestep.errors import ModelError, UnsupportedError
from wholestep.export.onnx import schema
from wholestep.export.onnx.protobuf import Proto
from wholestep.interop.onnx.operators.node import OnnxNode
from wholestep.interop.onnx.operators.tables import COVERED, NEWEST, OLDEST
from wholestep.interop.onnx.tensors import array_of, element_dtype, shown
from wholestep.ir.graph import NDArray
from wholestep.words import first_few

MOST_NODES = 1_000_000
"""A model of more nodes than this, functions in place, is refused."""
DEEPEST = 32
"""The maximum depth of nested graphs and functions."""
OWN_DOMAINS = ("", "ai.onnx")
TYPE = 13


@dataclass(slots=True, eq=False)
class OnnxBody:
    """A graph that can be run: the names of its inputs and outputs, its constants by name, and its nodes in order.

    A node that calls a function of the model has that function's body in place of a handler.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, NDArray]
    nodes: list[tuple[OnnxNode, OnnxBody | None]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class OnnxGraphReader:
    """A reader of the graphs of one model, which collects the operators that are not covered."""

    versions: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], Proto]
    folder: Path | None
    left: int = MOST_NODES
    missing: dict[str, str] = field(default_factory=dict)
    calling: list[tuple[str, str, str]] = field(default_factory=list)

    def body(self, graph: Proto, around: Set[str] = frozenset(), depth: int = 0) -> OnnxBody:
        """A graph, which may read names of the graphs around it."""
        if graph.sparse_initializer:
            raise UnsupportedError("from_onnx: the model has sparse initializers, which are not covered")
        constants = {tensor.name: array_of(tensor, self.folder) for tensor in graph.initializer}
        inputs = tuple([value.name for value in graph.input if value.name not in constants])
        made = OnnxBody(inputs, tuple([value.name for value in graph.output]), constants)
        return self.filled(made, graph.node, {*around, *inputs, *constants}, {}, self.versions, depth)

    def filled(
        self,
        body: OnnxBody,
        nodes: Any,
        names: set[str],
        given: Mapping[str, Any],
        versions: Mapping[str, int],
        depth: int,
    ) -> OnnxBody:
        """A body with its nodes, each checked to read only names defined before it and to define only new ones."""
        if depth > DEEPEST:
            raise ModelError(f"from_onnx: graphs lie more than {DEEPEST} deep in each other")
        self.left -= len(nodes)
        if self.left < 0:
            raise ModelError(f"from_onnx: the model has more than {MOST_NODES:,} nodes")
        own = set(body.inputs) | set(body.constants)
        for proto in nodes:
            unknown = next((name for name in proto.input if name and name not in names), None)
            if unknown is not None:
                raise ModelError(f"from_onnx: {label(proto)} reads {shown(unknown)}, which nothing before it gives")
            body.nodes.append(self.node(proto, names, given, versions, depth))
            for name in filter(None, proto.output):
                if name in own:
                    raise ModelError(f"from_onnx: {label(proto)} gives {shown(name)}, which is there already")
                own.add(name)
            names.update(proto.output)
        unknown = next((name for name in body.outputs if name not in names), None)
        if unknown is not None:
            raise ModelError(f"from_onnx: the output {shown(unknown)} is given by nothing")
        return body

    def node(
        self, proto: Proto, names: set[str], given: Mapping[str, Any], versions: Mapping[str, int], depth: int
    ) -> tuple[OnnxNode, OnnxBody | None]:
        """A node, and the body of the function that it calls."""
        values = {}
        for attribute in proto.attribute:
            value = self.attribute(attribute, names, given, depth)
            if value is not None:
                values[attribute.name] = value
        domain = "" if proto.domain in OWN_DOMAINS else proto.domain
        version = versions.get(domain, 0)
        node = OnnxNode(proto.op_type, version, proto.name, values, tuple(proto.input), tuple(proto.output))
        function = self.functions.get((domain, proto.op_type, proto.overload))
        if function is not None:
            return node, self.called(function, node, values, depth)
        if domain or proto.op_type not in COVERED:
            kind = f"{domain}.{proto.op_type}" if domain else proto.op_type
            self.missing.setdefault(f"{shown(kind)} (opset {version})", proto.name or next(iter(proto.output), ""))
        return node, None

    def called(self, function: Proto, node: OnnxNode, values: Mapping[str, Any], depth: int) -> OnnxBody:
        """The body of a function with the attributes of one call."""
        key = (function.domain, function.name, function.overload)
        if key in self.calling:
            raise ModelError(f"from_onnx: the function {shown(function.name)} calls itself")
        known = {a.name: self.attribute(a, set(), {}, depth) for a in function.attribute_proto}
        versions = {("" if o.domain in OWN_DOMAINS else o.domain): o.version for o in function.opset_import}
        self.calling.append(key)
        made = OnnxBody(tuple(function.input), tuple(function.output), {})
        names = {"", *function.input}
        self.filled(made, function.node, names, {**known, **values}, {**self.versions, **versions}, depth + 1)
        self.calling.pop()
        return made

    def attribute(self, attribute: Proto, names: set[str], given: Mapping[str, Any], depth: int) -> Any:
        """The value of an attribute, or that which the call of a function gives it."""
        if attribute.ref_attr_name:
            return given.get(attribute.ref_attr_name)
        kind = attribute.type or next((k for k, name in KINDS.items() if attribute.has(name)), 0)
        if kind == schema.STRING:
            return text_of(attribute.s)
        if kind == schema.STRINGS:
            return tuple([text_of(s) for s in attribute.strings])
        if kind == schema.TENSOR and attribute.t is not None:
            return array_of(attribute.t, self.folder)
        if kind == schema.GRAPH and attribute.g is not None:
            return self.body(attribute.g, names, depth + 1)
        if kind in (schema.FLOATS, schema.INTS):
            return tuple([n.item() if hasattr(n, "item") else n for n in getattr(attribute, KINDS[kind])])
        if kind in (schema.FLOAT, schema.INT):
            return getattr(attribute, KINDS[kind])
        if kind == TYPE:
            return None  # the type of an optional value, which is one of any type here
        self.missing.setdefault(f"an attribute {shown(attribute.name)} of kind {kind}", "")
        return None


KINDS = {
    schema.FLOAT: "f",
    schema.INT: "i",
    schema.STRING: "s",
    schema.TENSOR: "t",
    schema.GRAPH: "g",
    schema.FLOATS: "floats",
    schema.INTS: "ints",
    schema.STRINGS: "strings",
}
"""The field that holds the value of each kind of attribute."""


def text_of(data: Any) -> str:
    """A string attribute; bytes that are no text are none that any operator knows."""
    return bytes(data).decode("utf-8", "replace")


def label(proto: Any) -> str:
    """A node as errors name it."""
    name = proto.name or next(iter(proto.output), "")
    return f"node {shown(name)} ({shown(proto.op_type)})"


def label_of(node: OnnxNode) -> str:
    """A node with its operator and its opset, as errors name it."""
    name = node.name or next(iter(node.outputs), "")
    return f"node {shown(name)} ({shown(node.op)}, opset {node.opset})"


def check_kind(kind: Proto | None, what: str) -> None:
    """Raise UnsupportedError for a value of elements that are not covered."""
    while kind is not None and kind.tensor_type is None:
        inner = kind.sequence_type or kind.optional_type
        kind = None if inner is None else inner.elem_type
    if kind is not None and kind.tensor_type.elem_type:
        element_dtype(kind.tensor_type.elem_type, what)


def graph_of(model: Proto, folder: Path | None) -> tuple[OnnxBody, int]:
    """The graph of a model and its opset; raises UnsupportedError that lists all operators that are not covered."""
    if model.graph is None:
        raise ModelError("from_onnx: the file holds no graph", hint="is it an ONNX model?")
    versions = {("" if o.domain in OWN_DOMAINS else o.domain): o.version for o in model.opset_import}
    version = versions.get("", 0 if versions else 1)
    if version and not OLDEST <= version <= NEWEST:
        raise UnsupportedError(
            f"from_onnx: the model is written in opset {version}, and {OLDEST} to {NEWEST} are read",
            hint="onnx.version_converter.convert_version(model, 21) writes it in another one",
        )
    functions = {("" if f.domain in OWN_DOMAINS else f.domain, f.name, f.overload): f for f in model.functions}
    for value in (*model.graph.input, *model.graph.output):
        check_kind(value.type, f"the value {shown(value.name)}")
    reader = OnnxGraphReader(versions, functions, folder)
    body = reader.body(model.graph)
    if reader.missing:
        named = [f"{what}, first at node {shown(name)}" if name else what for what, name in reader.missing.items()]
        raise UnsupportedError(
            f"from_onnx: {len(named)} operators are not covered: {first_few(named, 20)}",
            hint="docs/onnx.md lists those that are; a function of the model with that name takes its place",
        )
    return body, version

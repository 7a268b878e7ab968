"""A model's graph as TensorBoard reads it: a GraphDef of TensorFlow, by tensorboardX's messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from wholestep import dtypes
from wholestep.ir.types import Type
from wholestep.nn.model_graph import DrawnNode

NAMES = {"float16": "DT_HALF", "float32": "DT_FLOAT", "float64": "DT_DOUBLE"}
"""The names of dtypes in TensorFlow, where they are not NumPy's."""


def graph_bytes(nodes: Iterable[DrawnNode]) -> bytes:
    """The serialized GraphDef of these nodes."""
    from tensorboardX.proto.graph_pb2 import GraphDef
    from tensorboardX.proto.versions_pb2 import VersionDef

    made: Any = GraphDef(node=[node_message(node) for node in nodes], versions=VersionDef(producer=22))
    found: bytes = made.SerializeToString()
    return found


def node_message(node: DrawnNode) -> Any:
    """One node, with its parameters as text, and the shapes of its results, which TensorBoard shows on edges."""
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.node_def_pb2 import NodeDef

    attributes = {attribute_name(key): AttrValue(s=text.encode()) for key, text in node.notes.items() if text}
    shapes = AttrValue.ListValue(shape=[shape_message(t) for t in node.types])
    attributes["_output_shapes"] = AttrValue(list=shapes)
    if node.types:
        attributes["dtype"] = dtype_attribute(node.types[0])
    return NodeDef(name=node.name, op=node.kind, input=node.inputs, attr=attributes)


def attribute_name(key: str) -> str:
    """The name of an attribute, with an underscore after the name of a parameter that TensorFlow uses itself."""
    plain = re.sub(r"[^a-z0-9_]", "_", key.lower())
    return f"{plain}_" if plain in ("dtype", "shape") else plain


def shape_message(t: Type) -> Any:
    """A shape; a symbolic size is unknown to TensorFlow, with its name beside it."""
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

    sizes = [(n, "") if isinstance(n, int) else (-1, str(n)) for n in t.shape]
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n, name=name) for n, name in sizes])


def dtype_attribute(t: Type) -> Any:
    """A dtype, by its name where the messages of tensorboardX have no number for it."""
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.types_pb2 import DataType

    name = NAMES.get(t.dtype.name, f"DT_{t.dtype.name.upper()}")
    if name in DataType.keys():
        return AttrValue(type=DataType.Value(name))
    return AttrValue(s=dtypes.short(t.dtype).encode())

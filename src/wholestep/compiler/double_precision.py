"""The same program with every float in float64 and every complex number in complex128: the reference of bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.ir.types import Type, array_type

F64, C128 = np.dtype(np.float64), np.dtype(np.complex128)


def double_dtype(dtype: Any) -> np.dtype[Any]:
    """The widest dtype of the same kind."""
    own: np.dtype[Any] = np.dtype(dtype)
    if not dtypes.is_inexact(own):
        return own
    return C128 if dtypes.is_complex(own) else F64


def in_double(graph: Graph) -> Graph:
    """The graph in float64; made once. Numbers in it keep the values that they have in their own dtypes."""
    found: Graph = graph.derived("doubled", lambda: widened_graph(graph))
    return found


def widened_graph(graph: Graph) -> Graph:
    """The graph in float64, made anew."""
    env = {v: Value(double_type(v.type), None, None) for v in graph.inputs}
    nodes = []
    for node in graph.nodes:
        made = Node(node.op, tuple([env[v] for v in node.inputs]), widened_params(node), node.where)
        types = made.op.type(*made.types, **made.params)
        made.outputs = tuple([Value(t, made, None) for t in (types if node.op.multiple else (types,))])
        env.update(zip(node.outputs, made.outputs, strict=True))
        nodes.append(made)
    inputs = tuple([env[v] for v in graph.inputs])
    return Graph(inputs, tuple(nodes), tuple([env[v] for v in graph.outputs]), graph.name, graph.input_names)


def double_type(t: Type) -> Type:
    """The type in the widest dtype of its kind."""
    return array_type(t.shape, double_dtype(t.dtype))


def widened_params(node: Node) -> dict[str, Any]:
    """The parameters of a node with the dtypes in them widened."""
    return {name: widened_param(node.op.name, name, value, node.params) for name, value in node.params.items()}


def widened_param(op: str, name: str, value: Any, params: Mapping[str, Any]) -> Any:
    """A parameter with the dtypes in it widened."""
    if isinstance(value, Graph):
        return in_double(value)
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return tuple([in_double(graph) for graph in value])
    if name == "dtype":
        return double_dtype(value)
    if name == "value" and op in ("constant", "full"):
        own = np.asarray(value) if op == "constant" else np.asarray(value, params["dtype"])
        return own.astype(double_dtype(own.dtype)) if op == "constant" else own.astype(double_dtype(own.dtype)).item()
    return value


def widest(arrays: Sequence[Any]) -> list[NDArray]:
    """The arrays in float64."""
    return [np.asarray(x).astype(double_dtype(np.asarray(x).dtype)) for x in arrays]

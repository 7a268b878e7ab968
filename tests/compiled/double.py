"""The same program with every float in float64 and every complex number in complex128: the reference of the bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type, array_type

F64, C128 = np.dtype(np.float64), np.dtype(np.complex128)


def wide(dtype: Any) -> np.dtype:
    """The widest dtype of the same kind."""
    dtype = np.dtype(dtype)
    if not dtypes.is_inexact(dtype):
        return dtype
    return C128 if dtypes.is_complex(dtype) else F64


def doubled(graph: Graph) -> Graph:
    """The graph in float64."""
    env = {v: Value(widened(v.type), None, None) for v in graph.inputs}
    nodes = []
    for node in graph.nodes:
        made = Node(
            node.op,
            tuple([env[v] for v in node.inputs]),
            {name: param(node.op.name, name, value) for name, value in node.params.items()},
            node.where,
        )
        types = made.op.type(*made.types, **made.params)
        made.outputs = tuple([Value(t, made, None) for t in (types if node.op.multiple else (types,))])
        env.update(zip(node.outputs, made.outputs, strict=True))
        nodes.append(made)
    inputs = tuple([env[v] for v in graph.inputs])
    return Graph(inputs, tuple(nodes), tuple([env[v] for v in graph.outputs]), graph.name, graph.input_names)


def widened(t: Type) -> Type:
    return array_type(t.shape, wide(t.dtype))


def param(op: str, name: str, value: Any) -> Any:
    """A parameter with the dtypes in it widened."""
    if isinstance(value, Graph):
        return doubled(value)
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return tuple([doubled(graph) for graph in value])
    if name == "dtype":
        return wide(value)
    if op == "constant" and name == "value":
        return np.asarray(value).astype(wide(value.dtype))
    return value


def widest(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays in float64."""
    return [np.asarray(x).astype(wide(np.asarray(x).dtype)) for x in arrays]

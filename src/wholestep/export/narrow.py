"""Numbers of 64 bits that a target lacks: refused with their line, or narrowed where that is asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.errors import UnsupportedError
from wholestep.export.core import inline_everywhere
from wholestep.export.program import ExportedProgram
from wholestep.ir.graph import Graph, NDArray, Node, Value, subgraphs
from wholestep.ir.types import Type, array_type

NARROWED = {"float64": np.dtype(np.float32), "complex128": np.dtype(np.complex64)}
"""Floats that are narrowed in the program; a target without int64 has integers of all sizes in int32."""
PLACES = frozenset(("indexing", "order", "movement", "creation", "structure", "mark"))
"""Kinds of operations whose integers are places in arrays, or numbers of other operations."""
SAFE = frozenset(("argmax", "argmin", "select", "max", "min", "maximum", "minimum"))
"""Operations whose results are no larger than their operands, or are places in arrays."""


class NarrowTarget(NamedTuple):
    """A target without floats of 64 bits."""

    name: str
    title: str
    """The target as a message calls it."""
    has_int64: bool
    advice: str = ""

    @property
    def hint(self) -> str:
        """The option that allows it other numbers."""
        if self.advice:
            return self.advice
        integers = "" if self.has_int64 else " and int32 for int64"
        return f"narrow=True, or --narrow, writes float32 for float64{integers}"


NARROW_TARGETS = {
    "coreml": NarrowTarget("coreml", "Core ML", has_int64=False),
    "litert": NarrowTarget("litert", "LiteRT", has_int64=True),
}
"""The targets of files without floats of 64 bits, by name."""
JAX_ADVICE = (
    'jax.config.update("jax_enable_x64", True) turns numbers of 64 bits on; Python numbers alone are computed in them'
)
NARROW_JAX = NarrowTarget("jax", "JAX without jax_enable_x64", has_int64=False, advice=JAX_ADVICE)
"""JAX as it is unless numbers of 64 bits are turned on: integers that are places and counts have 32 bits there."""


def checked_narrow(graph: Graph, program: ExportedProgram, narrow: bool, target: NarrowTarget) -> Graph:
    """The graph without floats of 64 bits; raises UnsupportedError if it has some and `narrow` is False."""
    graph = inline_everywhere(graph)
    if narrow:
        return Narrowing(target).graph(graph)
    for name, t in zip(program.inputs, graph.in_types, strict=True):
        if t.dtype.name in NARROWED or (t.dtype.name == "int64" and not target.has_int64):
            raise UnsupportedError(
                f"export to {target.name}: the input {name} is {t}, which {target.title} has not", hint=target.hint
            )
    check_wide(graph, target)
    return graph


def check_wide(graph: Graph, target: NarrowTarget) -> None:
    """Raise UnsupportedError for the first operation that makes numbers of 64 bits."""
    for node in graph.nodes:
        for v in node.outputs:
            wide = v.dtype.name in NARROWED
            if wide or (not target.has_int64 and v.dtype.name in ("int64", "uint64") and not makes_places(node)):
                raise UnsupportedError(
                    f"export to {target.name}: {node.op.name} makes {v.type}, which {target.title} has not",
                    hint=target.hint,
                    where=node.where,
                )
        for inner in subgraphs(node):
            check_wide(inner, target)


def makes_places(node: Node) -> bool:
    """True if the integers that an operation makes are places in arrays, counts, or numbers that int32 holds."""
    if "value" in node.params and not isinstance(node.params["value"], Dim):
        return bool(np.all(np.abs(np.asarray(node.params["value"], np.float64)) < 2.0**31))
    if node.outputs[0].dtype.name == "uint64":
        return False
    if node.op.name == "cast":
        return bool(np.can_cast(node.inputs[0].dtype, np.int32, "safe"))
    counted = node.inputs[0].node if node.op.name == "sum" else None
    if counted is not None and counted.op.name == "cast":
        return dtypes.is_bool(counted.inputs[0].dtype)
    return node.op.kind in PLACES or node.op.name in SAFE


class Narrowing:
    """The walk that gives each value and parameter of 64-bit floats its narrow type; each graph is made once."""

    def __init__(self, target: NarrowTarget) -> None:
        self.target = target
        self.done: dict[Graph, Graph] = {}

    def graph(self, graph: Graph) -> Graph:
        """The graph with narrow floats."""
        if graph not in self.done:
            env: dict[Value, Value] = {v: Value(narrow_type(v.type), None, None) for v in graph.inputs}
            nodes = []
            for node in graph.nodes:
                params = {name: self.param(x, node) for name, x in node.params.items()}
                made = Node(node.op, tuple([env[v] for v in node.inputs]), params, node.where)
                made.outputs = tuple([Value(narrow_type(v.type), made, None) for v in node.outputs])
                env.update(zip(node.outputs, made.outputs, strict=True))
                nodes.append(made)
            inputs, outputs = (tuple([env[v] for v in vs]) for vs in (graph.inputs, graph.outputs))
            self.done[graph] = Graph(inputs, tuple(nodes), outputs, graph.name, graph.input_names)
        return self.done[graph]

    def param(self, x: Any, node: Node) -> Any:
        """A parameter: a graph, a dtype, or the array of a constant."""
        if isinstance(x, Graph):
            return self.graph(x)
        if isinstance(x, tuple):
            return tuple([self.param(item, node) for item in x])
        if isinstance(x, np.dtype):
            return NARROWED.get(x.name, x)
        if isinstance(x, np.ndarray) and x.dtype.name in NARROWED:
            return self.narrowed(x, node)
        if node.op.name == "full" and isinstance(x, float | complex) and node.outputs[0].dtype.name in NARROWED:
            return self.narrowed(np.asarray(x, node.outputs[0].dtype), node).item()
        return x

    def narrowed(self, x: NDArray, node: Node) -> NDArray:
        """A constant in the narrow dtype; raises UnsupportedError for numbers that it makes infinite or 0."""
        parts = np.ascontiguousarray(x).reshape(-1).view(np.float64)
        with np.errstate(all="ignore"):
            narrow = parts.astype(np.float32)
        for own, other in zip(limits_of(np.float64), limits_of(np.float32), strict=True):
            narrow = np.where(np.abs(parts) == own, np.copysign(other, narrow), narrow)
        lost = np.isfinite(parts) & (~np.isfinite(narrow) | ((narrow == 0) & (parts != 0)))
        if lost.any():
            raise UnsupportedError(
                f"export to {self.target.name}: the constant {parts[lost].flat[0]} is beyond float32",
                hint="write numbers between 1e-45 and 3e38",
                where=node.where,
            )
        return narrow.view(NARROWED[x.dtype.name]).reshape(x.shape)


def limits_of(dtype: Any) -> tuple[Any, Any]:
    """The largest number and the smallest normal one: a program that has those of float64 means its dtype's own."""
    limits = dtypes.limits(dtype)
    return limits.max, limits.smallest_normal


def narrow_type(t: Type) -> Type:
    """The type with narrow floats."""
    return array_type(t.shape, NARROWED[t.dtype.name]) if t.dtype.name in NARROWED else t

"""Mixed precision: contractions in a half precision, sensitive operations in float32, others as their operands are.

h = tanh(x @ w)      -->   h = tanh(cast(x, bf16) @ cast(w, bf16))
s = sum(exp(h))      -->   s = sum(exp(cast(h, f32)))

Only values of float32 take part; those that the program itself has cast to another dtype keep it, and so do integers.
Inputs and outputs of the graph keep their types. After Micikevicius et al., "Mixed precision training", ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.ir.build import blame, build
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.checkpoint import CheckpointPrimitive
from wholestep.primitives.creation import cast
from wholestep.primitives.family import number_of
from wholestep.primitives.loops import Scan
from wholestep.primitives.movement import Broadcast, Movement, Reshape
from wholestep.primitives.precision import FOLLOWS, INSIDE, LOW, WIDE
from wholestep.primitives.structure import Composite, Cond, While

FULL = "float32"
"""The label of a composite whose body stays as it is."""

HALVES = ("bfloat16", "float16")
_F32 = np.dtype(np.float32)


def narrows(params: Mapping[str, Any]) -> bool:
    """Test whether a composite's body may be in a half precision: a stated rule may rely on its operands' dtypes."""
    return params["label"] != FULL and (params["rule"] is None or params["rule"].narrow)


def autocast(graph: Graph, low: np.dtype[Any]) -> Graph:
    """The graph with its precision-tolerant operations in the dtype `low`; inputs and outputs keep their dtypes."""
    return recast(graph, low, graph.in_types, graph.out_types)


def recast(graph: Graph, low: np.dtype[Any], types: Sequence[Type], outs: Sequence[Type] | None = None) -> Graph:
    """The graph for inputs of these types, some of them in half precision; `outs`, if given, are its output types.

    The graph is cached for each combination.
    """
    key = ("autocast", low, tuple(types), None if outs is None else tuple(outs))

    def run(*values: Value) -> list[Value]:
        return Walk(low, graph, values).outputs(outs)

    def make() -> Graph:
        made, captured = build(run, types, name=graph.name, names=graph.input_names, named=True)
        assert not captured
        return made

    found: Graph = graph.derived(key, make)
    return found


class Walk:
    """The emission of one graph into the current builder, with each operation in its own precision."""

    def __init__(self, low: np.dtype[Any], graph: Graph, values: Sequence[Value]) -> None:
        self.low, self.graph = low, graph
        self.env: dict[Value, Value] = dict(zip(graph.inputs, values, strict=True))
        self.widened: dict[Value, Value] = {}
        for node in graph.nodes:
            before = blame(node.where)
            try:
                made: Any = self.step(node)
            finally:
                blame(before)
            self.env.update(zip(node.outputs, made if node.op.multiple else (made,), strict=True))

    def outputs(self, types: Sequence[Type] | None) -> list[Value]:
        """The outputs of the graph, in these types."""
        found = [self.env[v] for v in self.graph.outputs]
        if types is None:
            return found
        return [v if v.type is t else self.wide(v) for v, t in zip(found, types, strict=True)]

    def step(self, node: Node) -> Any:
        """Emit one node on the converted values of its inputs."""
        xs, what = [self.env[v] for v in node.inputs], node.op.precision_at(node)
        on = [v.type.dtype is _F32 for v in node.inputs]
        if what == INSIDE:
            return self.inside(node, xs)
        if what == LOW:
            xs = [self.narrow(x) if o else x for x, o in zip(xs, on, strict=True)]
        elif what == WIDE or (what == FOLLOWS and self.disagree(xs, on)):
            xs = [self.wide(x) if o else x for x, o in zip(xs, on, strict=True)]
        elif what == FOLLOWS and any([x.dtype is self.low for x, o in zip(xs, on, strict=True) if o]):
            xs = [self.narrow(x) if o else x for x, o in zip(xs, on, strict=True)]
        return node.op(*xs, **node.params)

    def disagree(self, xs: Sequence[Value], on: Sequence[bool]) -> bool:
        """Test whether an operand holds more than the half precision; a number that it can hold counts for neither."""
        return any([o and x.dtype is _F32 and not self.fits(x) for x, o in zip(xs, on, strict=True)])

    def fits(self, x: Value) -> bool:
        """Test whether x is one number everywhere, and one that the half precision can hold without loss of range."""
        while x.node is not None and isinstance(x.node.op, Broadcast | Reshape):
            x = x.node.inputs[0]
        number = number_of(x)
        if number is None:
            return False
        limits = dtypes.limits(self.low)
        if isinstance(number, Dim):  # a whole number, and any one
            return float(limits.max) > np.iinfo(np.int64).max
        size = abs(float(number))
        return size == 0 or not np.isfinite(size) or float(limits.smallest_normal) <= size <= float(limits.max)

    def narrow(self, x: Value) -> Value:
        """x in the half precision.

        Every use rounds it anew, so that its cotangents come back to float32 before they are added; the compiler
        makes one of equal casts.
        """
        if x.dtype is self.low:
            return x
        node = x.node
        if node is not None and number_of(x) is not None:
            made: Value = node.op(**{**node.params, "dtype": self.low})
        elif node is not None and isinstance(node.op, Movement) and len(node.inputs) == 1:
            made = node.op(self.narrow(node.inputs[0]), **node.params)
        else:
            made = cast(x, dtype=self.low)
        return made

    def wide(self, x: Value) -> Value:
        """x in float32, where it has been rounded to the half precision."""
        if x.dtype is _F32:
            return x
        found = self.widened.get(x)
        if found is None:
            found = self.widened[x] = cast(x, dtype=_F32)
        return found

    def restored(self, xs: Sequence[Value], like: Sequence[Value]) -> list[Value]:
        """Values in the dtypes that these have."""
        return [x if x.dtype is v.dtype else self.wide(x) for x, v in zip(xs, like, strict=True)]

    def inside(self, node: Node, xs: Sequence[Value]) -> Any:
        """A node that holds graphs."""
        op, params = node.op, node.params
        if isinstance(op, CheckpointPrimitive) or (isinstance(op, Composite) and narrows(params)):
            return op(*xs, **{**params, "graph": recast(params["graph"], self.low, types_of(xs))})
        if isinstance(op, Cond):
            return op(xs[0], *xs[1:], branches=self.branches(params["branches"], types_of(xs[1:])))
        if isinstance(op, Scan):
            return self.scan(node, xs)
        if isinstance(op, While):
            return self.while_loop(node, xs)
        return op(*self.restored(xs, node.inputs), **params)

    def branches(self, branches: Sequence[Graph], types: Sequence[Type]) -> tuple[Graph, ...]:
        """Branches that agree on their result types: the recast ones where they are equal, else the declared ones."""
        made = [recast(b, self.low, types) for b in branches]
        outs = [
            found[0] if all([t is found[0] for t in found]) else declared
            for declared, *found in zip(branches[0].out_types, *[m.out_types for m in made], strict=True)
        ]
        return tuple([recast(b, self.low, types, outs) for b in branches])

    def scan(self, node: Node, xs: Sequence[Value]) -> Any:
        """A loop: its carry is float32 as declared, and so do the gradients of its constants add up."""
        graph, (c, k) = node.params["graph"], node.params["sizes"]
        carry = self.restored(xs[c : c + k], node.inputs[c : c + k])
        types = [*types_of([*xs[:c], *carry]), *[array_type(x.shape[1:], x.dtype) for x in xs[c + k :]]]
        stacked = recast(graph, self.low, types).out_types[k:]
        made = recast(graph, self.low, types, [*graph.out_types[:k], *stacked])
        return node.op(*xs[:c], *carry, *xs[c + k :], **{**node.params, "graph": made})

    def while_loop(self, node: Node, xs: Sequence[Value]) -> Any:
        """A loop of unknown length: likewise."""
        (p, b), predicate, body = node.params["constants"], node.params["predicate"], node.params["body"]
        carry = self.restored(xs[p + b :], node.inputs[p + b :])
        test = recast(predicate, self.low, types_of([*xs[:p], *carry]))
        made = recast(body, self.low, types_of([*xs[p : p + b], *carry]), body.out_types)
        return node.op(*xs[: p + b], *carry, predicate=test, body=made, constants=(p, b))


def types_of(values: Sequence[Value]) -> list[Type]:
    return [v.type for v in values]

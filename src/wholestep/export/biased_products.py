"""Products of two matrices with a row added to each row of them, which libraries have one operation for.

add(contract(x, w, spec="ij,jk->ik"), broadcast(b, axes=(1,)))
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from wholestep.export.split_gradients import node_of
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.contraction import parts


class BiasedProduct(NamedTuple):
    """A product and its bias."""

    bias: Value
    x: Value
    w: Value
    inner: frozenset[Node]
    """The operations that nothing needs where both are one."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return self.bias, self.x, self.w


def biased_products_in(graph: Graph) -> dict[Node, BiasedProduct]:
    """The sums of a graph that add a bias to a product which nothing else reads, in float32 or float64."""
    count = Counter([v for node in graph.nodes for v in node.inputs] + list(graph.outputs))
    found = {}
    for node in graph.nodes:
        if node.op.name == "add":
            tries = (biased(*node.inputs), biased(*reversed(node.inputs)))
            made = next(
                (each for each, v in zip(tries, node.inputs, strict=True) if each is not None and count[v] == 1), None
            )
            if made is not None:
                found[node] = made
    return found


def biased(product: Value, repeated: Value) -> BiasedProduct | None:
    """A product of matrices with a repeated row added; None for another sum."""
    made, row = node_of(product, "contract"), node_of(repeated, "broadcast")
    if made is None or row is None or product.dtype.name not in ("float32", "float64"):
        return None
    a, b, out = parts(made.params["spec"])
    x, w = made.inputs
    if len(out) == 2 and len(b) == 2 and b[1] != out[1]:
        a, b, x, w = b, a, w, x
    plain = len(out) == len(a) == len(b) == 2 and a[0] == out[0] and b[1] == out[1] and a[1] == b[0] and a[0] != b[1]
    bias = row.inputs[0]
    if not plain or row.params["axes"] != (1,) or bias.shape != product.shape[1:]:
        return None
    return BiasedProduct(bias, x, w, frozenset((made, row)))

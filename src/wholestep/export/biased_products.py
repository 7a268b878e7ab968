"""Products with a row added to each row of them, or a number to each channel, which libraries have one operation for.

add(contract(x, w, spec="ij,jk->ik"), broadcast(b, axes=(1,)))
add(contract(window(x), w, spec="nchwij,ocij->nohw"), broadcast(b, axes=(1,)))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wholestep.export.convolutions import ConvolvedProduct
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import defining_node
from wholestep.primitives.contraction import parts


class BiasedProduct(NamedTuple):
    """A product and its bias."""

    product: Node
    bias: Value
    axis: int
    """The axis of the product along which the bias varies."""
    x: Value
    w: Value
    inner: frozenset[Node]
    """The operations that become unused when both are one operation."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return self.bias, self.x, self.w


def biased_products_in(graph: Graph) -> dict[Node, BiasedProduct]:
    """The sums of a graph that add a row to the rows of a product of two matrices, neither of them transposed."""
    found = {}
    for node, each in sums_with_bias(graph):
        a, b, out = parts(each.product.params["spec"])
        x, w = each.product.inputs
        if b[-1:] != out[-1:]:
            a, b, x, w = b, a, w, x
        plain = len(out) == len(a) == len(b) == 2 and (a[0], b[1]) == (*out,) and a[1] == b[0]
        if plain and each.axis == 1:
            found[node] = each._replace(x=x, w=w)
    return found


def biased_convolutions_in(graph: Graph, known: Mapping[Node, ConvolvedProduct]) -> dict[Node, BiasedProduct]:
    """The sums of a graph that add a number to each channel of a convolution."""
    found = {}
    for node, each in sums_with_bias(graph) if known else ():
        c = known.get(each.product)
        if c is not None and c.is_plain and not c.of_kernel and {*c.gaps} == {1}:
            if each.axis == c.out.index(c.features[0]):
                found[node] = each
    return found


def sums_with_bias(graph: Graph) -> Iterator[tuple[Node, BiasedProduct]]:
    """The sums of a product without other users and a vector broadcast from one axis, in float32 or float64."""
    count = Counter([v for node in graph.nodes for v in node.inputs] + list(graph.outputs))
    for node in graph.nodes:
        for product, repeated in (node.inputs, reversed(node.inputs)) if node.op.name == "add" else ():
            made, row = defining_node(product, "contract"), defining_node(repeated, "broadcast")
            if made is None or row is None or product.dtype.name not in ("float32", "float64"):
                continue
            axes, bias, (x, w) = row.params["axes"], row.inputs[0], made.inputs
            if count[product] == 1 and len(axes) == 1 and bias.shape == (product.shape[axes[0]],):
                yield node, BiasedProduct(made, bias, axes[0], x, w, frozenset((made, row)))
                break

"""Updates of Adam in a step, for libraries that move all parameters in one operation, in the memory of the state.

m1 = b1 * m + (1 - b1) * g;  v1 = b2 * v + (1 - b2) * g * g
p1 = p - lr / (1 - b1**t) * m1 / (sqrt(v1) * (1 / sqrt(1 - b2**t)) + eps)

In a guarded step each of them is select(skipped, old, new); with a weight decay p is p * (1 - lr * decay) first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from wholestep.export.own_memory import lying_in
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import defining_node
from wholestep.primitives.family import number_of


class Numbers(NamedTuple):
    """The numbers of an update, which have no axes; `decay` and `skipped` are None where there is none."""

    t: Value
    lr: Value
    b1: Value
    b2: Value
    eps: Value
    decay: Value | None = None
    skipped: Value | None = None
    """True where the step leaves its state as it is."""


class MovedLeaf(NamedTuple):
    """One parameter of an update: its gradient, the arrays before it, and those after it in the same order."""

    g: Value
    old: tuple[Value, ...]
    """The parameter, and the means of its gradient and of the square of that."""
    new: tuple[Value, ...]


class AdamUpdate(NamedTuple):
    """The parameters of one dtype that are moved with the same numbers."""

    leaves: tuple[MovedLeaf, ...]
    numbers: Numbers

    @property
    def columns(self) -> tuple[tuple[Value, ...], ...]:
        """Parameters, gradients, and both means."""
        p, m, v = zip(*[leaf.old for leaf in self.leaves], strict=True)
        return p, tuple([leaf.g for leaf in self.leaves]), m, v

    @property
    def operands(self) -> tuple[Value, ...]:
        """All that it reads."""
        return (*[x for column in self.columns for x in column], *[x for x in self.numbers if x is not None])

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The arrays that it makes: parameters and both means."""
        return tuple([x for column in zip(*[leaf.new for leaf in self.leaves], strict=True) for x in column])

    @property
    def inner(self) -> frozenset[Node]:
        """The operations that nothing needs where the update is one operation."""
        return nodes_between(self.outputs, self.operands)


def adam_updates_in(graph: Graph, resident: Sequence[tuple[int, int]]) -> list[AdamUpdate]:
    """The updates of a step that may take the memory of the state which they replace."""
    new_of = {graph.inputs[i]: graph.outputs[o] for i, o in resident}
    tried = [leaf_of(p, p1, new_of) for p, p1 in new_of.items()]
    made = [each for each in tried if each is not None and is_alone(graph, *each)]
    replaced = {v for leaf, _ in made for v in leaf.new}
    read = [x for leaf, numbers in made for x in (leaf.g, *numbers) if x is not None]
    kept = lying_in([*[v for v in graph.outputs if v not in replaced], *read])
    found: dict[tuple[Numbers, object], list[MovedLeaf]] = {}
    for leaf, numbers in made:
        if kept.isdisjoint(leaf.old):
            found.setdefault((numbers, leaf.g.dtype), []).append(leaf)
    return [AdamUpdate(tuple(leaves), numbers) for (numbers, _), leaves in found.items()]


def leaf_of(p: Value, p1: Value, new_of: Mapping[Value, Value]) -> tuple[MovedLeaf, Numbers] | None:
    """A parameter that an update moves, and with which numbers; None where p1 is something else."""
    skipped, moved = kept_and_made(p, p1)
    step = None if (sub := defining_node(moved, "sub")) is None else step_of(sub.inputs[1])
    if sub is None or step is None:
        return None
    m1, v1, numbers = step
    first, second = mean_of(m1, numbers.b1), mean_of(v1, numbers.b2)
    whole, decay = decayed(sub.inputs[0], p, numbers.lr)
    if first is None or second is None or not whole:
        return None
    (m, g), (v, square) = first, second
    old, new = (p, m, v), tuple([new_of.get(x, x) for x in (p, m, v)])
    same = all([kept_and_made(x, y) == (skipped, made) for x, y, made in zip(old, new, (moved, m1, v1), strict=True)])
    product = defining_node(square, "mul")
    if not same or product is None or product.inputs != (g, g) or not is_plain(g, *old):
        return None
    return MovedLeaf(g, old, new), numbers._replace(decay=decay, skipped=skipped)


def kept_and_made(old: Value, new: Value) -> tuple[Value | None, Value]:
    """(the condition under which the old array stays or None, the array that replaces it otherwise)."""
    choice = defining_node(new, "select")
    if choice is None or choice.inputs[1] is not old:
        return None, new
    return number_behind(choice.inputs[0]), choice.inputs[2]


def step_of(x: Value) -> tuple[Value, Value, Numbers] | None:
    """(m1, v1, numbers) of lr / (1 - b1**t) * m1 / (sqrt(v1) / sqrt(1 - b2**t) + eps); None for another value."""
    ratio = defining_node(x, "div")
    total = None if ratio is None else defining_node(ratio.inputs[1], "add")
    if ratio is None or total is None:
        return None
    sized = factors(ratio.inputs[0], is_quotient)
    for spread, eps in (total.inputs, reversed(total.inputs)):
        shrunk = factors(spread, is_quotient)
        if shrunk is None or sized is None or number_behind(eps).ndim:
            continue
        (size, m1), (shrink, deviation) = sized, shrunk
        (lr, left), (one, other) = inputs_of(size), inputs_of(shrink)
        under, root = defining_node(other, "sqrt"), defining_node(deviation, "sqrt")
        first, second = powered(left), None if under is None else powered(under.inputs[0])
        if root is not None and number_of(one) == 1 and first is not None and second is not None:
            (b1, t), (b2, same) = first, second
            if t is same:
                return m1, root.inputs[0], Numbers(t, number_behind(lr), b1, b2, number_behind(eps))
    return None


def is_quotient(x: Value) -> bool:
    """True for what a division gives."""
    return defining_node(x, "div") is not None


def inputs_of(x: Value) -> tuple[Value, ...]:
    """The operands of the operation that gives a value; none where a value is given."""
    return () if x.node is None else x.node.inputs


def powered(x: Value) -> tuple[Value, Value] | None:
    """(b, t) of 1 - b**t."""
    power = None if (other := complement(x)) is None else defining_node(other, "pow")
    return None if power is None else (number_behind(power.inputs[0]), power.inputs[1])


def complement(x: Value) -> Value | None:
    """The value that is taken from 1."""
    node = defining_node(x, "sub")
    return number_behind(node.inputs[1]) if node is not None and number_of(node.inputs[0]) == 1 else None


def mean_of(x: Value, keep: Value) -> tuple[Value, Value] | None:
    """(mean, y) of keep * mean + (1 - keep) * y."""
    node = defining_node(x, "add")
    for a, b in () if node is None else (node.inputs, reversed(node.inputs)):
        kept, taken = factors(a, lambda s: s is keep), factors(b, lambda s: complement(s) is keep)
        if kept is not None and taken is not None:
            return kept[1], taken[1]
    return None


def decayed(x: Value, p: Value, lr: Value) -> tuple[bool, Value | None]:
    """(whether x is p after a weight decay, the decay; None for none)."""
    found = factors(x, lambda s: complement(s) is not None)
    if x is p or found is None or found[1] is not p:
        return x is p, None
    rest = complement(found[0])
    product = None if rest is None else defining_node(rest, "mul")
    for a, b in () if product is None else (product.inputs, reversed(product.inputs)):
        if number_behind(a) is lr:
            return True, number_behind(b)
    return False, None


def factors(x: Value, holds: Callable[[Value], bool]) -> tuple[Value, Value] | None:
    """(number, array) of a product of an array with a number for which something holds."""
    node = defining_node(x, "mul")
    for a, b in () if node is None else (node.inputs, reversed(node.inputs)):
        number = number_behind(a)
        if number.ndim == 0 and holds(number):
            return number, b
    return None


def number_behind(x: Value) -> Value:
    """The value without axes that is repeated and cast to another."""
    while (node := defining_node(x, "broadcast", "cast")) is not None and node.inputs[0].ndim == 0:
        x = node.inputs[0]
    return x


def is_plain(*arrays: Value) -> bool:
    """True for arrays of one type, float32 or float64, whose shape is known and not empty."""
    t = arrays[0].type
    known = all([isinstance(n, int) and n > 0 for n in t.shape])
    return known and t.dtype.name in ("float32", "float64") and all([v.type == t for v in arrays])


def is_alone(graph: Graph, leaf: MovedLeaf, numbers: Numbers) -> bool:
    """True where each new array is an output once, and nothing else reads it."""
    inner = AdamUpdate((leaf,), numbers).inner
    once = len({*leaf.new}) == len(leaf.new) and all([graph.outputs.count(v) == 1 for v in leaf.new])
    return once and not any([v in leaf.new for node in graph.nodes if node not in inner for v in node.inputs])


def nodes_between(outputs: Sequence[Value], operands: Sequence[Value]) -> frozenset[Node]:
    """The operations that make some values out of others."""
    left, given, found = list(outputs), {*operands}, set[Node]()
    while left:
        v = left.pop()
        if v not in given and v.node is not None and v.node not in found:
            found.add(v.node)
            left += v.node.inputs
    return frozenset(found)

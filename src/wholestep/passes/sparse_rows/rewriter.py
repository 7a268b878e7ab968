"""A walk over a graph that follows the gradients of gathers row by row, as long as the other rows allow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from wholestep.errors import show
from wholestep.ir.analysis import in_order
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import count_uses, defining_node
from wholestep.passes.rules.arithmetic import is_positive_zero
from wholestep.passes.sparse_rows.backgrounds import (
    Background,
    Computed,
    Same,
    Uniform,
    dense_background,
    pointwise_background,
    reduced_background,
)
from wholestep.passes.sparse_rows.row_sets import GatherGradient, RowEmitter, RowSet, RowwiseValue
from wholestep.primitives.arithmetic import add
from wholestep.primitives.family import Pointwise
from wholestep.primitives.indexing import Gather, ScatterAdd
from wholestep.primitives.movement import Broadcast, Reshape
from wholestep.primitives.reduction import Reduction

MIN_BYTES = 2**20
"""The least bytes of a table whose rows are updated alone."""
MIN_ROWS = 4
"""The least rows of a table for each index that reads it in a step."""
MIN_SPARED = 2**12
"""The least bytes of a table, for each index, whose gradient stays rows while every row is updated: the time to sort an
index and to write its row twice is that to write and read some thousand bytes in sequence."""


def is_large_scatter(node: Node) -> bool:
    """True for a node that may be the gradient of a gather from a large table."""
    if not isinstance(node.op, ScatterAdd):
        return False
    size = node.outputs[0].type.nbytes
    return isinstance(size, int) and size >= MIN_BYTES


class RowWrite(NamedTuple):
    """A write of rows, and whether the other rows of the table stay as they are."""

    set: RowSet
    alone: bool


@dataclass
class Findings:
    """The findings of a walk about the gradients of gathers, over all nested graphs."""

    refused: set[Node] = field(default_factory=set)
    """Gradients that are needed whole, by the operation that scatters them into zeros."""
    mirrors: dict[Node, Node] = field(default_factory=dict)
    """The original of each such operation in the new graph, where it is live if the gradient is needed whole."""
    names: dict[Node, str] = field(default_factory=dict)
    """The name of the table of each gradient, an input of the program."""
    reasons: dict[Node, str] = field(default_factory=dict)
    """The reason why a gradient is needed whole."""
    writes: dict[Node, RowWrite] = field(default_factory=dict)
    """The operations of the new graph that write rows of a table; those that nothing uses are dropped with it."""


class RowRewriter(RowEmitter):
    """One graph but for its nested graphs; `given` are inputs known row by row, `names` those that have a name."""

    def __init__(
        self, graph: Graph, findings: Findings, names: dict[Value, str], given: dict[Value, RowwiseValue]
    ) -> None:
        super().__init__(graph)
        self.findings, self.names = findings, names
        self.rows = dict(given)
        self.parts: dict[Value, tuple[GatherGradient, ...]] = {}
        """Sums of gradients of gathers, whose rows are not summed yet."""
        self.sums: dict[Value, tuple[Value, tuple[GatherGradient, ...]]] = {}
        """Inputs to which nothing but gradients of gathers is added, as an accumulator is."""
        self.taken: dict[tuple[Value, RowSet], Value] = {}
        self.indices: dict[RowSet, Value] = {}
        self.inputs = set(graph.inputs)
        self.elementwise: dict[Value, bool] = {}
        """For each value that was asked about, whether it is computed from inputs by elementwise operations alone."""
        self.uses = count_uses(graph)
        for v, rows in given.items():
            self.restore(v, rows)

    def run(self) -> None:
        """Emit every node; `finish` then returns the graph without dead nodes."""
        for node in self.source.nodes:
            self.like = node
            if self.is_source(node):
                self.keep(node)
                self.findings.mirrors[self.nodes[-1]] = node
                updates, *indices = [self.env.get(v, v) for v in node.inputs[1:]]
                self.parts[node.outputs[0]] = (GatherGradient(node, updates, tuple(indices)),)
            elif self.nested(node):
                continue
            elif self.rows.keys().isdisjoint(node.inputs) and self.parts.keys().isdisjoint(node.inputs):
                self.keep(node)
            else:
                self.by_rows(node)

    def nested(self, node: Node) -> bool:
        """True if a node holds graphs, and was emitted with those rewritten."""
        raise NotImplementedError

    def is_source(self, node: Node) -> bool:
        """True for the gradient of a gather from a table that is much larger than the gathered rows."""
        if not isinstance(node.op, ScatterAdd) or not is_positive_zero(node.inputs[0]):
            return False
        table, axes, index = node.outputs[0].type, node.params["axes"], node.inputs[2].type
        sizes = (*table.shape, *index.shape)
        if axes != tuple(range(len(axes))) or not all(isinstance(n, int) for n in sizes):
            return False
        if not index.size or not is_large_scatter(node):
            return False
        name = self.table_name(node)
        if name:
            self.findings.names.setdefault(node, name)
        return node not in self.findings.refused and self.fits(node, table.shape[: len(axes)], index.size)

    def fits(self, node: Node, lead: Sequence[int], slots: int) -> bool:
        """True if so few rows are read that updating them alone pays."""
        rows = math.prod(lead)
        if slots * MIN_ROWS <= rows:
            return True
        self.complain([node], f"{slots:,} indices read its {rows:,} rows")
        return False

    def table_name(self, node: Node) -> str:
        """The name of the input that is gathered at the indices of a gradient; empty where it is no input."""
        for other in self.source.nodes:
            x = other.inputs[0] if other.inputs else None
            if isinstance(other.op, Gather) and x is not None and other.inputs[1:] == node.inputs[2:]:
                if x.type is node.outputs[0].type and x in self.names:
                    return self.names[x]
        return ""

    def complain(self, sources: Sequence[Node], why: str) -> None:
        """Note the reason why gradients are needed whole, unless one is noted already."""
        for source in sources:
            self.findings.reasons.setdefault(source, why)

    # Values row by row.

    def by_rows(self, node: Node) -> None:
        """Emit an operation on values that are known row by row."""
        if node.op is add and self.add_parts(node):
            return
        for v in node.inputs:
            self.settle(v)
        found = self.restored(node)
        if isinstance(found, Value):  # a reduction over all rows
            self.env[node.outputs[0]] = found
            return
        if found is not None and self.restore(node.outputs[0], found):
            if not self.is_input(found.background):
                self.complain_of_background(node, found)
            return
        self.keep(node)
        if found is None:
            sources = [s for v in node.inputs if v in self.rows for s in self.rows[v].set.sources]
            self.complain(sources, f"{node.op.name} needs every row of its gradient{self.place(node)}")
        else:
            self.complain_of_background(node, found)

    def restored(self, node: Node) -> RowwiseValue | Value | None:
        """The rows of a result, or the result of a reduction over all rows; None where it needs whole operands."""
        if isinstance(node.op, Pointwise):
            return self.pointwise(node)
        if isinstance(node.op, Reduction):
            return self.reduction(node)
        return self.moved(node) if isinstance(node.op, Broadcast | Reshape) else None

    def add_parts(self, node: Node) -> bool:
        """Gradients of gathers added to each other, or to an input that only gathers them; False for other sums."""
        x, y = node.inputs
        out = node.outputs[0]
        a, b = self.parts.get(x), self.parts.get(y)
        if a and b and len(a[0].indices) == len(b[0].indices):
            lead = out.shape[: len(a[0].indices)]
            if all(self.fits(p.source, lead, sum([q.slots for q in (*a, *b)])) for p in (*a, *b)):
                self.keep(node)
                self.parts[out] = (*a, *b)
                return True
        if a and y in self.inputs and y not in self.rows:
            x, y, a, b = y, x, b, a
        if b and x in self.inputs and x not in self.rows and self.uses[x] == self.uses[out] == 1:
            self.sums[out] = (x, b)
        return False

    def settle(self, v: Value) -> None:
        """Sum the rows of a gradient that an operation other than a sum uses."""
        if v in self.parts and v not in self.rows:
            before, self.like = self.like, self.parts[v][0].source
            self.rows[v] = self.sum_rows(self.parts[v])
            self.like = before

    def restore(self, v: Value, rows: RowwiseValue) -> bool:
        """Enter the rows of a value; True if the whole value is its background with these rows written into it."""
        self.rows[v] = rows
        background = rows.background
        alone = self.is_input(background)
        if isinstance(background, Uniform) or not (alone or v.type.nbytes >= MIN_SPARED * rows.set.slots):
            return False
        x = self.whole(background, v)
        if x is None or x.type != v.type:
            return False
        flat = self.reshape(x, (rows.set.rows, *v.shape[len(rows.set.lead) :]))
        written = self.op("scatter", flat, rows.value, self.index(rows.set), axes=(0,))
        self.findings.writes[self.nodes[-1]] = RowWrite(rows.set, alone)
        self.env[v] = self.reshape(written, v.shape)
        return True

    def is_input(self, background: Background) -> TypeGuard[Same]:
        """True for the elements of an input."""
        return isinstance(background, Same) and background.value in self.inputs

    def whole(self, background: Background, v: Value) -> Value | None:
        """A background as a whole array like v; None where it depends on more than inputs and elementwise operations,
        so that it would be an array beside the gradient, in place of which it is used."""
        if isinstance(background, Uniform):
            return self.full(background.number.item(), v.shape, v.dtype)
        if isinstance(background, Same):
            x = background.value
            return self.env.get(x, x) if self.is_elementwise(x) else None
        return None if background is None else background.value

    def is_elementwise(self, wanted: Value) -> bool:
        """True for a value that is computed from inputs and single numbers by elementwise operations and moves."""

        def needs(v: Value) -> Sequence[Value]:
            return () if v.type.size == 1 or v.node is None else v.node.inputs

        def judge(v: Value) -> None:
            node = v.node
            if node is None or v in self.inputs or v.type.size == 1:
                found = v in self.inputs or v.type.size == 1
            else:
                found = isinstance(node.op, Pointwise | Broadcast | Reshape) or not node.inputs
                found = found and all([self.elementwise[x] for x in node.inputs])
            self.elementwise[v] = found and v not in self.rows

        in_order(wanted, self.elementwise.__contains__, needs, judge)
        return self.elementwise[wanted]

    def index(self, own: RowSet) -> Value:
        """The rows of a set as an index."""
        if own not in self.indices:
            self.indices[own] = self.below(own.ids, own.rows)
        return self.indices[own]

    def take(self, wanted: Value, own: RowSet) -> Value:
        """The rows of a value in the slots of a set, computed from the rows of its operands where it is elementwise."""

        def known(v: Value) -> bool:
            return (v, own) in self.taken or (v in self.rows and self.rows[v].set is own)

        def needs(v: Value) -> Sequence[Value]:
            return v.node.inputs if v.node is not None and isinstance(v.node.op, Pointwise) else ()

        in_order(wanted, known, needs, lambda v: self.taken.__setitem__((v, own), self.taken_rows(v, own)))
        return self.taken_row(wanted, own)

    def taken_row(self, v: Value, own: RowSet) -> Value:
        """The rows of a value that are known already."""
        return self.taken[v, own] if (v, own) in self.taken else self.rows[v].value

    def taken_rows(self, v: Value, own: RowSet) -> Value:
        """The rows of a value from those of its operands, or gathered from itself."""
        node, k, shape = v.node, len(own.lead), own.narrow(v.type)
        if node is not None and isinstance(node.op, Pointwise):
            return self.add(node.op, [self.taken_row(x, own) for x in node.inputs], node.params, self.like)[0]
        filled = defining_node(v, "full")
        if filled is not None:
            return self.full(filled.params["value"], shape, v.dtype)
        spread = defining_node(v, "broadcast")
        if spread is not None and all(a >= k for a in spread.params["axes"]):
            (x,) = spread.inputs
            return self.op("broadcast", self.env.get(x, x), shape=shape, axes=own.row_axes(spread.params["axes"]))
        flat = self.reshape(self.env.get(v, v), (own.rows, *shape[1:]))
        return self.op("gather", flat, self.index(own), axes=(0,))

    def pointwise(self, node: Node) -> RowwiseValue | None:
        """An elementwise operation, row by row."""
        found = [self.rows[v] for v in node.inputs if v in self.rows]
        own = found[0].set
        if any(rows.set is not own for rows in found):
            return None
        value = self.add(node.op, [self.take(v, own) for v in node.inputs], node.params, node)[0]
        given: list[Background] = [
            self.rows[v].background if v in self.rows else dense_background(v) for v in node.inputs
        ]
        background = pointwise_background(node, given)
        if background is None and not all([self.is_input(rows.background) for rows in found]):
            background = self.computed(node, given)
        return RowwiseValue(own, value, background)

    def computed(self, node: Node, given: Sequence[Background]) -> Background:
        """The background of an elementwise result, computed from those of its operands; None where one is none.

        It is not asked for where the operands are inputs with rows written into them, since these are there whole.
        """
        operands = [self.whole(b, v) for b, v in zip(given, node.inputs, strict=True)]
        found = [x for x in operands if x is not None]
        if len(found) < len(operands):
            return None
        return Computed(self.add(node.op, found, node.params, node)[0])

    def moved(self, node: Node) -> RowwiseValue | None:
        """A broadcast or reshape that leaves the rows as they are."""
        (x,), out = node.inputs, node.outputs[0].type
        own, value, background = self.rows[x]
        k = len(own.lead)
        if x.shape[:k] != own.lead or out.shape[:k] != own.lead:
            return None
        background = background if isinstance(background, Uniform) else None
        if isinstance(node.op, Reshape):
            return RowwiseValue(own, self.reshape(value, own.narrow(out)), background)
        axes = node.params["axes"]
        if axes[:k] != tuple(range(k)):
            return None
        wide = self.op("broadcast", value, shape=own.narrow(out), axes=(0, *own.row_axes(axes[k:])))
        return RowwiseValue(own, wide, background)

    def reduction(self, node: Node) -> RowwiseValue | Value | None:
        """A reduction within rows, or over all rows if the contribution of the other rows is one number."""
        own, value, background = self.rows[node.inputs[0]]
        axes, k = node.params["axes"], len(own.lead)
        rest = [a for a in axes if a >= k]
        if len(rest) == len(axes):
            inner = self.add(node.op, [value], {"axes": own.row_axes(rest)}, node)[0]
            return RowwiseValue(own, inner, reduced_background(node, background))
        if len(axes) - len(rest) < k or not isinstance(background, Uniform):
            return None
        number, name = background.number, node.op.name
        if name == "sum" and not number:
            once = self.op("broadcast", own.first, shape=value.shape, axes=(0,))
            value = self.op("select", once, value, self.full(0, value.shape, value.dtype))
        elif name not in ("all", "any", "max", "min"):
            return None
        found = self.add(node.op, [value], {"axes": (0, *own.row_axes(rest))}, node)[0]
        if name == "sum":
            return found
        return self.op(node.op.combiner, found, self.full(number.item(), found.shape, found.dtype))

    def complain_of_background(self, node: Node, found: RowwiseValue) -> None:
        """Note the operation by which rows without a gradient begin to change."""
        if found.background is None or isinstance(found.background, Uniform):
            return
        sources = self.elementwise_sources(found.background.value)
        name = next((self.names[x] for x in sources if x in self.names), None)
        if name is not None:
            why = f"{name} changes in every row"
        elif isinstance(found.background, Computed):
            return  # of operations before the one by which an array of the state changes
        else:
            made = sources[0].node
            what = made.op.name if made is not None else "what is added"
            why = f"its gradient has every row, by {what}{self.place(made or node)}"
        self.complain(found.set.sources, why)

    def elementwise_sources(self, v: Value) -> list[Value]:
        """The values of the same size that a value is computed from by elementwise operations and moves."""
        seen, waiting = {v}, [v]
        found = []
        while waiting:
            x = waiting.pop()
            moved = x.node is not None and (isinstance(x.node.op, Pointwise) or x.node.op.view)
            same = [y for y in x.node.inputs if y.type.size == x.type.size] if moved and x.node is not None else []
            found += [] if same else [x]
            waiting += [y for y in same if y not in seen]
            seen.update(same)
        return found

    def place(self, node: Node) -> str:
        """The user's line of a node."""
        line = show(node.where)
        return f", at {line}" if line else ""

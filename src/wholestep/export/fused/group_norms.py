"""Group norms that a step writes out: mean 0 and variance 1 of groups of channels of each sample, over their places."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from wholestep.export.fused.derivatives import OperandForm, WrittenFunction, body_between
from wholestep.export.fused.forms import NormForm, standardized, with_gain_and_bias
from wholestep.export.fused.formulas import formula_bindings, is_plain
from wholestep.ir.build import build
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.passes.pipeline import run_passes
from wholestep.passes.rewrite import defining_node
from wholestep.primitives.family import number_of
from wholestep.primitives.movement import reshape


class GroupLayout(NamedTuple):
    """A layout of groups: the type of the array that has them, their axis, and the axis of channels in the result."""

    split: Type
    at: int
    along: int

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of a mean."""
        return tuple([i for i in range(self.split.ndim) if i not in (0, self.at)])

    def places(self, y: Type) -> tuple[OperandForm, OperandForm]:
        """The forms in which an operation takes the array with groups, and gives its result: channels second."""
        shape, last = self.split.shape, y.ndim - 1
        if self.at == 1:
            return OperandForm(shape=y.shape), OperandForm()
        order = (0, self.at, self.at + 1, *range(1, self.at))
        x = OperandForm(order, (shape[0], math.prod(shape[self.at :]), *shape[1 : self.at]))
        return x, x if shape == y.shape else OperandForm((0, last, *range(1, last)))


def group_norms_at(graph: Graph, node: Node, form: NormForm) -> Iterator[WrittenFunction]:
    """The norms of groups that end with a node."""
    (y,) = node.outputs
    for layout in group_layouts(y, form.parts):
        formula = group_norm_formula(form, y.type, layout)
        found = formula_bindings(formula.outputs[0], y, {})
        if found is None:
            continue
        x, *parts, eps = [found[v] for v in formula.inputs]
        if number_of(eps) is not None:
            first, last = layout.places(y.type)
            places = (first, *[OperandForm() for _ in parts], last)
            yield WrittenFunction("group_norm", body_between(graph, (x, *parts), y), places, (eps,))


def group_layouts(y: Value, parts: int) -> Iterator[GroupLayout]:
    """The layouts in which an array may be normed whose channels are its second axis, or its last one.

    Channels that are last and normed each by itself stay written out, which took a third of the time of PyTorch's own.
    """
    inside = [y]
    for _ in range(parts):
        inside = [x for v in inside if v.node is not None for x in v.node.inputs]
    for v in inside:
        cut = defining_node(v, "reshape")
        split = v if cut is None else cut.inputs[0]
        if defining_node(split, "div") is None or split.ndim < 3:
            continue
        if not is_plain(split) or split.type.size != y.type.size or split.shape[0] != y.shape[0]:
            continue
        yield GroupLayout(split.type, 1, 1)
        at = split.ndim - 2
        if at > 1 and split.shape[-1] != 1 and (split is y or split.shape[:at] == y.shape[:-1]):
            yield GroupLayout(split.type, at, y.ndim - 1)


@cache
def group_norm_formula(form: NormForm, y: Type, layout: GroupLayout) -> Graph:
    """A norm of groups, whose gain and bias stand along the channels, in the words that exact passes leave."""
    split = layout.split
    one_each = array_type((y.shape[layout.along],), y.dtype)
    eps = array_type((split.shape[0], split.shape[layout.at]), y.dtype)

    def write(x: Value, *rest: Value) -> list[Value]:
        unit: Value = reshape(standardized(x, layout.axes, rest[-1]).unit, shape=y.shape)
        return [with_gain_and_bias(unit, layout.along, rest[:-1])]

    return run_passes(build(write, [split, *[one_each] * form.parts, eps])[0])

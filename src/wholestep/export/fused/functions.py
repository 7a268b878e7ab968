"""Functions that a step writes out in arrays: norms, activations and attention, found by their last operations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from wholestep.export.fused.attentions import attention_at
from wholestep.export.fused.derivatives import OperandForm, WrittenFunction, body_between
from wholestep.export.fused.forms import FORMS, NORM_FORMS, Form, NormForm
from wholestep.export.fused.formulas import formula_bindings, is_plain
from wholestep.export.fused.group_norms import group_norms_at
from wholestep.ir.build import build
from wholestep.ir.graph import Graph, Node
from wholestep.ir.types import Type, array_type
from wholestep.passes.pipeline import run_passes
from wholestep.primitives.family import number_of


def functions_at(graph: Graph, node: Node) -> Iterator[WrittenFunction]:
    """The functions of float32 or float64 that end with a node, in the order of decreasing numbers of inputs."""
    if len(node.outputs) > 1 or node.outputs[0].ndim < 2 or not is_plain(node.outputs[0]):
        return
    if node.op.name == "contract":
        found = attention_at(graph, node)
        if found is not None:
            yield found
    for norm in NORM_FORMS.get(node.op.name, ()):
        yield from norms_at(graph, node, norm)
        yield from group_norms_at(graph, node, norm)
    for form in FORMS.get(node.op.name, ()):
        yield from activations_at(graph, node, form)


def norms_at(graph: Graph, node: Node, form: NormForm) -> Iterator[WrittenFunction]:
    """The norms of a form that end with a node: over the last axis, or over all but that of the channels."""
    (y,) = node.outputs
    last = y.ndim - 1
    for batch, along in dict.fromkeys(((False, last), (True, 1), (True, last))):
        formula = norm_formula(form, y.type, batch, along)
        found = formula_bindings(formula.outputs[0], y, {})
        if found is None:
            continue
        x, *parts, eps = [found[v] for v in formula.inputs]
        number = number_of(eps)
        if number is not None:
            order = (0, along, *[i for i in range(1, y.ndim) if i != along]) if batch else ()
            place = OperandForm(order)
            body = body_between(graph, (x, *parts), y)
            pullback = norm_pullback(form, y.type, along, float(number)) if batch else None
            places = (place, *[OperandForm() for _ in parts], place)
            yield WrittenFunction("batch_norm" if batch else "layer_norm", body, places, (eps,), pullback)


def activations_at(graph: Graph, node: Node, form: Form) -> Iterator[WrittenFunction]:
    """The functions of each number that end with a node."""
    (y,) = node.outputs
    formula = activation_formula(form, y.type)
    found = formula_bindings(formula.outputs[0], y, {})
    if found is not None:
        body = body_between(graph, (found[formula.inputs[0]],), y)
        yield WrittenFunction(form.label, body, (OperandForm(), OperandForm()), (), activation_pullback(form, y.type))


@cache
def activation_formula(form: Form, x: Type) -> Graph:
    """A function of each number of an array of a type, in the words that exact passes leave."""
    return run_passes(build(lambda v: [form.write(v)], [x])[0])


@cache
def activation_pullback(form: Form, x: Type) -> Graph | None:
    """(x, gy) -> gx by the slope that a form has beside its function; None where it has none."""
    slope = form.slope
    return None if slope is None else build(lambda v, g: [g * slope(v)], [x, x])[0]


@cache
def norm_formula(form: NormForm, x: Type, batch: bool, along: int) -> Graph:
    """A norm of an array of a type, whose gain and bias stand along an axis, in the words that exact passes leave."""
    axes = mean_axes(x, batch, along)
    one_each = array_type((x.shape[along],), x.dtype)
    eps = array_type(tuple([n for i, n in enumerate(x.shape) if i not in axes]), x.dtype)
    types = [x, *[one_each] * form.parts, eps]
    return run_passes(build(lambda *xs: [form.write(axes, along, *xs)], types)[0])


@cache
def norm_pullback(form: NormForm, x: Type, along: int, eps: float) -> Graph:
    """(x, gain, bias, gy) -> their gradients where a norm of a batch has the derivative of its authors."""
    axes = mean_axes(x, True, along)
    types = [x, *[array_type((x.shape[along],), x.dtype)] * form.parts, x]
    return build(lambda *xs: form.pullback(axes, along, eps, *xs), types)[0]


def mean_axes(x: Type, batch: bool, along: int) -> tuple[int, ...]:
    """The axes of a mean: all but one for a norm of a batch, or one."""
    return tuple([i for i in range(x.ndim) if i != along]) if batch else (along,)

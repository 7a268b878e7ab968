"""The origin of the first number that is not finite: one step replayed in the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wholestep.backends import reference
from wholestep.errors import Where, show
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.primitives.creation import Cast
from wholestep.primitives.structure import Composite
from wholestep.words import Shown, printable

NAMES = {"contract": "matmul", "select": "where", "rint": "round", "expit": "sigmoid"}
"""The NumPy names of primitives with a different name."""

QUIET = ("creation", "movement", "mark")
"""Kinds of primitives that compute no new number."""


@dataclass(frozen=True, repr=False)
class Diagnosis(Shown):
    """The cause of a step that is not finite; printed, and in a REPL, it is the message.

    `step` is its number, from 0. `operation` is the operation that made the first number that is not finite, with the
    user's line, or the path of an input array that held one; None where all numbers were finite. `phase` is "input",
    "forward" or "backward". `exact` says that the step was replayed with the same parameters.
    """

    step: int
    operation: str | None
    phase: str | None
    line: str
    exact: bool
    message: str

    def __str__(self) -> str:
        return printable(self.message)


class Origin(NamedTuple):
    """The origin of numbers that are not finite: a node, or an input or a constant that already held them.

    `meant` marks infinities of an input or a constant, such as those of a mask: they are no fault until an operation
    makes nan of them, whose `source` is then the origin of the infinities.
    """

    order: int
    meant: bool
    name: str
    node: Node | None = None
    counted: str = ""
    operands: tuple[str, ...] = ()
    place: str = ""
    source: Origin | None = None


class NonfiniteSearch:
    """One graph run node by node, with the origin of every value that is not finite."""

    def __init__(self, graph: Graph, arrays: Sequence[Any], names: Sequence[str] = ()) -> None:
        self.graph = graph
        self.data: dict[Value, Any] = {}
        self.origins: dict[Value, Origin] = {}
        for i, (v, x) in enumerate(zip(graph.inputs, arrays, strict=True)):
            self.data[v] = x
            if bad(v, x):
                name = names[i] if names else ""
                self.origins[v] = Origin(-1, not np.isnan(x).any(), name, counted=count_nonfinite(x, v))
        last = {v: at for at, node in enumerate(graph.nodes) for v in (*node.inputs, *node.outputs)}
        last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
        for at, node in enumerate(graph.nodes):
            self.step(at, node)
            for v in {*node.inputs, *node.outputs}:
                if last[v] == at:
                    del self.data[v]

    @property
    def outputs(self) -> list[Any]:
        return [reference.broadcast_thin(self.data[v], v.shape) for v in self.graph.outputs]

    def first(self, values: Sequence[Value]) -> Origin | None:
        """The earliest origin of these values; an origin that is no fault comes last."""
        found = [self.origins[v] for v in values if v in self.origins]
        return min(found, key=lambda o: (o.meant, o.order), default=None)

    def step(self, at: int, node: Node) -> None:
        args = [reference.broadcast_thin(self.data[v], v.shape) for v in node.inputs]
        out = reference.apply_primitive(node.op, args, node.params, node.where)
        for v, x in zip(node.outputs, out if node.op.multiple else (out,), strict=True):
            self.data[v] = x
            if bad(v, x):
                self.origins[v] = self.origin(at, node, args, v, x)

    def origin(self, at: int, node: Node, args: Sequence[NDArray], v: Value, x: Any) -> Origin:
        """The origin of a value that is not finite."""
        known = self.first(node.inputs)
        if known is not None and (not known.meant or not np.isnan(x).any() or node.op.kind in QUIET):
            return known
        if not node.inputs:
            return Origin(at, not np.isnan(x).any(), "a constant", node, count_nonfinite(x, v))
        if node.op.nested:
            found = nested_origin(node, args)
            if found is not None:
                return found._replace(order=at)
        operands = tuple([describe_operand(u, a) for u, a in zip(node.inputs, args, strict=True) if u.type.inexact])
        return Origin(at, False, operation_name(node), node, count_nonfinite(x, v), operands, source=known)


def nested_origin(node: Node, args: Sequence[NDArray]) -> Origin | None:
    """The origin inside the graphs of a node, with the step of the loop in which it occurs."""
    found: list[Origin] = []
    runs = 0
    length: Any = node.params.get("length")

    def run(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
        nonlocal runs
        walk = NonfiniteSearch(graph, arrays)
        first = walk.first(graph.outputs)
        if not found and first is not None and first.node is not None and not first.meant:
            at = length - 1 - runs if node.params.get("reverse") else runs
            loop = f"step {at} of the {length} of a loop" if length is not None else ""
            found.append(first._replace(place=", in ".join([x for x in (first.place, loop) if x])))
        runs += 1
        return walk.outputs

    node.op.ref(*args, run=run, **node.params)
    return found[0] if found else None


def bad(v: Value, x: Any) -> bool:
    """True if an array holds a number that is not finite."""
    return v.type.inexact and not bool(np.isfinite(x).all())


def count_nonfinite(x: Any, v: Value) -> str:
    """`nan: 1 of the 16 elements of f32[16]`."""
    full = reference.broadcast_thin(np.asarray(x), v.shape)
    kinds = [("nan", np.isnan(full))]
    if v.dtype.kind != "c":
        kinds += [("inf", full == np.inf), ("-inf", full == -np.inf)]
    else:
        kinds += [("inf", ~np.isfinite(full) & ~np.isnan(full))]
    which = " and ".join([name for name, hit in kinds if hit.any()])
    n = int(np.count_nonzero(~np.isfinite(full)))
    return f"{which}: {n:,} of the {full.size:,} elements of {v.type}" if v.shape else f"{which}, {v.type}"


def describe_operand(v: Value, x: NDArray) -> str:
    """The type of an operand, with the range of its finite elements."""
    if not x.size:
        return str(v.type)
    known = x[np.isfinite(x)]
    if v.dtype.kind == "c" or not known.size:
        return f"{v.type}"
    low, high = float(known.min()), float(known.max())
    span = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
    return f"{v.type}, {span}" + ("" if known.size == x.size else ", and some that are infinite")


def operation_name(node: Node) -> str:
    """The user's name of an operation."""
    if isinstance(node.op, Composite):
        return str(node.params["label"])
    if isinstance(node.op, Cast):
        return f"rounding to {np.dtype(node.params['dtype']).name}"
    return str(NAMES.get(node.op.name, node.op.name))


def looked_at(flag: Value) -> list[Value]:
    """The values that a flag tests for being finite."""
    waiting: list[Value] = [flag]
    found: list[Value] = []
    while waiting:
        node = waiting.pop().node
        if node is not None:
            (found if node.op.name == "isfinite" else waiting).extend(node.inputs)
    return found


def replayed(graph: Graph, arrays: Sequence[NDArray], names: Sequence[str], states: int) -> tuple[Origin | None, str]:
    """The origin of the non-finite value that the guard found in one step, and its phase, as in `Diagnosis`."""
    with np.errstate(all="ignore"):
        walk = NonfiniteSearch(graph, arrays, names)
    loss, flag = graph.outputs[states : states + 2]
    found = walk.first([loss, *looked_at(flag)])
    if found is None or begun(found).node is None or found.name == "a constant":
        return found, "input"
    made = [at for at, node in enumerate(graph.nodes) if loss in node.outputs]
    return found, "forward" if made and found.order <= made[0] else "backward"


def begun(origin: Origin) -> Origin:
    """The input whose infinities an operation turned into nan; else the origin itself."""
    given = origin.source is not None and origin.source.node is None
    return origin.source if given and origin.source is not None else origin


def derivative_of(graph: Graph, node: Node) -> str:
    """The name of the forward operation of which a node of the backward pass is the derivative."""
    own = [n for n in graph.nodes if n.where == node.where and n.op.kind not in QUIET and not isinstance(n.op, Cast)]
    return operation_name(own[0]) if own and own[0] is not node else ""


def origin_report(
    origin: Origin | None, phase: str, graph: Graph, step: int, exact: bool, notes: Sequence[str]
) -> Diagnosis:
    """The diagnosis of an origin, in words."""
    if origin is None:
        text = [f"step {step}: loss and gradients are finite in the reference interpreter"]
        return Diagnosis(step, None, None, "", exact, "\n".join([*text, *[f"  {note}" for note in notes]]))
    where: Where = None if origin.node is None else origin.node.where
    first = begun(origin)
    if phase == "input":
        head = f"{first.name} holds {first.counted}, before anything is computed"
        head += f"; {origin.name} makes nan of it" if first is not origin else ""
    else:
        source = derivative_of(graph, origin.node) if phase == "backward" and origin.node is not None else ""
        head = (
            f"{origin.name} makes {origin.counted}, in the {f'derivative of {source}' if source else f'{phase} pass'}"
        )
        head += f", at {origin.place}" if origin.place else ""
    line = show(where)
    text = [f"step {step}: {head}", *[f"  at {line}"] * bool(line)]
    text += [f"  operand: {operand}" for operand in origin.operands] if first is origin else []
    return Diagnosis(step, first.name, phase, line, exact, "\n".join([*text, *[f"  {note}" for note in notes]]))

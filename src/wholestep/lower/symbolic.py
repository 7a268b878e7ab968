"""Symbolic sizes: which programs can run any size, asked of their operations one by one before they are lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from wholestep.dims import Dim, Size, SymbolicError, most, surely_above
from wholestep.errors import UnsupportedError, Where
from wholestep.ir.graph import Graph, Node
from wholestep.ir.types import Type, array_type
from wholestep.lower.expand import BODIES
from wholestep.lower.kinds import FOLDS
from wholestep.lower.layouts import runs
from wholestep.lower.plan import Branch, Call, Launch, Plan, Ref, Repeat, Step, While

CHECKED: dict[str, Callable[[Node], str]] = {}
"""Operations that take symbolic sizes in part: what is wrong with a node, empty where nothing is."""

FREE = frozenset(
    "broadcast permute flip stop_gradient identity capture full iota contract gather scatter scatter_add concat pad "
    "cumsum cumprod cummax cummin argmax argmin cond while_loop scan random_bits require update_slice constant "
    "slice".split()
)
"""Operations that are loops over their axes and nothing else, whatever the sizes are."""


WAY_OUT = "write it without that axis, or give numbers for the sizes"


@contextmanager
def blamed(node: Node) -> Iterator[None]:
    """What cannot be said of symbolic sizes inside is an error that names an operation and its line."""
    try:
        yield
    except SymbolicError as error:
        types = ", ".join(map(str, node.types))
        raise UnsupportedError(f"{node.op.name}: {error}: {types}", where=node.where, hint=WAY_OUT) from None


def symbolic(shape: Sequence[object]) -> list[int]:
    """The axes of a shape that have no number."""
    return [a for a, n in enumerate(shape) if isinstance(n, Dim)]


def check(graph: Graph) -> None:
    """Raise UnsupportedError for the first operation that cannot run over a symbolic size, naming its line."""
    for part in graph.family():
        for node in part.nodes:
            types: list[Type] = [*node.types, *[v.type for v in node.outputs]]
            if any(symbolic(t.shape) for t in types):
                problem = refused(node)
                if problem:
                    raise UnsupportedError(
                        f"{node.op.name}: {problem}: {', '.join(map(str, node.types))}",
                        where=node.where,
                        hint=WAY_OUT,
                    )


def refused(node: Node) -> str:
    """Why a node cannot be one loop for all sizes; empty where it can."""
    name = node.op.name
    if name in CHECKED:
        return CHECKED[name](node)
    if node.op.kind == "elementwise" or name in FOLDS or name in FREE or name in BODIES:
        return ""  # of a body each operation is asked by itself
    return "it is not made of loops whose length may be given at each call"


class Need(NamedTuple):
    """What sizes must satisfy for a program to mean what it says: `size` is at least 0."""

    size: Dim
    what: str
    where: Where

    def __str__(self) -> str:
        return self.what


def needs(graph: Graph) -> list[Need]:
    """What a program asks of its symbolic sizes: slices with plain numbers for their ends stay inside their axes."""
    found: dict[tuple[Dim, str], Need] = {}
    for part in graph.family():
        for node in part.nodes:
            if node.op.name == "slice":
                for size, what in slices(node):
                    if isinstance(size, Dim) and not surely_above(size, -1):
                        found.setdefault((size, what), Need(size, what, node.where))
    return list(found.values())


def slices(node: Node) -> Iterator[tuple[Size, str]]:
    """For each axis of a slice how much room there is before its first element, and behind its last one."""
    facts = (node.inputs[0].shape, node.outputs[0].shape, node.params["start"], node.params["step"])
    for n, taken, start, step in zip(*facts, strict=True):
        yield start, f"{start} >= 0"
        last = start + (taken - 1) * step
        yield n - 1 - last, f"{n} > {last}"


def numbered(plan: Plan) -> Plan:
    """A plan with the numbers that are supposed at present in the place of symbolic sizes."""
    slots = tuple([s._replace(type=array_type(tuple(map(most, s.type.shape)), s.type.dtype)) for s in plan.slots])
    return replace(plan, slots=slots, steps=tuple(map(step_numbered, plan.steps)), arena=most(plan.arena))


def step_numbered(step: Step) -> Step:
    """A step, and those inside it, with numbers for sizes."""
    if isinstance(step, Launch):
        return replace(step, refs=tuple(map(ref_numbered, step.refs)))
    if isinstance(step, Call):
        params = tuple([most(p) if isinstance(p, Dim) else p for p in step.params])
        return replace(step, refs=tuple(map(ref_numbered, step.refs)), params=params)
    if isinstance(step, Repeat):
        return replace(step, trips=most(step.trips), body=tuple(map(step_numbered, step.body)))
    found = replace(step, ref=ref_numbered(step.ref))
    if isinstance(found, While):
        return replace(found, test=tuple(map(step_numbered, found.test)), body=tuple(map(step_numbered, found.body)))
    if isinstance(found, Branch):
        return replace(found, cases=tuple([tuple(map(step_numbered, case)) for case in found.cases]))
    return found


def ref_numbered(ref: Ref) -> Ref:
    """A place with numbers for where it is."""
    return ref._replace(offset=most(ref.offset), moves=tuple([(loop, most(by)) for loop, by in ref.moves]))


def reshape(node: Node) -> str:
    """Sizes may be split off or joined behind a symbolic one, which must come first among those that lie together."""
    source, shape = node.inputs[0].shape, node.outputs[0].shape
    found = runs([n for n in source if n != 1], [n for n in shape if n != 1])
    if found is None:
        return ""
    for left, right in found:
        for sizes, places in ((source, left), (shape, right)):
            wide = [n for n in sizes if n != 1]
            if symbolic([wide[a] for a in places[1:]]):
                return "a symbolic size is joined with one before it"
    return ""


def window(node: Node) -> str:
    k = len(node.params["size"])
    x = node.inputs[0]
    return "windows slide along a symbolic size" if symbolic(x.shape[x.ndim - k :]) else ""


def unwindow(node: Node) -> str:
    k = len(node.params["sizes"])
    y = node.inputs[0]
    return "windows slide along a symbolic size" if symbolic(y.shape[y.ndim - 2 * k :]) else ""


CHECKED.update({"reshape": reshape, "window": window, "unwindow": unwindow})

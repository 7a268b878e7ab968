"""Gradients with respect to named intermediate values: the walk back stops at a frontier."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from wholestep import tree
from wholestep.boundary.public import boundary
from wholestep.errors import DerivativeError
from wholestep.frontend.array import Array
from wholestep.frontend.gradients import loss_value
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import enter, guarded, scope
from wholestep.ir.graph import Node, Value
from wholestep.primitives.family import ones, zeros
from wholestep.transforms.reverse import backward
from wholestep.tree import Tree

P = ParamSpec("P")
R = TypeVar("R")


def frontier_grad(f: Callable[P, R], stop: str | Sequence[str]) -> Callable[P, tuple[R, dict[str, Tree]]]:
    """The gradient of a scalar function with respect to intermediate values that it names with `ws.capture`.

    The walk back stops at the labels in `stop`, as when a long program is differentiated in stretches: a value that
    reaches the loss only through another named one has gradient zero. The result is called as f is and returns
    `(value, {label: gradient})`; a label given to a tree, or several times, has a list of gradients.

    Shapes: f returns a real floating scalar; gradients have the shapes and dtypes of the values.
    Raises: DerivativeError for a label that the function does not give, NonScalarError or DtypeError for another loss.

    >>> import numpy as np, wholestep as ws
    >>> f = lambda x: np.sum(ws.capture("h", np.sin(x)) ** 2)
    >>> value, gradients = ws.frontier_grad(f, stop="h")(np.array([0.0, 1.0]))
    >>> bool(np.allclose(gradients["h"], 2 * np.sin([0.0, 1.0])))
    True
    """
    labels = [stop] if isinstance(stop, str) else list(stop)

    @boundary
    @functools.wraps(f)
    def differentiated(*args: P.args, **kwargs: P.kwargs) -> tuple[R, dict[str, Tree]]:
        with scope("grad") as work:
            start = len(work.builder.nodes)
            loss = loss_value(
                ordinary(f)(*tree.map(enter_frontier, args), **tree.map(enter_frontier, kwargs)), "frontier_grad", False
            )
            value = loss.value
            nodes = work.builder.nodes[start:]
            wanted = frontier(nodes, labels)
            ends = {v for _, v in wanted}
            with work.last_walk():
                # Without the nodes that make them, the named values are leaves: nothing flows past them.
                after = [n for n in nodes if ends.isdisjoint(n.outputs)]
                gxs = backward(after, [(value, ones(value.type))], [v for _, v in wanted])
                arrays = [
                    (label, work.leave(Array(zeros(v.type) if g is None else g)))
                    for (label, v), g in zip(wanted, gxs, strict=True)
                ]
            return work.leave(loss), grouped(arrays, labels)

    return differentiated


def enter_frontier(leaf: Any) -> Any:
    """A floating argument as a traced array, so that operations on it are traced; other arrays are copied."""
    kind = getattr(getattr(leaf, "dtype", None), "kind", None)
    if isinstance(leaf, float | complex) or kind in ("f", "c", "V"):
        return enter(leaf)
    return guarded(leaf)


def frontier(nodes: Sequence[Node], labels: Sequence[str]) -> list[tuple[str, Value]]:
    """The captured values with these labels, in the order of the program."""
    found = [(n.params["label"], n.outputs[0]) for n in nodes if n.op.name == "capture" and n.params["label"] in labels]
    for label in labels:
        if label not in [name for name, _ in found]:
            known = sorted({n.params["label"] for n in nodes if n.op.name == "capture"})
            raise DerivativeError(
                f"frontier_grad: the function names no value {label!r}",
                hint=f"it names {', '.join(known)}" if known else "name one with ws.capture(label, x)",
            )
    return found


def grouped(items: Sequence[tuple[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """The gradient of each label; a list for a label of several values."""
    out: dict[str, Any] = {}
    for label in labels:
        own = [g for name, g in items if name == label]
        out[label] = own[0] if len(own) == 1 else own
    return out

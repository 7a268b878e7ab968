"""Branches and loops in MIL: `cond` and `while_loop` over blocks that read the values of the blocks around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wholestep.export.coreml.arrays import from_numbers
from wholestep.export.coreml.writer import INT32, MilWriter, Var, held_shape
from wholestep.ir.graph import Graph, Node


def as_list(made: Var) -> list[Var]:
    """The results of an operation of MIL, of which coremltools gives one by itself."""
    return list(made) if isinstance(made, list | tuple) else [made]


def mil_branched(w: MilWriter, node: Node, xs: list[Var]) -> Sequence[Var]:
    """cond, one inside the other for more than two branches."""
    index, operands, graphs = xs[0], xs[1:], node.params["branches"]

    def branch(at: MilWriter, graph: Graph) -> list[Var]:
        return at.inner(dict(zip(graph.inputs, operands, strict=True))).returned(graph)

    def chain(at: MilWriter, k: int) -> list[Var]:
        if k == len(graphs) - 1:
            return branch(at, graphs[k])
        first = at.op("less_equal", x=index, y=at.number(k, INT32))
        made = at.op("cond", pred=first, _true_fn=lambda: tuple(branch(at, graphs[k])),
                     _false_fn=lambda: tuple(chain(at.inner({}), k + 1)))  # fmt: skip
        return as_list(made)

    return chain(w, 0)


def mil_scanned(w: MilWriter, node: Node, xs: list[Var]) -> Sequence[Var]:
    """A loop that counts, reads a row of each array and writes one of each result."""
    graph, (c, k), length = node.params["graph"], node.params["sizes"], node.params["length"]
    fixed, carry, rows = xs[:c], xs[c : c + k], xs[c + k :]
    row_types, out_types = graph.in_types[c + k :], graph.out_types[k:]
    arrays = [
        w.view(w.cast(x, INT32) if t.dtype.kind == "b" else x, (length, t.size))
        for x, t in zip(rows, row_types, strict=True)
    ]
    outs = [w.filled((length, t.size), 0, INT32 if t.dtype.kind == "b" else t.dtype) for t in out_types]

    def going(count: Var, *_: Var) -> Var:
        return w.op("less", x=count, y=np.int32(length))

    def body(count: Var, *state: Var) -> tuple[Var, ...]:
        inner = w.inner({})
        place = inner.op("sub", x=np.int32(length - 1), y=count) if node.params["reverse"] else count
        at = inner.view(place, (1,))
        read = [inner.op("gather", x=x, indices=at, axis=0, validate_indices=False) for x in arrays]
        given = [from_numbers(inner, inner.held(x, t.shape), t.dtype) for x, t in zip(read, row_types, strict=True)]
        inner.whole.update(zip(graph.inputs, [*fixed, *state[:k], *given], strict=True))
        made = inner.write(graph)
        after = [inner.op("identity", x=x) for x in made[:k]]
        for data, x, t in zip(state[k:], made[k:], out_types, strict=True):
            row = inner.view(inner.cast(x, INT32) if t.dtype.kind == "b" else x, (1, t.size))
            after.append(inner.op("scatter", data=data, indices=at, updates=row, axis=0, mode="update",
                                  validate_indices=False))  # fmt: skip
        return (inner.op("add", x=count, y=np.int32(1)), *after)

    start = w.op("identity", x=w.number(0, INT32))
    found = as_list(w.op("while_loop", _cond=going, _body=body, loop_vars=(start, *carry, *outs)))[1:]
    stacked = [
        from_numbers(w, w.view(x, held_shape((length, *t.shape))), t.dtype)
        for x, t in zip(found[k:], out_types, strict=True)
    ]
    return [*found[:k], *stacked]


def mil_looped(w: MilWriter, node: Node, xs: list[Var]) -> Sequence[Var]:
    """A loop while a predicate holds."""
    predicate, body, (p, b) = (node.params[name] for name in ("predicate", "body", "constants"))

    def going(*state: Var) -> Var:
        (found,) = w.inner(dict(zip(predicate.inputs, [*xs[:p], *state], strict=True))).returned(predicate)
        return found

    def round_(*state: Var) -> tuple[Var, ...]:
        return tuple(w.inner(dict(zip(body.inputs, [*xs[p : p + b], *state], strict=True))).returned(body))

    return as_list(w.op("while_loop", _cond=going, _body=round_, loop_vars=tuple(xs[p + b :])))

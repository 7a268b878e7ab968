"""Branches and loops in ONNX: If, Scan and Loop over graphs that read the values of the graphs around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.export.onnx.arithmetic import onnx_computed
from wholestep.export.onnx.writer import OnnxWriter
from wholestep.ir.graph import Node


def onnx_branched(w: OnnxWriter, node: Node, xs: list[str]) -> Sequence[str]:
    """If, one inside the other for more than two branches."""
    index, operands, graphs = xs[0], xs[1:], node.params["branches"]

    def chain(at: OnnxWriter, k: int) -> list[str]:
        if k == len(graphs) - 1:
            inner = OnnxWriter(w.shared, dict(zip(graphs[k].inputs, operands, strict=True)))
            inner.write(graphs[k])
            at.nodes += inner.nodes
            return [inner.get(v) for v in graphs[k].outputs]
        yes = at.inside(graphs[k], operands, ())
        rest = OnnxWriter(w.shared)
        no = rest.closed(chain(rest, k + 1), graphs[k].out_types, ())
        limit = at.constant(np.asarray(k, node.types[0].dtype))
        condition = onnx_computed(at, "LessOrEqual", [index, limit], node.types[0].dtype, result=bool)
        return at.ops("If", [condition], len(node.outputs), then_branch=yes, else_branch=no)

    return chain(w, 0)


def onnx_scanned(w: OnnxWriter, node: Node, xs: list[str]) -> Sequence[str]:
    """Scan, over a count where there are no rows; no step is no operator."""
    p = node.params
    graph, (c, k) = p["graph"], p["sizes"]
    if p["length"] == 0:  # ONNX Runtime refuses to scan nothing
        nothing = [w.constant(np.zeros(v.shape, v.dtype)) for v in node.outputs[k:]]
        return [*xs[c : c + k], *nothing]
    rows = xs[c + k :]
    fresh = [w.shared.fresh() for _ in graph.inputs[c:]]
    inputs = list(zip(fresh, graph.in_types[c:], strict=True))
    if not rows:
        rows = [w.counted(p["length"])]
        count: Any = np.empty((), np.int64)
        inputs.append((w.shared.fresh(), count))
    body = w.inside(graph, [*xs[:c], *fresh], inputs)
    ways = [int(p["reverse"])]
    stacked = len(graph.outputs) - k
    return w.ops(
        "Scan", [*xs[c : c + k], *rows], len(graph.outputs), body=body, num_scan_inputs=len(rows),
        scan_input_directions=ways * len(rows), scan_output_directions=ways * stacked if stacked else None,
    )  # fmt: skip


def onnx_looped(w: OnnxWriter, node: Node, xs: list[str]) -> Sequence[str]:
    """Loop, with its predicate before the first round and at the end of each."""
    predicate, body, (p, b) = (node.params[name] for name in ("predicate", "body", "constants"))
    carry = xs[p + b :]
    first = OnnxWriter(w.shared, dict(zip(predicate.inputs, [*xs[:p], *carry], strict=True)))
    first.write(predicate)
    w.nodes += first.nodes
    start = first.get(predicate.outputs[0])
    fresh = [w.shared.fresh() for _ in carry]
    inner = OnnxWriter(w.shared, dict(zip(body.inputs, [*xs[p : p + b], *fresh], strict=True)))
    inner.write(body)
    made = [inner.get(v) for v in body.outputs]
    test = OnnxWriter(w.shared, dict(zip(predicate.inputs, [*xs[:p], *made], strict=True)))
    test.write(predicate)
    inner.nodes += test.nodes
    scalars: list[Any] = [np.empty((), np.int64), np.empty((), bool)]
    inputs = [(w.shared.fresh(), t) for t in scalars] + list(zip(fresh, body.out_types, strict=True))
    graph = inner.closed([test.get(predicate.outputs[0]), *made], [scalars[1], *body.out_types], inputs)
    return w.ops("Loop", ["", start, *carry], len(made), body=graph)

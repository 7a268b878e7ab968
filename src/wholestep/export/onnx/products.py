"""Products summed over shared axes as products of matrices, either of which may be stored transposed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wholestep.export.onnx.arithmetic import onnx_computed
from wholestep.export.onnx.writer import OnnxWriter
from wholestep.ir.graph import Node, Value
from wholestep.primitives.contraction import parts

Letters = Sequence[str]


class StoredMatrices(NamedTuple):
    """An operand as matrices: the letters of its batch, its rows and its columns; `turned` if columns come first."""

    name: str
    batch: Letters
    rows: Letters
    columns: Letters
    turned: bool

    @property
    def groups(self) -> tuple[Letters, Letters]:
        """The letters of its rows and its columns, in the stored order."""
        return (self.columns, self.rows) if self.turned else (self.rows, self.columns)

    def shape(self, sizes: Mapping[str, Any]) -> list[Any]:
        """The shape that it has."""
        return [sizes[c] for group in (self.batch, *self.groups) for c in group]

    def matrix(self, w: OnnxWriter, sizes: Mapping[str, Any]) -> str:
        """The operand with one axis for the rows and one for the columns, in the stored order."""
        wanted = [*[sizes[c] for c in self.batch], *[math.prod([sizes[c] for c in group]) for group in self.groups]]
        return w.reshaped(self.name, self.shape(sizes), wanted)


def onnx_product(w: OnnxWriter, node: Node) -> str:
    """A product summed over shared axes; the operand whose axes are first in the result is on the left."""
    a, b, out = parts(node.params["spec"])
    sizes = dict(zip(a + b, node.types[0].shape + node.types[1].shape, strict=True))
    (a, x), (b, y) = operands_in_order(out, (a, node.inputs[0]), (b, node.inputs[1]))
    both = [c for c in a if c in b and c in out]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    summed = [c for c in a if c in b and c not in out]
    left, right = as_matrices(w, x, a, both, rows, summed), as_matrices(w, y, b, both, summed, columns)
    multiplied = onnx_multiplied if summed else onnx_outer
    made, shape = multiplied(w, left, right, sizes, node.types[0].dtype)
    order = [*both, *rows, *columns]
    return w.permute(w.reshaped(made, shape, [sizes[c] for c in order]), [order.index(c) for c in out])


def operands_in_order(out: str, first: tuple[str, Value], second: tuple[str, Value]) -> Sequence[tuple[str, Value]]:
    """Two operands, that one first whose own letters are first in the result."""
    own = [c for c in out if not (c in first[0] and c in second[0])]
    return (second, first) if own and own[0] in second[0] else (first, second)


def as_matrices(
    w: OnnxWriter, v: Value, labels: str, batch: Letters, rows: Letters, columns: Letters
) -> StoredMatrices:
    """An operand as matrices, plain or transposed; axes in any other order are permuted to the plain one."""
    plain, turned = [*batch, *rows, *columns], [*batch, *columns, *rows]
    if list(labels) == turned and turned != plain:
        return StoredMatrices(w.get(v), batch, rows, columns, True)
    return StoredMatrices(w.permute(w.get(v), [labels.index(c) for c in plain]), batch, rows, columns, False)


def onnx_multiplied(
    w: OnnxWriter, left: StoredMatrices, right: StoredMatrices, sizes: Mapping[str, Any], dtype: Any
) -> tuple[str, list[Any]]:
    """A product of matrices and its shape.

    MatMul takes the rows of an array of any number of axes as they are. ONNX Runtime joins it with the exchange of the
    last two axes before it; Gemm has that itself, and is for two matrices.
    """
    lead = [sizes[c] for c in left.batch]
    m, n = (math.prod([sizes[c] for c in group]) for group in (left.rows, right.columns))
    single = len(right.rows) == len(right.columns) == 1 and len(left.rows) > 1
    if single and not left.batch and not left.turned:
        x, shape = left.name, [sizes[c] for c in (*left.rows, *right.columns)]
    else:
        x, shape = left.matrix(w, sizes), [*lead, m, n]
    y = right.matrix(w, sizes)
    exchanged = left.turned or right.turned
    if exchanged and len(shape) == 2 and dtype.name in ("float32", "float64") and 0 not in sizes.values():
        return w.op("Gemm", x, y, transA=int(left.turned), transB=int(right.turned)), shape
    swap = [*range(len(lead)), len(lead) + 1, len(lead)]
    given = [w.permute(v, swap) if side.turned else v for v, side in ((x, left), (y, right))]
    return onnx_computed(w, "MatMul", given, dtype), shape


def onnx_outer(
    w: OnnxWriter, left: StoredMatrices, right: StoredMatrices, sizes: Mapping[str, Any], dtype: Any
) -> tuple[str, list[Any]]:
    """The outer products of rows and columns, without a summed axis, and their shape."""
    lead = [sizes[c] for c in left.batch]
    m, n = (math.prod([sizes[c] for c in group]) for group in (left.rows, right.columns))
    x, y = w.reshape(left.name, [*lead, m, 1]), w.reshape(right.name, [*lead, 1, n])
    return onnx_computed(w, "Mul", [x, y], dtype), [*lead, m, n]

"""Internal operations: nodes that only lowering creates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.ir.types import Type, array_type
from wholestep.kernel.lang import I32, I64, DType, Var
from wholestep.primitives.contraction import Contract
from wholestep.primitives.family import Loops, Primitive, Several


class InternalOp(Primitive):
    """An operation that is not entered in the registry."""

    def __init__(self, name: str) -> None:
        self.name = name


class ScalarOp(Loops, InternalOp):
    """A scalar function given by its kernel code and result dtype."""

    kind = "elementwise"

    def __init__(self, name: str, code: Callable[..., Any], dtype: Callable[[DType], DType]) -> None:
        super().__init__(name)
        self.code: Callable[..., Var] = code
        self.dtype = dtype

    def type(self, x: Type) -> Type:
        return array_type(x.shape, self.dtype(x.dtype))


class ArgsortOp(InternalOp):
    """The stable sorting order of unsigned integers along the last axis."""

    kind = "order"

    def type(self, keys: Type) -> Type:
        return array_type(keys.shape, I64)


class SortedRowsOp(InternalOp):
    """Unsigned integers in ascending order along the last axis; `floats` are the words of `sort_word`, among which
    zeros of either sign are equal and come in their own order, and NaN come last in theirs.
    """

    kind = "order"

    def type(self, words: Type, *, floats: bool) -> Type:
        return words


class RunStartsOp(InternalOp):
    """The positions at which the numbers 0, 1, ..., `size` begin, or would, among ascending unsigned integers."""

    kind = "order"

    def type(self, numbers: Type, *, size: int) -> Type:
        return array_type((size + 1,), I32)


class CollectOp(InternalOp):
    """A scatter of rows in runs: operands (x, u, order, starts).

    The rows of u that are written at place number p, of the places along `axes` of x, are those at `order[starts[p]]`
    to `order[starts[p + 1] - 1]`. `combiner` is that of the scatter: without one the last stays.
    """

    kind = "order"

    def type(self, x: Type, u: Type, order: Type, starts: Type, *, axes: tuple[int, ...], combiner: str) -> Type:
        return x


class RequireOp(Loops, InternalOp):
    """x itself if all truth values hold; otherwise the program is left with an error."""

    kind = "check"

    def type(self, x: Type, holds: Type, *, kind: str, message: str, hint: str) -> Type:
        return x


class PivotPermutationOp(InternalOp):
    """0, 1, ..., m - 1 along the last axis after the row exchanges of pivots."""

    kind = "order"

    def type(self, pivots: Type, *, size: int) -> Type:
        return array_type((*pivots.shape[:-1], size), I64)


class TriangularRootOp(InternalOp):
    """The square root of upper triangular matrices.

    The operands are the matrices, the roots of their diagonals, and the reciprocals of the sums of any two of those
    roots.
    """

    kind = "linalg"

    def type(self, t: Type, roots: Type, shares: Type) -> Type:
        return t


class SubstitutionOp(InternalOp):
    """The solutions x of a x = b for triangular matrices, from the first row on (`forward`) or from the last one.

    The matrices of the operand are those, or `turned` ones; `message` is the error where a diagonal has a 0.
    """

    kind = "linalg"

    def type(self, a: Type, b: Type, *, forward: bool, unit: bool, turned: bool, message: str) -> Type:
        return b


class UpperFactorOp(InternalOp):
    """The upper factors u^T u of symmetric matrices, which are read on and above the diagonal; a result's elements
    below the diagonal are unspecified."""

    kind = "linalg"

    def type(self, a: Type) -> Type:
        return a


class PackedFactorsOp(Several, InternalOp):
    """L and U of elimination with partial pivoting in one matrix, and the row exchanges, counted from 0."""

    kind = "linalg"

    def type(self, a: Type) -> tuple[Type, Type]:
        return a, array_type((*a.shape[:-2], min(a.shape[-2:])), I32)


class DFTStepOp(InternalOp):
    """The transforms of r complex numbers, times `turns` of [r, m]: [..., r, m, s] to [..., m, r, s]."""

    kind = "fft"

    def type(self, x: Type, turns: Type, *, inverse: bool) -> Type:
        *lead, r, m, s = x.shape
        return array_type((*lead, m, r, s), x.dtype)


class PairedTermsOp(InternalOp):
    """The h + 1 terms of a transform of 2 h real numbers from the h terms of one in which pairs of them are complex
    numbers, [..., h, s] to [..., h + 1, s]; with `inverse`, twice the latter from the former.

    e +- t, conjugated for -, are the terms k and h - k, for e = (z[k] + conj(z[h - k])) / 2 and
    t = (z[k] - conj(z[h - k])) turns[k], without the half in the inverse.
    """

    kind = "fft"

    def type(self, z: Type, turns: Type, *, inverse: bool) -> Type:
        *lead, n, s = z.shape
        return array_type((*lead, n + (-1 if inverse else 1), s), z.dtype)


class WideContractOp(Contract, InternalOp):
    """A contraction whose result has the dtype that it is summed in, not that of its operands."""

    def __init__(self, name: str) -> None:
        InternalOp.__init__(self, name)

    def type(self, x: Type, y: Type, *, spec: str) -> Type:
        found = super().type(x, y, spec=spec)
        return array_type(found.shape, dtypes.compute_dtype(found.dtype))


dft_step = DFTStepOp("dft_step")
paired_terms = PairedTermsOp("paired_terms")
argsort = ArgsortOp("argsort")
sorted_rows = SortedRowsOp("sorted_rows")
run_starts = RunStartsOp("run_starts")
collect = CollectOp("collect")
require = RequireOp("require")
wide_contract = WideContractOp("wide_contract")
pivot_permutation = PivotPermutationOp("exchanged")
triangular_root = TriangularRootOp("triangular_root")
substitution = SubstitutionOp("substitution")
upper_factor = UpperFactorOp("upper_factor")
packed_factors = PackedFactorsOp("packed_factors")

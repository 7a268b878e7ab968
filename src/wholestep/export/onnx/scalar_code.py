"""Functions that ONNX lacks, from the scalar code of our own kernels: one operator for each scalar operation.

A bit pattern is read by `BitCast`, which came with opset 26; a multiply-add is rounded twice here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.export.onnx import schema
from wholestep.export.onnx.arithmetic import onnx_choice, onnx_compared, onnx_computed, onnx_shift
from wholestep.export.onnx.writer import OnnxWriter
from wholestep.ir.graph import Node
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Index, Kernel, Loop, Statement, Store, Var
from wholestep.kernel.maths.complex import Complex

DERIVED = frozenset(
    """nextafter tan arcsin arccos arctan arcsinh arccosh arctanh arctan2 logaddexp2 erf erfc erfcx zeta ndtr
    log_ndtr""".split()
)
"""Elementwise operations whose scalar code has operators only, and is short enough to be written out."""
COMPLEX_DERIVED = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
    pow erf erfc erfcx""".split()
)
"""Functions of complex numbers, whose scalar code has pairs."""
Emit = Callable[[OnnxWriter, list[str], Any], str]
"""(writer, operands, their dtype) -> the result."""


def emit_operator(kind: str) -> Emit:
    """An operator that exists."""
    return lambda w, xs, dtype: onnx_computed(w, kind, xs, dtype)


def emit_comparison(kind: str) -> Emit:
    """A comparison."""
    return lambda w, xs, dtype: onnx_compared(w, kind, xs, dtype)


def emit_bits(short: str) -> Emit:
    """An operator of bits, or of truths."""
    return lambda w, xs, dtype: w.op(short if dtypes.is_bool(dtype) else f"Bitwise{short}", *xs)


def first_if(kind: str, swapped: bool) -> Emit:
    """The operand that a comparison with the other one favours, and the second where neither is smaller."""

    def emit(w: OnnxWriter, xs: list[str], dtype: Any) -> str:
        condition = onnx_compared(w, kind, xs[::-1] if swapped else xs, dtype)
        return onnx_choice(w, condition, xs, dtype)

    return emit


def cut_to_zero(w: OnnxWriter, xs: list[str], dtype: Any) -> str:
    """The number without its fraction."""
    below = onnx_compared(w, "Less", [xs[0], w.constant(np.zeros((), dtype))], dtype)
    return onnx_choice(w, below, [w.op("Ceil", xs[0]), w.op("Floor", xs[0])], dtype)


def is_finite_number(w: OnnxWriter, xs: list[str], dtype: Any) -> str:
    """True for numbers that are neither infinite nor NaN."""
    return w.op("Not", w.op("Or", *[w.op(kind, xs[0]) for kind in ("IsNaN", "IsInf")]))


EMITTED: Mapping[str, Emit] = {
    **{op: emit_operator(op.capitalize()) for op in "add sub mul div neg abs sqrt floor ceil".split()},
    **{op: emit_bits(op.capitalize()) for op in ("and", "or", "xor", "not")},
    "rint": emit_operator("Round"),
    "trunc": cut_to_zero,
    "exact": lambda w, xs, dtype: xs[0],
    "fma": lambda w, xs, dtype: w.op("Add", w.op("Mul", *xs[:2]), xs[2]),
    "isfinite": is_finite_number,
    "isnan": lambda w, xs, dtype: w.op("IsNaN", xs[0]),
    "min": first_if("Less", False),
    "max": first_if("Less", True),
    "eq": emit_comparison("Equal"),
    "ne": lambda w, xs, dtype: w.op("Not", onnx_compared(w, "Equal", xs, dtype)),
    "lt": emit_comparison("Less"),
    "le": emit_comparison("LessOrEqual"),
    "shl": lambda w, xs, dtype: onnx_shift(w, "LEFT", xs, dtype),
    "shr": lambda w, xs, dtype: onnx_shift(w, "RIGHT", xs, dtype),
}
"""The writer of each scalar operation."""


@cache
def scalar_kernel(op: Any, dtype: Any) -> Kernel:
    """The kernel of one element of an operation; of complex numbers both parts are buffers of their own."""
    b, kind = KernelBuilder(op.name), dtypes.real_of(dtype) if dtypes.is_complex(dtype) else dtype
    with b:
        parts = [b.load(b.buffer(f"x{i}", kind, 1), Index(0)) for i in range(op.arity * (1 + (kind != dtype)))]
        xs = parts if kind == dtype else [Complex(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
        found = op.code(*xs)
        for i, out in enumerate((found.re, found.im) if isinstance(found, Complex) else (found,)):
            b.store(b.buffer(f"y{i}", out.dtype, 1, True), Index(0), out)
    return b.kernel()


class ScalarWriter:
    """The walk over a kernel: each value has the name of an array; loops are written out step by step."""

    def __init__(self, w: OnnxWriter, given: Mapping[str, str]) -> None:
        self.w = w
        self.given = given
        self.names: dict[Var, str] = {}
        self.results: list[str] = []

    def block(self, body: Sequence[Statement]) -> None:
        """Write the statements of a body."""
        for statement in body:
            if isinstance(statement, Store):
                self.results.append(self.names[statement.value])
            elif isinstance(statement, Loop):
                self.loop(statement)
            else:
                assert isinstance(statement, Var)
                self.names[statement] = self.value(statement)

    def loop(self, loop: Loop) -> None:
        """Write a loop step by step; if its guard is false its carries keep their initial values."""
        assert not loop.folds
        state = [self.names[c.init] for c in loop.carries]
        for _ in range(loop.axis.steps):
            self.names.update(zip([c.inside for c in loop.carries], state, strict=True))
            self.block(loop.body)
            state = [self.names[c.next] for c in loop.carries]
        for carry, after in zip(loop.carries, state, strict=True):
            if loop.guard is not None:
                after = onnx_choice(self.w, self.names[loop.guard], [after, self.names[carry.init]], carry.after.dtype)
            self.names[carry.after] = after

    def value(self, v: Var) -> str:
        """One scalar operation."""
        names = [self.names[x] for x in v.args]
        if v.op == "load":
            return self.given[v.attr[0].name]
        if v.op == "const":
            return self.w.constant(np.asarray(v.attr, v.dtype))
        if v.op == "bits":
            return self.w.op("BitCast", names[0], to=schema.ELEMENT_NUMBERS[v.dtype.name])
        if v.op == "convert":
            return self.w.cast(names[0], v.dtype)
        if v.op == "select":
            return onnx_choice(self.w, names[0], names[1:], v.dtype)
        return EMITTED[v.op](self.w, names, v.args[-1].dtype)


def onnx_derived(w: OnnxWriter, node: Node, xs: list[str]) -> str | Sequence[str]:
    """An operation by its scalar code; the result of one on complex numbers is two names."""
    kernel = scalar_kernel(node.op, node.types[0].dtype)
    inner = ScalarWriter(w, {f"x{i}": x for i, x in enumerate(xs)})
    inner.block(kernel.body)
    return inner.results if dtypes.is_complex(node.types[0].dtype) else inner.results[0]

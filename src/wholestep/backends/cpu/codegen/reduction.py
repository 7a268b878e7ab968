"""Reductions: the update of an accumulator, and the combination of many by a fixed tree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wholestep.backends.cpu.codegen.llvm_types import LlvmType, lane_mask, llvm_constant, llvm_type, simd_type
from wholestep.backends.cpu.codegen.ops import EMITTERS, OpEmitter
from wholestep.backends.cpu.codegen.writer import FunctionWriter
from wholestep.kernel.lang import DType, neutral_element
from wholestep.kernel.ops import combining_fold

Combine = Callable[..., str]


def nan_propagating(op: str) -> Combine:
    """Return max or min that propagates NaN."""

    def combine(at: OpEmitter, held: str, x: str) -> str:
        found = EMITTERS["f"][op](at, x, held)
        return at.pick(at.compare("fcmp uno", x, x), x, found)

    return combine


def multiply_accumulate(at: OpEmitter, held: str, x: str, y: str) -> str:
    """held + x * y."""
    if at.form.kind == "f":
        return EMITTERS["f"]["fma"](at, x, y, held)
    return EMITTERS["i"]["add"](at, held, EMITTERS["i"]["mul"](at, x, y))


def accumulate_pairs(at: OpEmitter, held: str, x: str, y: str) -> str:
    """held and the two products of words of two bfloat16 numbers each, that of the upper halves first."""
    w, lanes = at.w, at.lanes
    if w.target.dot_bf16 and lanes in (4, 8, 16):
        words, pairs = simd_type("i32", lanes), simd_type("bfloat", 2 * lanes)
        x, y = (w.let(f"bitcast {words} {v} to {pairs}") for v in (x, y))
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        types, given = f"{at.type}, {pairs}, {pairs}", f"{at.type} {held}, {pairs} {x}, {pairs} {y}"
        return w.call(at.type, name, types, given)
    word = at._replace(form=llvm_type(np.dtype(np.uint32)))

    def half(v: str, how: str) -> str:
        bits = w.let(f"{how.split()[0]} {word.type} {v}, {word.number(int(how.split()[1]))}")
        return w.let(f"bitcast {word.type} {bits} to {at.type}")

    for how in ("and -65536", "shl 16"):
        held = EMITTERS["f"]["fma"](at, half(x, how), half(y, how), held)
    return held


def combine_function(op: str, kind: str) -> Combine:
    """Return the function by which a fold accumulates one more value (two, for sums of products)."""
    if op == "dot_bf16x2":
        return accumulate_pairs
    if op == "fma":
        return multiply_accumulate
    if kind == "b":
        return EMITTERS["b"]["or" if op in ("or", "max", "add") else "and"]
    return nan_propagating(op) if op in ("max", "min") and kind == "f" else EMITTERS[kind][op]


class Reducer:
    """One fold operation in one dtype."""

    def __init__(self, w: FunctionWriter, op: str, dtype: DType) -> None:
        self.w = w
        self.dtype = dtype
        self.form: LlvmType = llvm_type(dtype)
        self.op = op
        self.take = combine_function(op, self.form.kind)
        self.join = combine_function(combining_fold(op), self.form.kind)

    def identity(self, lanes: int) -> str:
        """Return the identity element."""
        return llvm_constant(self.dtype, neutral_element(self.op, self.dtype), lanes)

    def accumulate(self, lanes: int, held: str, *x: str) -> str:
        """Emit the update of an accumulator."""
        return self.take(OpEmitter(self.w, self.form, lanes), held, *x)

    def select_lanes(self, lanes: int, live: int, new: str, old: str) -> str:
        """Select the new accumulator in the first `live` lanes, the old one elsewhere."""
        return OpEmitter(self.w, self.form, lanes).pick(lane_mask(lanes, live), new, old)

    def mask_tail(self, lanes: int, live: int, x: str) -> str:
        """Replace the lanes from `live` on by the identity element."""
        return self.select_lanes(lanes, live, x, self.identity(lanes))

    def combine(self, lanes: int, x: str, y: str) -> str:
        """Combine two accumulators."""
        return self.join(OpEmitter(self.w, self.form, lanes), x, y)

    def reduce_tree(self, lanes: int, names: list[str]) -> str:
        """Combine many accumulators, neighbours first."""
        while len(names) > 1:
            pairs = [self.combine(lanes, a, b) for a, b in zip(names[::2], names[1::2], strict=False)]
            names = pairs + names[len(names) & ~1 :]
        return names[0]

    def reduce_lanes(self, lanes: int, found: str) -> str:
        """Reduce a vector to a scalar, halves first."""
        while lanes > 1:
            kind, half = simd_type(self.form.register, lanes), lanes // 2
            low = self.w.shuffle(kind, found, "poison", *range(half))
            high = self.w.shuffle(kind, found, "poison", *range(half, lanes))
            found, lanes = self.combine(half, low, high), half
        return self.w.let(f"extractelement {simd_type(self.form.register, 1)} {found}, i64 0")

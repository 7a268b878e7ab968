"""Equal keys of floats in sorted rows: zeros of either sign, and NaN, in the order in which they came."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from wholestep.backends.cpu.llvm_builder import FunctionBuilder


class FloatKeys(NamedTuple):
    """The integer keys of floats of `bits` bits: the inverted bits of negative ones, and above them the bits of the
    others with the top bit set."""

    bits: int

    @property
    def kind(self) -> str:
        """The type of a key."""
        return f"i{self.bits}"

    @property
    def negative_zero(self) -> int:
        """The key before that of 0.0."""
        return (1 << (self.bits - 1)) - 1

    @property
    def infinities(self) -> tuple[int, int]:
        """The keys of both infinities, beyond which there is NaN."""
        mantissa = {32: 23, 64: 52}[self.bits]
        low = (1 << mantissa) - 1
        return low, (1 << self.bits) - 1 - low

    def is_nan(self, f: FunctionBuilder, key: str) -> str:
        """Test a key for NaN."""
        low, high = self.infinities
        above = f.let(f"sub {self.kind} {key}, {low}")
        return f.let(f"icmp ugt {self.kind} {above}, {high - low}")

    def is_zero(self, f: FunctionBuilder, key: str) -> str:
        """Test a key for a zero of either sign."""
        above = f.let(f"sub {self.kind} {key}, {self.negative_zero}")
        return f.let(f"icmp ult {self.kind} {above}, 2")


def restore_text(name: str, floats: FloatKeys) -> str:
    """Return `void name(keys, result, n)` for a row and its keys in ascending order.

    Rows without NaN and without -0.0 are unchanged: the test reads the first and the last key for NaN, and searches for
    -0.0.
    """
    f = FunctionBuilder("void", name, (("ptr", "keys"), ("ptr", "result"), ("i64", "n")))
    kind, last = floats.kind, f.let("sub i64 %n, 1")
    zeros = first_from(f, kind, floats.negative_zero)
    inside = f.let(f"call i64 @llvm.smin.i64(i64 {zeros}, i64 {last})")
    signed = f.let(f"icmp eq {kind} {f.load(kind, '%result', inside)}, {floats.negative_zero}")
    ends = [floats.is_nan(f, f.load(kind, "%result", at)) for at in ("0", last)]
    some = f.let(f"or i1 {signed}, {f.let(f'or i1 {ends[0]}, {ends[1]}')}")

    def put_back() -> None:
        nan_before = first_from(f, kind, floats.infinities[0])
        nan_after = first_from(f, kind, floats.infinities[1] + 1)
        numbers = f.let(f"sub i64 {nan_after}, {nan_before}")
        size = f.let(f"mul i64 {numbers}, {floats.bits // 8}")
        moved = f.at("%result", nan_before, floats.bits // 8)
        f.do(f"call void @llvm.memmove.p0.p0.i64(ptr %result, ptr {moved}, i64 {size}, i1 0)")

        def pick(i: str, zero: str, nan: str) -> list[str]:
            key = f.load(kind, "%keys", i)
            following = [f.let(f"add i64 {i}, 1")]
            for test, place in ((floats.is_zero, zero), (floats.is_nan, nan)):
                holds = test(f, key)
                f.when(holds, partial(f.store, kind, key, "%result", place))
                following.append(f.let(f"add i64 {place}, {f.let(f'zext i1 {holds} to i64')}"))
            return following

        starts = ["0", f.let(f"sub i64 {zeros}, {nan_before}"), numbers]
        f.loop(["i64"] * 3, starts, lambda i, *_: f.let(f"icmp slt i64 {i}, %n"), pick)

    f.when(some, put_back)
    return f.text("ret void")


def first_from(f: FunctionBuilder, kind: str, key: int) -> str:
    """The place of the first key in `result` that is not less than this one, by binary search."""

    def halve(low: str, high: str) -> list[str]:
        middle = f.let(f"lshr i64 {f.let(f'add i64 {low}, {high}')}, 1")
        less = f.let(f"icmp ult {kind} {f.load(kind, '%result', middle)}, {key}")
        above = f.let(f"add i64 {middle}, 1")
        return [
            f.let(f"select i1 {less}, i64 {above}, i64 {low}"),
            f.let(f"select i1 {less}, i64 {high}, i64 {middle}"),
        ]

    return f.loop(["i64", "i64"], ["0", "%n"], lambda low, high: f.let(f"icmp slt i64 {low}, {high}"), halve)[0]

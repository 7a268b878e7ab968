"""WGSL: kernels for WebGPU, on one heap of words, with 64-bit integers as pairs of words and every rounding kept.

A compiler of WGSL may treat float32 as real numbers. An `exact` value therefore passes through an `or` with a zero that
only the host knows, and `fma`, divisions and roots are functions made of such operations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.language import GROUP, THREAD, KernelFrame, KernelLanguage
from wholestep.backends.gpu.scalar_functions import write_scalar_code
from wholestep.backends.gpu.wgsl_prelude import FUNCTIONS, MEMORY, called_functions
from wholestep.errors import KernelError
from wholestep.kernel.lang import Buffer, DType, Var
from wholestep.kernel.maths.coefficients import F32
from wholestep.kernel.maths.roundings import ROUNDED_ONCE

LAUNCH_WORDS = 256
"""The most words of a launch: the number of workgroups, zero, and the offset of each buffer."""
SHARED = "var<workgroup> "
"""The beginning of the declaration of an array in the memory of a workgroup."""
INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round"}


def wgsl_kind_of(dtype: DType) -> str:
    """The kind of the values of a dtype: `bool`, `f32`, `i32`, `u32`, or `i64` and `u64` as two words, the lower first.

    Half precisions are words of 16 bits in a `u32`.
    """
    if dtype.kind == "b":
        return "bool"
    short = dtypes.short(dtype)
    if short in ("f16", "bf16"):
        return "u32"
    if dtype.kind == "f":
        return short
    return f"{dtype.kind}{64 if dtype.itemsize == 8 else 32}"


def wgsl_type_of(dtype: DType) -> str:
    """The WGSL type of a value."""
    kind = wgsl_kind_of(dtype)
    if kind == "f64":
        raise KernelError("wgsl: there is no float64")
    return "vec2<u32>" if kind in ("i64", "u64") else kind


def wgsl_storage_type(dtype: DType) -> str:
    """The WGSL type of an element of scratch memory."""
    return "u32" if dtype.kind == "b" else wgsl_type_of(dtype)


def wgsl_wrapped(text: str, dtype: DType) -> str:
    """An integer that is held in 32 bits, wrapped to the width of its dtype."""
    bits = 8 * dtype.itemsize
    if bits >= 32:
        return text
    return f"(({text}) & {(1 << bits) - 1}u)" if dtype.kind == "u" else f"((({text}) << {32 - bits}u) >> {32 - bits}u)"


def wgsl_number(value: Any, dtype: DType) -> str:
    """A number as WGSL.

    >>> wgsl_number(0.1, np.dtype(np.float32)), wgsl_number(-3, np.dtype(np.int64))
    ('0.1f', 'vec2<u32>(4294967293u, 4294967295u)')
    """
    kind = wgsl_kind_of(dtype)
    if dtypes.short(dtype) in ("f16", "bf16"):
        return f"{int(np.asarray(value, dtype).view(np.uint16))}u"
    if kind == "bool":
        return "true" if value else "false"
    if kind == "f32":
        x = np.float32(value)
        bits = int(x.view(np.uint32))
        if not math.isfinite(x) or not bits & 0x7F800000:  # a compiler that knows a zero leaves it out of sums
            return f"ws_float({bits:#x}u)"
        return f"({x!s}f)" if x < 0 else f"{x!s}f"
    n = int(value)
    if kind in ("i64", "u64"):
        return f"vec2<u32>({n & 0xFFFFFFFF}u, {n >> 32 & 0xFFFFFFFF}u)"
    if kind == "u32":
        return f"{n}u"
    return "(-2147483647i - 1i)" if n == -(2**31) else f"({n}i)" if n < 0 else f"{n}i"


def wgsl_arithmetic(op: str, a: str, b: str, dtype: DType) -> str:
    """A sum, difference or product, as the language rounds or wraps it."""
    kind = wgsl_kind_of(dtype)
    if kind in ("i64", "u64"):
        return f"ws_{op}64({a}, {b})"
    return wgsl_wrapped(f"{a} {INFIX[op]} {b}", dtype) if kind != "f32" else f"{a} {INFIX[op]} {b}"


def wgsl_kept(text: str) -> str:
    """A float32 expression whose value the compiler cannot derive."""
    return f"ws_kept({text})"


def wgsl_computed(v: Var, args: Sequence[str]) -> str:
    """A sum, difference or product of values."""
    return wgsl_arithmetic(v.op, args[0], args[1], v.dtype)


def wgsl_compared(v: Var, args: Sequence[str]) -> str:
    """A comparison."""
    (a, b), kind = args, wgsl_kind_of(v.args[0].dtype)
    if kind in ("i64", "u64"):
        equal = f"all({a} == {b})"
        less = f"ws_less_{kind}({a}, {b})"
        return {"eq": equal, "ne": f"!{equal}", "lt": less, "le": f"!ws_less_{kind}({b}, {a})"}[v.op]
    if kind == "bool":
        return {"eq": f"{a} == {b}", "ne": f"{a} != {b}", "lt": f"!{a} & {b}", "le": f"!{a} | {b}"}[v.op]
    if kind == "f32":
        return f"ws_{v.op}({a}, {b})"
    return f"{a} {dict(eq='==', ne='!=', lt='<', le='<=')[v.op]} {b}"


def wgsl_less(a: str, b: str, dtype: DType) -> str:
    """A test whether a number is less than another."""
    kind = wgsl_kind_of(dtype)
    return (
        f"ws_less_{kind}({a}, {b})" if kind in ("i64", "u64") else f"ws_lt({a}, {b})" if kind == "f32" else f"{a} < {b}"
    )


def wgsl_lesser_or_greater(v: Var, args: Sequence[str]) -> str:
    """The first operand where it is less, or greater; else the second."""
    a, b = args
    return f"select({b}, {a}, {wgsl_less(a, b, v.dtype) if v.op == 'min' else wgsl_less(b, a, v.dtype)})"


def wgsl_negated(v: Var, args: Sequence[str]) -> str:
    """A number with the other sign."""
    (x,), kind = args, wgsl_kind_of(v.dtype)
    if kind == "f32":
        return f"bitcast<f32>(bitcast<u32>({x}) ^ 0x80000000u)"
    return wgsl_arithmetic("sub", wgsl_number(0, v.dtype), x, v.dtype)


def wgsl_magnitude(v: Var, args: Sequence[str]) -> str:
    """The absolute value."""
    (x,), kind = args, wgsl_kind_of(v.dtype)
    if kind == "f32":
        return f"bitcast<f32>(bitcast<u32>({x}) & 0x7fffffffu)"
    if v.dtype.kind != "i":
        return x
    return f"select({x}, {wgsl_negated(v, args)}, {wgsl_less(x, wgsl_number(0, v.dtype), v.dtype)})"


def wgsl_divided(v: Var, args: Sequence[str]) -> str:
    """An integer division toward zero: 0 where the divisor is 0."""
    a, b = args
    if v.dtype.itemsize <= 4 and v.args[1].op == "const" and int(v.args[1].attr) > 0:
        return f"{a} / {b}"
    return wgsl_wrapped(f"ws_quotient_{wgsl_kind_of(v.dtype)}({a}, {b})", v.dtype)


def wgsl_shifted(v: Var, args: Sequence[str]) -> str:
    """A shift: by the width or more it leaves 0, or the sign."""
    (a, b), kind, bits = args, wgsl_kind_of(v.dtype), 8 * v.dtype.itemsize
    by = f"bitcast<u32>({b})" if kind == "i32" else b
    if kind in ("i64", "u64"):
        return f"ws_{v.op}_{kind}({a}, {by})" if v.op == "shr" else f"ws_shl64({a}, {by})"
    return wgsl_wrapped(f"ws_{v.op}_{kind}({a}, {by}, {bits}u)", v.dtype)


def wgsl_converted(v: Var, args: Sequence[str]) -> str:
    """The same number in another dtype, wrapped where it does not fit an integer."""
    source, target = v.args[0].dtype, v.dtype
    (x,) = args
    if dtypes.short(source) in ("f16", "bf16"):
        return wgsl_as_dtype(f"ws_from_{dtypes.short(source)}({x})", "f32", target)
    return wgsl_as_dtype(x, wgsl_kind_of(source), target)


def wgsl_as_dtype(x: str, source: str, dtype: DType) -> str:
    """A number of a kind in a dtype."""
    target = wgsl_kind_of(dtype)
    if dtypes.short(dtype) in ("f16", "bf16"):
        return f"ws_to_{dtypes.short(dtype)}({wgsl_as_dtype(x, source, np.dtype(np.float32))})"
    if source == target:
        return wgsl_wrapped(x, dtype) if target in ("i32", "u32") else x
    if target == "bool":
        zero = {"f32": "0.0f", "i32": "0i", "u32": "0u"}.get(source)
        return (
            f"any({x} != vec2<u32>())" if zero is None else f"{x} != {zero}" if source != "f32" else f"ws_ne({x}, 0.0f)"
        )
    if source == "bool":
        one, zero = wgsl_number(1, dtype), wgsl_number(0, dtype)
        return f"select({zero}, {one}, {x})"
    if target == "f32":
        return f"ws_f32_{source}({x})" if source in ("i64", "u64") else f"f32({x})"
    if source == "f32":
        whole = f"ws_cut_up({x})" if target == "u64" else f"ws_cut({x})"
        return wgsl_as_dtype(whole, target if target in ("i64", "u64") else "i64", dtype)
    if target in ("i64", "u64"):
        return f"ws_wide_{source}({x})" if source in ("i32", "u32") else x
    low = f"{x}.x" if source in ("i64", "u64") else x
    unsigned = source != "i32"
    return wgsl_wrapped(low if unsigned == (target == "u32") else f"bitcast<{target}>({low})", dtype)


def wgsl_reinterpreted(v: Var, args: Sequence[str]) -> str:
    """The same bits in another dtype."""
    (x,), source, target = args, wgsl_kind_of(v.args[0].dtype), wgsl_kind_of(v.dtype)
    if source == target or {source, target} == {"i64", "u64"}:
        return wgsl_wrapped(x, v.dtype) if target in ("i32", "u32") else x
    return wgsl_wrapped(f"bitcast<{target}>({x})", v.dtype) if target != "f32" else f"bitcast<f32>({x})"


def wgsl_tested(v: Var, args: Sequence[str]) -> str:
    """A test for a finite number, or for NaN, by the bits."""
    return f"(bitcast<u32>({args[0]}) << 1u) {'<' if v.op == 'isfinite' else '>'} 0xff000000u"


def wgsl_bitwise(v: Var, args: Sequence[str]) -> str:
    """An operation on bits or truth values."""
    if v.op == "xor":
        return f"{args[0]} {'!=' if v.dtype.kind == 'b' else '^'} {args[1]}"
    return f"{args[0]} {INFIX[v.op]} {args[1]}"


def wgsl_inverted(v: Var, args: Sequence[str]) -> str:
    """The bitwise complement."""
    return f"!{args[0]}" if v.dtype.kind == "b" else wgsl_wrapped(f"~{args[0]}", v.dtype)


EXPRESSIONS: dict[str, Callable[[Var, Sequence[str]], str]] = {
    **dict.fromkeys(("add", "sub", "mul"), wgsl_computed),
    **dict.fromkeys(("min", "max"), wgsl_lesser_or_greater),
    **dict.fromkeys(("shl", "shr"), wgsl_shifted),
    **dict.fromkeys(("eq", "ne", "lt", "le"), wgsl_compared),
    **dict.fromkeys(ROUNDINGS, lambda v, args: f"{ROUNDINGS[v.op]}({args[0]})"),
    **dict.fromkeys(("and", "or", "xor"), wgsl_bitwise),
    **dict.fromkeys(("isfinite", "isnan"), wgsl_tested),
    **dict.fromkeys(ROUNDED_ONCE, lambda v, args: f"ws_{v.op}({', '.join(args)})"),
    "quotient": wgsl_divided,
    "mulhi": lambda v, args: f"ws_mul32({args[0]}, {args[1]}).y",
    "exact": lambda v, args: wgsl_kept(args[0]),
    "neg": wgsl_negated,
    "abs": wgsl_magnitude,
    "not": wgsl_inverted,
    "select": lambda v, args: f"select({args[2]}, {args[1]}, {args[0]})",
    "convert": wgsl_converted,
    "bits": wgsl_reinterpreted,
}
"""The expression of each operation; its operands are names or constants."""


class WGSL(KernelLanguage):
    """WGSL: an entry point for each kernel, all on one heap, with a row of words for each launch."""

    name = "wgsl"
    reserved = frozenset({"i32", "i64"})
    narrow_apart = True
    most_buffers = LAUNCH_WORDS - 2
    relaxed = nested = chosen = short_integers = long_groups = True
    table: ClassVar[Mapping[str, Callable[[Var, Sequence[str]], str]]] = EXPRESSIONS
    barrier = "ws_wait();"

    def number(self, value: object, dtype: DType) -> str:
        return wgsl_number(value, dtype)

    def expression(self, v: Var, args: Sequence[str]) -> str:
        if v.op not in self.table:
            raise KernelError(f"wgsl: the operation {v.op} has no expression")
        # Compilers evaluate constant expressions, and refuse those that overflow.
        known = [
            f"ws_{wgsl_kind_of(x.dtype)}({a})" if x.op == "const" else a for x, a in zip(v.args, args, strict=True)
        ]
        return self.table[v.op](v, known if all(x.op == "const" for x in v.args) else args)

    def combined(self, op: str, held: str, values: Sequence[str], dtype: DType) -> str:
        x = values[0]
        if dtype.kind == "b":
            return f"{held} = {held} {'|' if op in ('or', 'max', 'add') else '&'} {x};"
        if op == "fma":
            if dtype.kind == "f":
                return f"{held} = fma({x}, {values[1]}, {held});"
            return f"{held} = {wgsl_arithmetic('add', held, wgsl_arithmetic('mul', x, values[1], dtype), dtype)};"
        if op in ("max", "min"):
            better = wgsl_less(held, x, dtype) if op == "max" else wgsl_less(x, held, dtype)
            nan = f" | ((bitcast<u32>({x}) << 1u) > 0xff000000u)" if dtype.kind == "f" else ""
            return f"{held} = select({held}, {x}, ({better}){nan});"
        if op in ("and", "or"):
            return f"{held} = {held} {INFIX[op]} {x};"
        return f"{held} = {wgsl_arithmetic(op, held, x, dtype)};"

    def declaration(self, name: str, dtype: DType, text: str, constant: bool = True) -> str:
        wgsl_type_of(dtype)  # raises for float64; the type itself is that of the text
        return f"{'let' if constant else 'var'} {name} = {text};"

    def index_declaration(self, name: str, text: str) -> str:
        return f"let {name} = {text};"

    def chosen_arrays(
        self, ends: Sequence[int], points: Sequence[int], buffers: Sequence[Buffer], first: int
    ) -> Iterator[str]:
        yield f"var word = {first + 2}i; var before = {ends[0]}i; var points = {points[0]}i;"
        for i in range(1, len(points)):
            word = first + 2 + i * len(buffers)
            yield f"if ({GROUP} >= {ends[i]}) {{ word = {word}i; before = {ends[i]}i; points = {points[i]}i; }}"
        for i, b in enumerate(buffers):
            yield f"let p{i} = ws_word(word + {i}){' >> 2u' if b.dtype.itemsize >= 4 else ''};"

    def points_head(self, name: str, first: str, end: str, pace: int) -> str:
        return f"for (var {name} = {first}; {name} < {end}; {name} += {pace}i)"

    def loop_head(self, name: str, steps: int) -> str:
        return f"for (var {name} = 0i; {name} < {steps}i; {name}++)"

    def as_index(self, name: str, dtype: DType) -> str:
        kind = wgsl_kind_of(dtype)
        return name if kind == "i32" else f"bitcast<i32>({name}{'.x' if kind in ('i64', 'u64') else ''})"

    def index_value(self, text: str, dtype: DType) -> str:
        return text if dtype.itemsize == 4 else f"ws_wide_i32({text})"

    def load(self, buffer: Buffer, name: str, index: str) -> str:
        if name.startswith("s"):
            return f"{name}[{index}]{' != 0u' if buffer.dtype.kind == 'b' else ''}"
        return f"load_{dtypes.short(buffer.dtype)}({name}, {index})"

    def store(self, buffer: Buffer, name: str, index: str, value: str) -> str:
        if name.startswith("s"):
            return f"{name}[{index}] = {f'u32({value})' if buffer.dtype.kind == 'b' else value};"
        return f"store_{dtypes.short(buffer.dtype)}({name}, {index}, {value});"

    def array(self, dtype: DType, values: Sequence[str]) -> str:
        return "" if dtype.kind == "b" else f"array({', '.join(values)})"

    def kernel(self, frame: KernelFrame, lines: Iterable[str]) -> str:
        name, buffers, scratch, threads, _, _ = frame
        arrays, out = shared_arrays(scratch), list[str]()
        head = [f"{SHARED}{array}: array<{kind}, {size}>;" for array, kind, size in arrays.values()]
        head.append(f"@compute @workgroup_size({threads})")
        head.append(
            f"fn {name}(@builtin(workgroup_id) at: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>, "
            "@builtin(local_invocation_index) place: u32) {"
        )
        for i, b in enumerate(scratch):
            if b.space != "shared":
                out.append(f"    var s{i}: array<{wgsl_storage_type(b.dtype)}, {b.size}>;")
        lines = [*lines]
        named = set(re.findall(r"\bb\d+\b", "\n".join(lines)))
        for i, b in enumerate(buffers):
            if f"b{i}" not in named:  # its group chooses it
                continue
            word = i + 2
            shift = " >> 2u" if b.dtype.itemsize >= 4 else ""
            out.append(f"    let b{i} = launch[{word // 4}].{'xyzw'[word % 4]}{shift};")
        out.append(f"    let {GROUP} = i32(at.x + count.x * at.y);")
        out.append(f"    let {THREAD} = i32(place);")
        out.append(f"    if ({GROUP} >= bitcast<i32>(launch[0].x)) {{ return; }}")
        text = "\n".join([*head, *out, *lines, "}"])
        for i, array in arrays.items():
            text = re.sub(rf"\bs{i}\[", f"{array.name}[", text)
        narrow = any(b.written and b.dtype.itemsize < 4 for b in buffers)
        return re.sub(r"\b(load|store)_", r"atomic_\1_", text) if narrow else text

    def module(self, kernels: Sequence[str]) -> str:
        functions = called_functions(kernels, FUNCTIONS + "\n".join(rounding_functions()))
        lines = [line for text in kernels for line in text.splitlines()]
        arrays = dict.fromkeys([line for line in lines if line.startswith(SHARED)])  # of which kernels have the same
        return "\n".join([MEMORY, *functions, *arrays, *[line for line in lines if line not in arrays], ""])


class SharedArray(NamedTuple):
    """An array in the memory of a workgroup, with the name that equal arrays of all kernels share."""

    name: str
    kind: str
    size: int


def shared_arrays(scratch: Sequence[Buffer]) -> dict[int, SharedArray]:
    """The arrays in the memory of a workgroup, by their places among the scratch memory of a kernel."""
    found: dict[int, SharedArray] = {}
    for i, b in enumerate(scratch):
        if b.space == "shared":
            kind, size = wgsl_storage_type(b.dtype), int(b.size)
            number = sum((array.kind, array.size) == (kind, size) for array in found.values())
            found[i] = SharedArray(f"shared_{re.sub('[<>]', '', kind)}_{size}_{number}", kind, size)
    return found


class CompilersWGSL(WGSL):
    """WGSL with the compiler's divisions and roots, from which the correctly rounded functions are computed."""

    table: ClassVar[Mapping[str, Callable[[Var, Sequence[str]], str]]] = {
        **EXPRESSIONS,
        "div": lambda v, args: f"{args[0]} / {args[1]}",
        "sqrt": lambda v, args: f"sqrt({args[0]})",
    }


@cache
def rounding_functions() -> tuple[str, ...]:
    """The functions of operations that are rounded once."""
    made = list[str]()
    for name, (code, arity) in ROUNDED_ONCE.items():
        lines = write_scalar_code(code, arity, F32, CompilersWGSL())
        operands = ", ".join([f"x{i}: f32" for i in range(arity)])
        made += [f"fn ws_{name}({operands}) -> f32 {{", *lines, "}"]
    return tuple(made)

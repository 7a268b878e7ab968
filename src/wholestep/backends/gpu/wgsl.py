"""WGSL: kernels for WebGPU, on one heap of words, with 64-bit integers as pairs of words and every rounding kept.

A compiler of WGSL may treat float32 as real numbers. An `exact` value therefore passes through an `or` with a zero that
only the host knows, and `fma`, divisions and roots are functions made of such operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import ClassVar, NamedTuple

from wholestep import dtypes
from wholestep.backends.gpu.language import GROUP, THREAD, KernelFrame, KernelLanguage
from wholestep.backends.gpu.scalar_functions import write_scalar_code
from wholestep.backends.gpu.wgsl_prelude import FUNCTIONS, MEMORY, called_functions
from wholestep.backends.gpu.wgsl_values import (
    EXPRESSIONS,
    INFIX,
    wgsl_arithmetic,
    wgsl_kind_of,
    wgsl_less,
    wgsl_number,
    wgsl_storage_type,
    wgsl_type_of,
)
from wholestep.errors import KernelError
from wholestep.kernel.lang import Buffer, DType, Var
from wholestep.kernel.maths.coefficients import F32
from wholestep.kernel.maths.roundings import ROUNDED_ONCE

LAUNCH_WORDS = 256
"""The most words of a launch: the number of workgroups, zero, and the offset of each buffer."""
SHARED = "var<workgroup> "
"""The beginning of the declaration of an array in the memory of a workgroup."""


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
        if op == "dot_bf16x2":
            (a, b), (c, d) = [(f"ws_float({v} & 0xffff0000u)", f"ws_float({v} << 16u)") for v in values]
            return f"{held} = fma({b}, {d}, fma({a}, {c}, {held}));"
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

"""A second backend, small enough to read: kernels printed as scalar C, compiled by the system's compiler.

It knows the kernel language and `Target` alone: its target is the base class, with vectors of one element. Where the
compiler has OpenMP, a workgroup is a parallel region, and variables declared before the region are shared memory.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.backends.program_interpreter import ProgramInterpreter

from wholestep.errors import KernelError
from wholestep.kernel.lang import Barrier, Fold, Index, Kernel, Loop, Statement, Store, Var
from wholestep.kernel.workgroups import find_workgroup
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.target import Target

TARGET = Target("c")
OPENMP = Target("c with openmp", spaces=frozenset({"global", "shared", "private"}), barriers=True)
COMPILER = shutil.which("cc")
FLAGS = ("-O1", "-std=c11", "-shared", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off")
HEAD = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
OPENMP_HEAD, OPENMP_FLAGS = HEAD + "#include <omp.h>\n", (*FLAGS, "-fopenmp")
TYPES = {"f4": "float", "f8": "double", "b1": "uint8_t"} | {
    f"{k}{n}": f"{'u' * (k == 'u')}int{8 * n}_t" for k in "iu" for n in (1, 2, 4, 8)
}
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}
MATH = ("fma", "sqrt", "floor", "ceil", "trunc", "rint")


def c_type(dtype: np.dtype[Any]) -> str:
    found = TYPES.get(f"{dtype.kind}{dtype.itemsize}")
    if found is None:
        raise KernelError(f"c: there is no scalar of dtype {dtype}")
    return found


def c_number(value: Any, dtype: np.dtype[Any]) -> str:
    """A number as a C constant of its dtype."""
    if dtype.kind != "f":
        word = f"{int(value)}{'ull' if dtype.kind == 'u' else 'll'}"
        return "INT64_MIN" if int(value) == -(2**63) else f"(({c_type(dtype)}){word})"
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "(-INFINITY)"
    return float(value).hex() + "f" * (dtype.itemsize == 4)


class CKernel:
    """The text of one kernel as a C function; raises UnsupportedError where the target cannot run it."""

    def __init__(self, kernel: Kernel, name: str, target: Target = TARGET) -> None:
        target.check_kernel(kernel)
        self.kernel, self.integer = kernel, f"int{target.index_bits}_t"
        self.threads = find_workgroup(kernel).threads if target.barriers else ()
        self.names: dict[Any, str] = {b: f"b{i}" for i, b in enumerate(kernel.buffers)}
        self.lines: list[str] = []
        given = ", ".join(f"{c_type(b.dtype)} *{self.names[b]}" for b in kernel.buffers)
        self.block(kernel.body)
        self.text = "\n".join([f"void {name}({given}) {{", *self.lines, "}"])

    def name(self, key: Any) -> str:
        return self.names.setdefault(key, f"v{len(self.names)}")

    def block(self, body: tuple[Statement, ...]) -> None:
        for s in body:
            if isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Store):
                guard = f"if ({self.name(s.guard)}) " if s.guard is not None else ""
                self.lines.append(f"{guard}{self.name(s.buffer)}[{self.index(s.index)}] = {self.name(s.value)};")
            elif isinstance(s, Barrier):
                self.lines.append("#pragma omp barrier")
            else:
                self.define(s, self.value(s))

    def define(self, var: Var, text: str) -> None:
        kind = c_type(var.dtype)
        self.lines.append(f"{kind} {self.name(var)} = ({kind})({text});")

    def scratch(self, space: str) -> None:
        held = [b for b in self.kernel.scratch if b.space == space]
        self.lines += [f"{c_type(b.dtype)} {self.name(b)}[{b.size}];" for b in held]

    def thread(self, loop: Loop) -> None:
        """A loop over threads, the first of which begins the parallel region."""
        count = math.prod([a.extent for a in self.threads])
        if loop.axis is self.threads[0]:
            self.lines.append("{")
            self.scratch("shared")
            self.lines.append(f"#pragma omp parallel num_threads({count})")
            self.lines.append("{")
            self.scratch("private")
            for a in self.threads:
                count //= a.extent
                self.lines.append(f"{self.integer} {self.name(a)} = omp_get_thread_num() / {count} % {a.extent};")
        self.block(loop.body)
        if loop.axis is self.threads[0]:
            self.lines.append("}}")

    def loop(self, loop: Loop) -> None:
        if loop.axis in self.threads:
            return self.thread(loop)
        for f in loop.folds:
            self.define(f.result, self.name(f.init))
        for c in loop.carries:
            self.define(c.inside, self.name(c.init))
            self.names[c.after] = self.name(c.inside)
        i = self.name(loop.axis)
        guard = f"if ({self.name(loop.guard)}) " if loop.guard is not None else ""
        self.lines.append(f"{guard}for ({self.integer} {i} = 0; {i} < {int(loop.axis.size)}; {i}++) {{")
        self.block(loop.body)
        self.lines += [f"{self.name(f.result)} = {self.folded(f)};" for f in loop.folds]
        for k, c in enumerate(loop.carries):
            self.lines.append(f"{c_type(c.next.dtype)} next{k} = {self.name(c.next)};")
        self.lines += [f"{self.name(c.inside)} = next{k};" for k, c in enumerate(loop.carries)] + ["}"]

    def folded(self, f: Fold) -> str:
        held, x = self.name(f.result), self.name(f.values[0])
        if f.op == "fma":
            return f"{held} + {x} * {self.name(f.values[1])}"
        if f.op in ("max", "min"):
            return f"({x} {'>' if f.op == 'max' else '<'} {held} || {x} != {x}) ? {x} : {held}"
        return f"{held} {INFIX[f.op]} {x}"

    def index(self, index: Index) -> str:
        terms = [f"{c} * ({self.integer}){self.name(k)}" for k, c in index.terms.items()]
        return " + ".join([*terms, f"({self.integer}){index.const}"])

    def value(self, v: Var) -> str:
        args = [self.name(a) for a in v.args]
        if v.op in FORMS:
            return FORMS[v.op](self, v, args)
        if v.op in MATH:
            return f"{v.op}{'f' * (v.dtype.itemsize == 4)}({', '.join(args)})"
        sign = INFIX.get(v.op) or COMPARISONS.get(v.op)
        if sign is None:
            raise KernelError(f"c: the operation {v.op} is not printed")
        return f"{args[0]} {sign} {args[1]}"

    def load(self, v: Var, args: list[str]) -> str:
        text = f"{self.name(v.attr[0])}[{self.index(v.attr[1])}]"
        return f"{args[0]} ? {text} : 0" if args else text


def bits(kernel: CKernel, v: Var, args: list[str]) -> str:
    return f"((union {{ {c_type(v.args[0].dtype)} from; {c_type(v.dtype)} to; }}){{{args[0]}}}).to"


def quotient(kernel: CKernel, v: Var, args: list[str]) -> str:
    a, b = args
    return f"{b} == 0 ? 0 : {b} == ({c_type(v.dtype)})-1 ? -{a} : {a} / {b}"


def absolute(kernel: CKernel, v: Var, args: list[str]) -> str:
    a = args[0]
    return f"fabs{'f' * (v.dtype.itemsize == 4)}({a})" if v.dtype.kind == "f" else f"{a} < 0 ? -{a} : {a}"


FORMS: dict[str, Callable[[CKernel, Var, list[str]], str]] = {
    "const": lambda k, v, args: c_number(v.attr, v.dtype),
    "index": lambda k, v, args: k.index(v.attr),
    "load": CKernel.load,
    "convert": lambda k, v, args: f"{args[0]} != 0" if v.dtype.kind == "b" else args[0],
    "bits": bits,
    "quotient": quotient,
    "mulhi": lambda k, v, args: f"((uint64_t){args[0]} * {args[1]}) >> 32",
    "exact": lambda k, v, args: args[0],
    "isfinite": lambda k, v, args: f"isfinite({args[0]})",
    "isnan": lambda k, v, args: f"isnan({args[0]})",
    "neg": lambda k, v, args: f"-{args[0]}",
    "abs": absolute,
    "not": lambda k, v, args: f"{'!' if v.dtype.kind == 'b' else '~'}{args[0]}",
    "select": lambda k, v, args: f"{args[0]} ? {args[1]} : {args[2]}",
    "min": lambda k, v, args: f"{args[0]} < {args[1]} ? {args[0]} : {args[1]}",
    "max": lambda k, v, args: f"{args[0]} > {args[1]} ? {args[0]} : {args[1]}",
    "shl": lambda k, v, args: f"{args[0]} << {args[1]}",
    "shr": lambda k, v, args: f"{args[0]} >> {args[1]}",
}
"""The text of each operation that is neither an infix sign nor a function of math.h."""


def library(text: str, folder: Path, flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """C as a library that is loaded; raises CalledProcessError where the compiler does not take it."""
    assert COMPILER is not None
    source, made = folder / "program.c", folder / "program.so"
    source.write_text(text, encoding="utf-8")
    subprocess.run([COMPILER, *flags, str(source), "-o", str(made), "-lm"], check=True, capture_output=True)
    return ctypes.CDLL(str(made))


@cache
def has_openmp() -> bool:
    """Test whether a C compiler and its OpenMP library are installed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return (
                library(OPENMP_HEAD + "int f(void) { return omp_get_max_threads(); }", Path(folder), OPENMP_FLAGS).f()
                > 0
            )
        except (AssertionError, OSError, subprocess.CalledProcessError):
            return False


def functions(kernels: Sequence[Kernel], folder: Path, target: Target = TARGET) -> dict[Kernel, Any]:
    """Kernels as C functions."""
    texts = [CKernel(kernel, f"k{i}", target).text for i, kernel in enumerate(kernels)]
    head, flags = (OPENMP_HEAD, OPENMP_FLAGS) if target.barriers else (HEAD, FLAGS)
    loaded = library(head + "\n".join(texts), folder, flags)
    return {kernel: getattr(loaded, f"k{i}") for i, kernel in enumerate(kernels)}


class CProgram(ProgramInterpreter):
    """A lowered program whose kernels are compiled C functions; all else is the interpreter's."""

    def __init__(self, program: LoweredProgram, folder: Path) -> None:
        super().__init__(program)
        self.functions = functions(program.kernels(), folder)

    def launch(self, kernel: Kernel, arrays: list[np.ndarray[Any, Any]]) -> None:
        self.functions[kernel](*[ctypes.c_void_p(a.ctypes.data) for a in arrays])

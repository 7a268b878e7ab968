"""A hostile compiler: kernels after rewrites that the specification of WGSL permits, drawn by a seed.

float32 counts as real numbers: sums and products are associated otherwise, distributed and factored; a term that is
added and subtracted is dropped; products and sums are contracted and `fma` is split; x - x is 0 and x / x is 1;
divisions and roots are some units off; subnormal numbers count as zero, each time or not. No rewrite crosses an
`exact` or an operation on bits. Rounding stays to nearest, as on all known devices, though WGSL leaves the
direction open.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Index, Kernel, Statement, Var
from wholestep.kernel.maths.coefficients import F32
from wholestep.kernel.maths.roundings import ROUNDED_ONCE
from wholestep.kernel.schedule import PartReplacement

Array = np.ndarray[Any, Any]
FLUSHED = "hostile.flushed"
DIVISION, ROOT = 2.5, 4.5
"""The errors that WGSL allows, in units in the last place; that of a root is that of 1 / inverseSqrt(x)."""


def hostile(kernel: Kernel, seed: int) -> Kernel:
    """The kernel as a hostile compiler may understand it, with the functions that WGSL has for operations put in."""
    return HostileCompiler(seed).rewritten(kernel)


def hostile_calls(seed: int) -> Mapping[str, Callable[..., Any]]:
    """Inexact operations of a hostile device, by name: divisions, roots, and the flush of subnormal numbers."""
    rng = np.random.default_rng(seed)

    def off(x: Array, units: float) -> Array:
        near = np.asarray(x * (1 + rng.uniform(-units, units, np.shape(x)) * 2.0**-24), np.float32)
        return np.where(np.isfinite(x) & np.isfinite(near), near, x)

    def flushed(x: Array) -> Array:
        return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)

    return {
        "hostile.div": lambda a, b: off(np.divide(a, b, dtype=np.float32), DIVISION),
        "hostile.sqrt": lambda x: off(np.sqrt(x, dtype=np.float32), ROOT),
        FLUSHED: flushed,
    }


class HostileCompiler(PartReplacement):
    """A copy of a kernel's statements with rewritten float32 arithmetic."""

    def __init__(self, seed: int) -> None:
        super().__init__({}, {})
        self.random = random.Random(seed)
        self.out: list[Statement] = []
        self.inside = False

    def rewritten(self, kernel: Kernel) -> Kernel:
        """The whole kernel."""
        return Kernel(kernel.name, kernel.buffers, self.body(kernel.body), kernel.scratch)

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        held, self.out = self.out, []
        for s in body:
            if not isinstance(s, Var) or not self.computed(s):
                self.out.append(self.statement(s))
        found, self.out = tuple(self.out), held
        return found

    def computed(self, v: Var) -> bool:
        """Write a float32 value in its rewritten form; False for an operation without one."""
        if v.dtype != F32 or v.op not in ("add", "sub", "mul", "fma", "div", "sqrt"):
            return False
        args = [self.of(x) for x in v.args]
        if v.op in ROUNDED_ONCE and not (self.inside and v.op != "fma"):
            self.new[v] = self.function(v.op, args)
        elif v.op in ("div", "sqrt"):
            whole = v.op == "div" and args[0] is args[1]
            self.new[v] = self.number(1) if whole else self.put("call", *args, attr=f"hostile.{v.op}")
        else:
            self.new[v] = self.flush(self.rearranged(v.op, *args))
        return True

    def function(self, name: str, args: Sequence[Var]) -> Var:
        """The result of an operation's own implementation, inlined and rewritten in turn."""
        code, _ = ROUNDED_ONCE[name]
        b = KernelBuilder(name)
        with b:
            given = [b.load(b.buffer(f"x{i}", F32, 1), Index()) for i in range(len(args))]
            found = code(*given)
        self.new |= dict(zip(given, args, strict=True))
        outside, self.inside = self.inside, True
        for s in b.kernel().body:
            assert isinstance(s, Var)
            if s.op != "load" and not self.computed(s):
                self.out.append(self.statement(s))
        self.inside = outside
        return self.of(found)

    # -- permitted rewrites ------------------------------------------------------------------------------------------

    def rearranged(self, op: str, a: Var, b: Var, *c: Var) -> Var:
        """A sum, difference or product of real numbers, as one of the ways to compute it."""
        if op == "sub" and a is b:
            return self.number(0)
        if op == "fma":
            return self.put("fma", a, b, *c)
        ways = self.ways(op, a, b)
        # A possible rewrite is made three times of four, a rate that finds faults.
        if not ways or self.random.random() < 0.25:
            return self.put(op, a, b)
        return self.random.choice(ways)()

    def ways(self, op: str, a: Var, b: Var) -> list[Callable[[], Var]]:
        """The other ways to compute a + b, a - b or a * b."""
        out: list[Callable[[], Var]] = []
        put, p, q = self.put, seen(a), seen(b)
        if op == "mul":
            if p.op == "mul":
                out.append(lambda: put("mul", p.args[0], put("mul", p.args[1], b)))
            if p.op in ("add", "sub"):
                out.append(lambda: put(p.op, *[put("mul", x, b) for x in p.args]))
            return out
        opposite = {"add": "sub", "sub": "add"}[op]
        if p.op in ("add", "sub"):  # (x + y) - b is x + (y - b), and (x - y) - b is x - (y + b)
            out.append(lambda: put(p.op, p.args[0], put(op if p.op == "add" else opposite, p.args[1], b)))
        if q.op in ("add", "sub"):  # a - (x - y) is (a - x) + y
            out.append(lambda: put(op if q.op == "add" else opposite, put(op, a, q.args[0]), q.args[1]))
        if op == "sub":  # a term that is added and subtracted is dropped
            out += [lambda x=x: x for x, y in (p.args, p.args[::-1]) if seen(y) is q] if p.op == "add" else []
            out += [lambda: q.args[1]] if q.op == "sub" and seen(q.args[0]) is p else []
        if p.op == "mul":
            out.append(lambda: put("fma", *p.args, b if op == "add" else put("neg", b)))
        if q.op == "mul":
            out.append(lambda: put("fma", q.args[0] if op == "add" else put("neg", q.args[0]), q.args[1], a))
        return out

    # -- statements --------------------------------------------------------------------------------------------------

    def put(self, op: str, *args: Var, attr: Any = None) -> Var:
        """Write a value."""
        self.out.append(made := Var(op, args, F32, attr))
        return made

    def number(self, value: float) -> Var:
        """Write a number."""
        return self.put("const", attr=np.float32(value))

    def flush(self, v: Var) -> Var:
        """A result that counts as zero where it is no normal number, half of the times."""
        if v is not self.out[-1] or self.random.random() < 0.5:
            return v
        return self.put("call", v, attr=FLUSHED)


def seen(v: Var) -> Var:
    """The operation that a compiler sees."""
    return v.args[0] if v.attr == FLUSHED else v

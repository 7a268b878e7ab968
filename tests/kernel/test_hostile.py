"""The hostile law: functions keep their bounds, and operations their bits, where float32 counts as real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernel.accuracy import F32, FUNCTIONS, errors, nearly, primitive, sample
from tests.kernel.elementwise import written
from tests.kernel.hostile import hostile, hostile_calls
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import agree, random_arrays, random_kernel

from wholestep.backends.gpu.keep_roundings import keep_roundings
from wholestep.kernel.lang import Kernel, Var, walk
from wholestep.kernel.maths import float_bits

LEAST = float(np.finfo(np.float32).tiny)
CLEAR = 16 * LEAST
"""The magnitude below which terms of a result may be flushed to zero."""
RELAXED = {"sqrt": 0.51}
"""Bounds where a division of the device is not rounded to nearest."""
COUNT = 2000


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < LEAST, np.copysign(np.float32(0), x), x)


def worst(code: Any, name: str, seed: int, keep: Any = keep_roundings) -> tuple[float, list[Any]]:
    """The largest error of a function after hostile rewrites, and its operands and results."""
    rng = np.random.default_rng(seed)
    given = [flushed(sample(rng, F32, FUNCTIONS[name].interval, COUNT)) for _ in range(primitive(name).arity)]
    kernel = keep(written(code, [F32] * len(given), F32, COUNT, doubles=False))
    out = np.zeros(COUNT, F32)
    run_kernel(hostile(kernel, seed), [*given, out], hostile_calls(seed))
    exact = nearly(name, given)
    lost = (np.abs(exact) <= CLEAR) & (np.abs(out) <= 2 * CLEAR)
    found = np.where(lost, 0.0, errors(out, exact))
    i = int(np.argmax(found))
    return float(found[i]), [x[i] for x in (*given, out, exact)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_keep_their_bounds(name: str) -> None:
    for seed in range(2):
        found, where = worst(primitive(name).code, name, seed)
        assert found <= RELAXED.get(name, FUNCTIONS[name].bounds[0]), f"seed {seed}: {where}"


def test_the_compiler_is_hostile() -> None:
    """Without `keep_roundings` most functions are wrong, which shows that the law can fail."""
    broken = [n for n in FUNCTIONS if worst(primitive(n).code, n, 0, lambda k: k)[0] > 2 * FUNCTIONS[n].bounds[0]]
    assert len(broken) >= 15, broken


@pytest.mark.parametrize(("op", "bound"), [("fma", 0.5), ("div", 0.51), ("sqrt", 0.51)])
def test_operations_are_rounded_once(op: str, bound: float) -> None:
    code = {"fma": float_bits.fma, "div": lambda a, b: a / b, "sqrt": float_bits.root}[op]
    rng, arity = np.random.default_rng(5), {"fma": 3, "div": 2, "sqrt": 1}[op]
    ends = np.array([0.0, -0.0, 1.0, -1.0, 3.0, np.inf, -np.inf, np.nan, 3e38, 2e-38], F32)
    near = rng.uniform(-4, 4, (3, COUNT)).astype(F32)
    wide = np.ldexp(near, rng.integers(-100, 100, (3, COUNT))).astype(F32)
    if op == "fma":  # a summand that cancels the product up to its last digits, and one of the same size
        near[2] = np.where(np.arange(COUNT) % 2, -near[0] * near[1], near[2])
        wide = np.ldexp(near, rng.integers(-20, 20, (3, COUNT))).astype(F32)
    corners = [x.reshape(-1) for x in np.meshgrid(*[ends] * arity)]
    given = [np.concatenate([near[i], wide[i], corners[i]]) for i in range(arity)]
    kernel = keep_roundings(written(code, [F32] * arity, F32, len(given[0]), doubles=False))
    out = np.zeros(len(given[0]), F32)
    run_kernel(hostile(kernel, 1), [*given, out], hostile_calls(1))
    a, b, c = [*[x.astype(np.float64) for x in given], 0.0, 0.0][:3]
    with np.errstate(all="ignore"):
        exact = {"fma": lambda: a * b + c, "div": lambda: a / b, "sqrt": lambda: np.sqrt(a)}[op]()
    clear = ~((np.abs(exact) <= CLEAR) & (np.abs(out) <= 2 * CLEAR))
    found = np.where(clear, errors(out, exact), 0.0)
    i = int(np.argmax(found))
    assert found[i] <= bound, [x[i] for x in (*given, out, exact)]


def chain(seed: int) -> Kernel:
    """A chain of sums, differences and products, each of two of the three values before it."""
    rng = np.random.default_rng(seed)
    lines = ["kernel chain(x: f32[96], mut y: f32[96], mut s: f32[3]):", "    v100 = f32(0.0)", "    for i in 3:"]
    lines += ["        for j in 32:", *[f"            v{n} = x[32*i + j]" for n in range(1)]]
    for n in range(1, 14):
        a, b = rng.integers(max(0, n - 3), n, 2)
        lines.append(f"            v{n} = v{a} {'+-*'[rng.integers(3)]} v{b}")
    lines += ["            y[32*i + j] = v13", "            fold v50 = add(v12) from v100", "        s[i] = v50"]
    return parse_kernel("\n".join(lines) + "\n")


@pytest.mark.parametrize("seed", range(20))
def test_sums_and_products_keep_their_bits(seed: int) -> None:
    kernel = chain(seed)
    given = [np.random.default_rng(seed).uniform(0.5, 2, 96).astype(F32), np.zeros(96, F32), np.zeros(3, F32)]
    wanted = [x.copy() for x in given]
    run_kernel(kernel, wanted)
    run_kernel(hostile(keep_roundings(kernel), seed), given, hostile_calls(seed))
    assert agree(given[1], wanted[1]), f"{kernel}\n{keep_roundings(kernel)}"


def test_random_kernels_mean_the_same_with_roundings_kept() -> None:
    for seed in range(5000, 5030):
        kernel = random_kernel(seed)
        found = random_arrays(kernel, seed)
        wanted = [x.copy() for x in found]
        run_kernel(kernel, wanted)
        run_kernel(keep_roundings(kernel), found)
        assert all(agree(x, y) for x, y in zip(found, wanted, strict=True)), f"seed {seed}:\n{kernel}"


HELD = """\
kernel held(x: f32[8], mut y: f32[8], mut z: f32[8], mut w: f32[1]):
    for i in 8:
        v0 = x[i]
        v1 = v0 * v0
        y[i] = v1
        v2 = v0 + v0
        z[i] = v2
        v3 = z[i]
        v4 = v0 - v0
        v5 = v3 + v4
        y[i] = v5
    v6 = f32(0.0)
    for j in 8 ordered:
        carry v7 from v6
        v8 = y[j]
        v9 = v7 + v8
        next v7 = v9, after v10
    w[0] = v10
"""


def test_only_what_a_compiler_could_look_through_is_exact() -> None:
    """A value that is only stored stays as it is; one that is loaded again, carried or minus itself becomes exact."""
    kernel = keep_roundings(parse_kernel(HELD))
    exact = [s.args[0].op for s in walk(kernel.body) if isinstance(s, Var) and s.op == "exact"]
    assert exact == ["mul", "add", "load", "sub", "add", "add"]

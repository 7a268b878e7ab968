"""The interpreter against NumPy written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special
from tests.kernel import interpret
from tests.kernel.parse import parse_kernel

from wholestep import dtypes
from wholestep.errors import KernelError
from wholestep.kernel.lang import Kernel
from wholestep.kernel.verify import verify_kernel

Array = np.ndarray[Any, Any]


def whole(rng: np.random.Generator, *shape: int, dtype: str = "f4") -> Array:
    """Small whole numbers, whose sums are exact in any order."""
    return rng.integers(-8, 9, shape).astype(dtype)


def run(source: str, *given: Array, **calls: Any) -> dict[str, Array]:
    """Run a kernel on copies of its inputs, and on zeros for the other buffers; the written buffers, by name."""
    kernel = parse_kernel(source)
    verify_kernel(kernel)
    rest = [np.zeros(b.size, b.dtype) for b in kernel.buffers[len(given) :]]
    arrays = [*[x.reshape(-1).copy() for x in given], *rest]
    interpret.run_kernel(kernel, arrays, calls)
    return {b.name: x for b, x in zip(kernel.buffers, arrays, strict=True) if b.written}


MATMUL = """\
kernel matmul(x: f32[63], w: f32[45], b: f32[5], mut y: f32[35]):
    v0 = f32(0.0)
    for i in 7 tile 4:
        for j in 5 lanes 4:
            for k in 9 tile 2:
                v1 = x[9*i + k]
                v2 = w[5*k + j]
                fold v3 = fma(v1, v2) from v0
            v4 = b[j]
            v5 = v3 + v4
            y[5*i + j] = v5
"""


@pytest.mark.parametrize("points", [1, 20, 1 << 20])
def test_matmul_in_pieces_of_any_size(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpret, "POINTS", points)
    rng = np.random.default_rng(0)
    x, w, b = whole(rng, 7, 9), whole(rng, 9, 5), whole(rng, 5)
    np.testing.assert_array_equal(run(MATMUL, x, w, b)["y"].reshape(7, 5), x @ w + b)


SOFTMAX = """\
kernel softmax(x: f64[30], mut y: f64[30]):
    v0 = f64(-inf)
    v1 = f64(0.0)
    for i in 3:
        for j in 10 lanes 8:
            v2 = x[10*i + j]
            fold v3 = max(v2) from v0
        for k in 10 lanes 8:
            v4 = x[10*i + k]
            v5 = v4 - v3
            v6 = call(exp, v5)
            fold v7 = add(v6) from v1
            y[10*i + k] = v6
        for l in 10 lanes 8:
            v8 = y[10*i + l]
            v9 = v8 / v7
            y[10*i + l] = v9
"""

ACROSS = """\
kernel softmax(x: f64[30], mut y: f64[30]):
    for i in 3:
        for j in 10 lanes 8 tile 2:
            v0 = x[10*i + j]
            v1 = across(max, v0, j)
            v2 = v0 - v1
            v3 = call(exp, v2)
            v4 = across(add, v3, j)
            v5 = v3 / v4
            y[10*i + j] = v5
"""


@pytest.mark.parametrize("source", [SOFTMAX, ACROSS], ids=["folds", "across"])
def test_softmax_of_rows(source: str) -> None:
    x = np.random.default_rng(1).normal(size=(3, 10)) * 50
    np.testing.assert_allclose(run(source, x, exp=np.exp)["y"].reshape(3, 10), special.softmax(x, axis=1), rtol=1e-14)


CONVOLUTION = """\
kernel conv(x: f32[72], w: f32[18], mut y: f32[24]):
    v0 = f32(0.0)
    v1 = i64(0)
    v2 = i64(6)
    for r in 6:
        for q in 4 lanes 4:
            for a in 3:
                v3 = index(r + a - 1)
                v4 = v1 <= v3
                v5 = v3 < v2
                v6 = v4 & v5
                for b in 3:
                    v7 = index(q + b - 1)
                    v8 = i64(4)
                    v9 = v1 <= v7
                    v10 = v7 < v8
                    v11 = v9 & v10
                    v12 = v6 & v11
                    for c in 2:
                        v13 = x[12*r + 12*a + 3*q + 3*b + c - 15] if v12
                        v14 = w[6*a + 2*b + c]
                        fold v15 = fma(v13, v14) from v0
                    fold v16 = add(v15) from v0
                fold v17 = add(v16) from v0
            y[4*r + q] = v17
"""


def test_convolution_with_padding_by_guards() -> None:
    rng = np.random.default_rng(2)
    x, w = whole(rng, 6, 4, 3), whole(rng, 3, 3, 2)
    padded = np.pad(x[..., :2], ((1, 1), (1, 1), (0, 0)))
    expected = np.zeros((6, 4), np.float32)
    for a in range(3):
        for b in range(3):
            expected += padded[a : a + 6, b : b + 4] @ w[a, b]
    np.testing.assert_array_equal(run(CONVOLUTION, x, w)["y"].reshape(6, 4), expected)


def test_cumulative_sum_by_a_carry() -> None:
    source = """\
kernel cumsum(x: i64[12], mut y: i64[12], mut last: i64[3]):
    v0 = i64(0)
    for i in 3 lanes 4:
        for j in 4 ordered:
            carry v1 from v0
            v2 = x[4*i - j + 3]
            v3 = v1 + v2
            y[4*i - j + 3] = v3
            next v1 = v3, after v4
        last[i] = v4
"""
    x = whole(np.random.default_rng(3), 3, 4, dtype="i8")
    made = run(source, x)
    np.testing.assert_array_equal(made["y"].reshape(3, 4), np.cumsum(x[:, ::-1], axis=1)[:, ::-1])
    np.testing.assert_array_equal(made["last"], x.sum(axis=1))


def test_two_carries_change_places_at_once() -> None:
    source = """\
kernel fibonacci(mut y: i32[10]):
    v0 = i32(0)
    v1 = i32(1)
    for i in 10 ordered:
        carry v2 from v0
        carry v3 from v1
        v4 = v2 + v3
        y[i] = v2
        next v2 = v3, after v5
        next v3 = v4, after v6
"""
    np.testing.assert_array_equal(run(source)["y"], [0, 1, 1, 2, 3, 5, 8, 13, 21, 34])


def test_gather_and_scatter_of_rows() -> None:
    gather = """\
kernel gather(t: f32[28], at: i32[6], mut y: f32[24]):
    for i in 6:
        v0 = at[i]
        for j in 4 lanes 4:
            v1 = t[4*v0 + j]
            y[4*i + j] = v1
"""
    scatter = """\
kernel scatter(g: f32[24], at: i32[6], mut t: f32[28]):
    for j in 4 lanes 4:
        for i in 6 ordered:
            v0 = at[i]
            v1 = g[4*i + j]
            v2 = t[4*v0 + j]
            v3 = v1 + v2
            t[4*v0 + j] = v3
"""
    rng = np.random.default_rng(4)
    table, at = whole(rng, 7, 4), np.array([3, 0, 3, 6, 3, 0], np.int32)
    rows = run(gather, table, at)["y"].reshape(6, 4)
    np.testing.assert_array_equal(rows, table[at])
    expected = np.zeros((7, 4), np.float32)
    np.add.at(expected, at, rows)
    np.testing.assert_array_equal(run(scatter, rows, at)["t"].reshape(7, 4), expected)


def test_guards_of_loops_and_stores() -> None:
    """A false guard prevents loads and stores, and the result of its fold or carry is the initial value."""
    source = """\
kernel guarded(n: i32[6], x: f32[4], mut y: f32[6], mut z: f32[6], mut w: f32[6]):
    v0 = i32(4)
    v1 = f32(100.0)
    v2 = f32(7.0)
    for i in 6 lanes 8:
        v3 = n[i]
        v4 = v3 < v0
        for j in 2 if v4:
            v5 = x[v3]
            fold v6 = add(v5) from v1
        for k in 3 ordered if v4:
            carry v7 from v2
            v8 = x[v3]
            v9 = v7 * v8
            z[i] = v9
            next v7 = v9, after v10
        y[i] = v6
        w[i] = v10 if v4
"""
    n, x = np.array([0, 9, 3, 4, 1, 2], np.int32), np.array([1, 2, 3, 4], np.float32)
    made = run(source, n, x)
    at, asked = np.where(n < 4, n, 0), n < 4
    np.testing.assert_array_equal(made["y"], np.where(asked, 100 + 2 * x[at], 100))
    np.testing.assert_array_equal(made["z"], np.where(asked, 7 * x[at] ** 3, 0))
    np.testing.assert_array_equal(made["w"], np.where(asked, 7 * x[at] ** 3, 0))


FOLDS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


CASES = [
    (op, name)
    for op in FOLDS
    for name, kind in {"bool": "b", "i8": "i", "u16": "i", "i64": "i", "f32": "f", "f64": "f"}.items()
    if kind in interpret.FOLDS[op].takes
]


@pytest.mark.parametrize(("op", "name"), CASES)
def test_folds(op: str, name: str) -> None:
    """Integers wrap around in their own dtype; NaN wins; the initial value takes part."""
    dtype = dtypes.from_short(name)
    source = f"""\
kernel folds(x: {name}[20], f: {name}[1], mut y: {name}[4]):
    v0 = f[0]
    for i in 4:
        for j in 5:
            v1 = x[4*j + i]
            fold v2 = {op}(v1) from v0
        y[i] = v2
"""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, (5, 4)).astype(dtype) if dtype.kind == "b" else whole(rng, 5, 4).astype(dtype)
    if dtype.kind == "f":
        x[2, 1] = np.nan
    first = x[0, :1]
    terms = np.concatenate([x, np.broadcast_to(first, (1, 4))])
    expected = FOLDS[op].reduce(terms, axis=0, dtype=dtype)
    np.testing.assert_array_equal(run(source, x, first)["y"], expected)


def test_loops_of_no_steps() -> None:
    source = """\
kernel nothing(x: f32[0], mut y: f32[3], mut z: f32[3]):
    v0 = f32(5.0)
    for i in 3:
        for j in 0 lanes 8:
            v1 = x[j + 7]
            z[j + 9] = v1
            fold v2 = add(v1) from v0
        for k in 0 ordered:
            carry v3 from v0
            z[i] = v3
            next v3 = v3, after v4
        v5 = v2 + v4
        y[i] = v5
"""
    made = run(source, np.zeros(0, np.float32))
    np.testing.assert_array_equal(made["y"], [10, 10, 10])
    np.testing.assert_array_equal(made["z"], [0, 0, 0])


def test_half_precision_is_stored_and_computed_with_in_float32() -> None:
    source = """\
kernel halves(x: bf16[5], mut y: f16[5], mut z: bf16[5]):
    v0 = f32(1.01)
    for i in 5 lanes 8:
        v1 = x[i]
        v2 = f32(v1)
        v3 = v2 * v0
        v4 = f16(v3)
        v5 = bf16(v3)
        y[i] = v4
        z[i] = v5
"""
    x = np.array([1, -2.5, 1e30, np.inf, np.nan]).astype(dtypes.from_short("bf16"))
    product = x.astype(np.float32) * np.float32(1.01)
    made = run(source, x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(made["y"], product.astype(np.float16))
    np.testing.assert_array_equal(made["z"].view(np.uint16), product.astype(x.dtype).view(np.uint16))


def test_bits_indices_and_special_functions() -> None:
    source = """\
kernel parts(x: f32[6], mut bits: u32[6], mut at: i64[6], mut g: f32[6]):
    for i in 2:
        for j in 3:
            v0 = x[3*i + j]
            v1 = bits(u32, v0)
            v2 = index(-3*i + 2*j - 5)
            v3 = call(special.gammaln.f32, v0)
            bits[3*i + j] = v1
            at[3*i + j] = v2
            g[3*i + j] = v3
"""
    x = np.array([0.5, -0.0, 1e-40, np.inf, 3, 20], np.float32)
    made = run(source, x)
    np.testing.assert_array_equal(made["bits"], x.view(np.uint32))
    np.testing.assert_array_equal(made["at"], [-5, -3, -1, -8, -6, -4])
    np.testing.assert_array_equal(made["g"], special.gammaln(x))


COPY = """\
kernel copy(at: i64[3], x: f32[5], mut y: f32[3]):
    for i in 3:
        v0 = at[i]
        v1 = x[v0]
        y[i] = v1
"""


@pytest.mark.parametrize("wrong", [-1, 5])
def test_an_index_outside_is_an_error(wrong: int) -> None:
    """A negative index is an error too, although NumPy counts it from the end."""
    with pytest.raises(KernelError, match=rf"run: copy touches x\[{wrong}\], which has 5 elements"):
        run(COPY, np.array([0, wrong, 2]), np.zeros(5, np.float32))


def test_arrays_that_do_not_fit_are_refused() -> None:
    kernel: Kernel = parse_kernel(COPY)
    at, x, y = np.zeros(3, np.int64), np.zeros(5, np.float32), np.zeros(3, np.float32)
    with pytest.raises(KernelError, match="copy has 3 buffers, 2 arrays were given"):
        interpret.run_kernel(kernel, [at, x])
    for wrong in (x.astype(np.float64), x[:4], x.reshape(5, 1)):
        with pytest.raises(KernelError, match=r"copy wants x: float32 \(5,\), given was"):
            interpret.run_kernel(kernel, [at, wrong, y])


def test_an_unknown_function_is_refused() -> None:
    for symbol in ("exp", "special.nothing.f32", "libm.exp"):
        source = f"kernel k(mut y: f32[1]):\n    v0 = f32(1.0)\n    v1 = call({symbol}, v0)\n    y[0] = v1\n"
        with pytest.raises(KernelError, match=f"k calls '{symbol}', which is not known here"):
            run(source)

"""The code generator beyond its law: the order of folds, conversions, masks, calls, and faults that were mended."""

import ctypes
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.backends.native_kernels import Native, run
from tests.kernel import interpret

from wholestep.backends.cpu.cpu_features import CpuTarget, host_levels, named_target
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import BOOL, I64, Axis, Index, Kernel
from wholestep.kernel.ops import fma, halves_bf16x2
from wholestep.kernel.verify import verify_kernel

F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
BF16, WORD = np.dtype(ml_dtypes.bfloat16), np.dtype(np.uint32)
EXTENTS = (0, 1, 2, 7, 16, 31, 32, 33, 64, 97)
SCHEDULES = [(lanes, tile) for lanes in (1, 4, 16, 64) for tile in (1, 2, 3)]


def axis(name: str, extent: int, lanes: int = 1, tile: int = 1) -> Axis:
    return Axis(name, extent, lanes=lanes, tile=tile)


def converting(source: np.dtype[Any], to: np.dtype[Any], n: int, lanes: int) -> Kernel:
    """y[i] = x[i] in another dtype."""
    b, i = KernelBuilder("convert"), axis("i", n, lanes, 2)
    with b, b.loop(i):
        x = b.load(b.buffer("x", source, n), Index(0, {i: 1}))
        b.store(b.buffer("y", to, n), Index(0, {i: 1}), b.convert(x, to))
    return b.kernel()


def folding(op: str, n: int, lanes: int, tile: int, dtype: np.dtype[Any] = F32) -> Kernel:
    """y[0] = x[0] op x[1] op ..."""
    b, i = KernelBuilder("fold"), axis("i", n, lanes, tile)
    with b:
        x, y = b.buffer("x", dtype, n), b.buffer("y", dtype, 1)
        with b.loop(i) as loop:
            found = loop.fold(op, b.load(x, Index(0, {i: 1})))
        b.store(y, Index(), found)
    return b.kernel()


@pytest.mark.parametrize("level", [None, *host_levels()])
@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_pairs_of_bfloat16_are_chains_of_products_with_and_without_an_instruction(
    level: str | None, lanes: int
) -> None:
    """A word is two fused multiply-adds, that of the upper half first."""
    n, terms = 33, 21
    b, i, k = KernelBuilder("pairs"), axis("i", n, lanes, 2), axis("k", terms)
    with b:
        x, y, z = b.buffer("x", WORD, terms), b.buffer("y", WORD, terms * n), b.buffer("z", F32, n, written=True)
        with b.loop(i):
            with b.loop(k) as loop:
                found = loop.fold("dot_bf16x2", b.load(x, Index(0, {k: 1})), b.load(y, Index(0, {k: n, i: 1})))
            b.store(z, Index(0, {i: 1}), found)
    rng = np.random.default_rng(0)
    left, right = [rng.normal(size=2 * size).astype(BF16).view(WORD) for size in (terms, terms * n)]
    given = [left, right, np.zeros(n, F32)]
    run(b.kernel(), *given, target=named_target(level) if level else None)
    wanted = np.zeros(n, F32)
    for word, words in zip(left, right.reshape(terms, n), strict=True):
        for p, q in zip(halves_bf16x2(word), halves_bf16x2(words), strict=True):
            wanted = fma(np.broadcast_to(p, n), q, wanted)
    assert given[2].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("n", EXTENTS)
def test_every_extent_with_every_schedule(n: int) -> None:
    kernels = []
    for lanes, tile in SCHEDULES:
        b, i, j = KernelBuilder("extent"), axis("i", 3, tile=2), axis("j", n, lanes, tile)
        with b:
            x, y = b.buffer("x", F32, 3 * n), b.buffer("y", F32, 3 * n + 1)
            with b.loop(i):
                with b.loop(j) as loop:
                    v = b.load(x, Index(0, {i: n, j: 1}))
                    found = loop.fold("add", v)
                with b.loop(k := axis("k", n, lanes, tile)):
                    b.store(y, Index(0, {i: n, k: 1}), b.load(x, Index(0, {i: n, k: 1})) + found)
        kernels.append(b.kernel())
        verify_kernel(kernels[-1])
    x = np.arange(3 * n, dtype=F32) % 7
    native = Native(kernels)
    for at, kernel in enumerate(kernels):
        found, wanted = np.full(3 * n + 1, -1, F32), np.full(3 * n + 1, -1, F32)
        native.run(at, [x, found])
        interpret.run_kernel(kernel, [x, wanted])
        np.testing.assert_array_equal(found, wanted)


def test_a_scalar_fold_has_the_same_bits_for_every_tile() -> None:
    x = np.random.default_rng(0).standard_normal(101).astype(F32)
    native = Native([folding("add", x.size, 1, tile) for tile in (1, 2, 4, 7, 200)])
    found = [np.zeros(1, F32) for _ in native.kernels]
    for n, y in enumerate(found):
        native.run(n, [x, y])
    serial = np.add.accumulate(x, dtype=F32)[-1:]
    assert all(y.tobytes() == serial.tobytes() for y in found)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_nan_wins_an_extreme_wherever_it_is(op: str, lanes: int) -> None:
    native = Native([folding(op, 21, lanes, 2)])
    for place in range(21):
        x, y = np.arange(21, dtype=F32), np.zeros(1, F32)
        x[place] = np.nan
        native.run(0, [x, y])
        assert np.isnan(y[0]), place
    native.run(0, [np.arange(21, dtype=F32), y])
    assert y[0] == (20 if op == "max" else 0)


@pytest.mark.parametrize("wide", [1, 4])
def test_a_fold_whose_body_reduces_across_its_own_axis(wide: int) -> None:
    """The sum of each row's differences from its maximum, with columns tiled and rows along lanes or not."""
    b, i, j = KernelBuilder("both"), axis("i", 6, wide), axis("j", 5, tile=8)
    with b, b.loop(i):
        with b.loop(j) as loop:
            x = b.load(b.buffer("x", F32, 30), Index(0, {i: 5, j: 1}))
            found = loop.fold("add", b.across("max", j, x) - x)
        b.store(b.buffer("y", F32, 6), Index(0, {i: 1}), found)
    x, y = np.random.default_rng(1).integers(-9, 9, (6, 5)).astype(F32), np.zeros(6, F32)
    run(b.kernel(), x.ravel(), y)
    np.testing.assert_array_equal(y, (x.max(1, keepdims=True) - x).sum(1))


@pytest.mark.parametrize("name", host_levels())
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_half_types_convert_as_numpy_does(dtype: np.dtype[Any], name: str) -> None:
    """All 65,536 values converted to float32; and numbers beside every tie converted from float32 and float64."""
    with np.errstate(all="ignore"):
        halves = np.arange(65536, dtype=np.uint16).view(dtype)
        singles = halves.astype(F32)
        same(converting(dtype, F32, 65536, 16), halves, singles, named_target(name))
        exact = singles[np.isfinite(singles)].astype(F64)
        exact.sort()
        middle = (exact[1:] + exact[:-1]) / 2
        near = np.concatenate([middle * (1 + sign * 2.0**-40) for sign in (-1, 0, 1)] + [[np.inf, -np.inf, np.nan]])
        nans = np.array([0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF], np.uint32).view(F32)
        for wide in (np.concatenate([near.astype(F32), nans]), near):
            if dtype == BF16 and wide.dtype == F64:
                wide = wide[np.isin(wide, near.astype(F32))]  # ml_dtypes rounds twice
            same(converting(wide.dtype, dtype, wide.size, 16), wide, wide.astype(dtype), named_target(name))


@pytest.mark.parametrize("name", host_levels())
def test_a_nan_keeps_its_upper_bits_with_and_without_instructions(name: str) -> None:
    target = named_target(name)
    halves = np.concatenate([np.arange(first, first + 0x3FF, dtype=np.uint16) for first in (0x7C01, 0xFC01)])
    sign, payload = (halves & 0x8000).astype(np.uint32) << 16, (halves & 0x3FF).astype(np.uint32) << 13
    wide = sign | 0x7FC00000 | payload
    found, back = np.zeros(halves.size, F32), np.zeros(halves.size, F16)
    run(converting(F16, F32, halves.size, 16), halves.view(F16), found, target=target)
    np.testing.assert_array_equal(found.view(np.uint32), wide)
    run(converting(F32, F16, halves.size, 16), (sign | 0x7F800001 | payload).view(F32), back, target=target)
    np.testing.assert_array_equal(back.view(np.uint16), halves | 0x200)


def test_a_tie_in_float32_does_not_round_float64_twice() -> None:
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 2.0**-8 - 2.0**-40])
    y = np.zeros(3, BF16)
    run(converting(F64, BF16, 3, 4), x, y)
    assert y.astype(F64).tolist() == [1 + 2.0**-7, 1, 1]


def same(kernel: Kernel, x: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], made_for: CpuTarget) -> None:
    """Check a kernel of one input and one output; NaNs are the same."""
    found = np.zeros_like(wanted)
    run(kernel, x, found, target=made_for)
    got, want = found.astype(F64), wanted.astype(F64)
    wrong = np.flatnonzero(~((got == want) | (np.isnan(got) & np.isnan(want))))
    assert not wrong.size, (x[wrong[:3]], found[wrong[:3]], wanted[wrong[:3]])


INTEGERS = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]
PAIRS = list(itertools.product([BOOL, *INTEGERS, F32, F64], repeat=2))


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_numbers_convert_as_numpy_does(lanes: int) -> None:
    kernels = [converting(source, to, 40, lanes) for source, to in PAIRS]
    native = Native(kernels)
    for n, (source, to) in enumerate(PAIRS):
        numbers: list[Any] = [0, 1, 2, 3, 77, 100, 127]
        if source.kind in "iu":
            numbers += [np.iinfo(source).min, np.iinfo(source).max, np.iinfo(source).max // 2 + 1]
        if source.kind in "if" and to.kind in "ifb":
            numbers += [-1, -2, -128]
        if source.kind == "f" and to.kind in "iu":
            numbers += [0.5, 1.99, 126.7] + ([-0.75] if to.kind == "u" else [-1.5])
            numbers += [2.0**63, 2.0**63 + 2048, 1.5 * 2.0**63] if to == np.uint64 else []
        x = np.resize(np.array(numbers, source), 40)
        y, wanted = np.zeros(40, to), x.astype(to)
        native.run(n, [x, y])
        np.testing.assert_array_equal(y, wanted, f"{source} to {to}")


@pytest.mark.parametrize("known", [False, True], ids=["loaded", "constant"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_division_and_shifts_have_no_trap(dtype: np.dtype[Any], known: bool) -> None:
    least, most, bits = np.iinfo(dtype).min, np.iinfo(dtype).max, 8 * dtype.itemsize
    some = [least, least + 1, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1, most // 2, most - 1, most]
    some += [-1, -2, -3] if dtype.kind == "i" else []
    x = np.array(some * len(some), dtype)
    y = np.repeat(np.array(some, dtype), len(some))
    kernels = []
    for lanes, name in itertools.product((1, 16), ("quotient", "shl", "shr")):
        b, i = KernelBuilder(name), axis("i", len(some), lanes, 2)
        with b:
            given, second, out = (b.buffer(n, dtype, x.size) for n in "xyz")
            with b.loop(i):
                for row, number in enumerate(some):
                    at = Index(row * len(some), {i: 1})
                    v = b.load(given, at)
                    w = b.constant(number, dtype) if known else b.load(second, at)
                    b.store(out, at, b.op(name, v, w))
        kernels.append(b.kernel())
    native = Native(kernels)
    for n, kernel in enumerate(kernels):
        found, wanted = np.zeros(x.size, dtype), np.zeros(x.size, dtype)
        native.run(n, [x, y, found])
        interpret.run_kernel(kernel, [x, y, wanted])
        np.testing.assert_array_equal(found, wanted, kernel.name)


@pytest.mark.parametrize("lanes", [1, 8])
def test_an_external_function_is_called_for_the_lanes_within_the_extent(lanes: int) -> None:
    seen = []

    def twice(x: float) -> float:
        seen.append(x)
        return 2 * x

    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(twice)
    b, i = KernelBuilder("call"), axis("i", 11, lanes, 3)
    with b, b.loop(i):
        x = b.load(b.buffer("x", F64, 11), Index(0, {i: 1}))
        b.store(b.buffer("y", F64, 11), Index(0, {i: 1}), b.call("test.twice.f64", x))
    x, y = np.arange(11.0), np.zeros(11)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    run(b.kernel(), x, y, symbols={"test.twice.f64": address})
    assert y.tolist() == (2 * x).tolist() and sorted(seen) == x.tolist()


@pytest.mark.parametrize(("tile", "lanes"), [(16, 16), (8, 8), (4, 8), (16, 4), (5, 8), (2, 16)])
@pytest.mark.parametrize("shape", [(32, 48), (33, 47), (5, 3)])
@pytest.mark.parametrize("dtype", [F32, F64, np.dtype(np.int8), BOOL], ids=str)
def test_transposed_copies(shape: tuple[int, int], tile: int, lanes: int, dtype: np.dtype[Any]) -> None:
    m, n = shape
    b, i, j = KernelBuilder("transpose"), axis("i", n, tile=tile), axis("j", m, lanes)
    with b, b.loop(i), b.loop(j):
        x = b.load(b.buffer("x", dtype, m * n), Index(0, {j: n, i: 1}))
        b.store(b.buffer("y", dtype, m * n), Index(0, {i: m, j: 1}), x)
    given = np.random.default_rng(0).integers(0, 2, m * n).astype(dtype)
    found = np.zeros(m * n, dtype)
    run(b.kernel(), given, found)
    np.testing.assert_array_equal(found.reshape(n, m), given.reshape(m, n).T)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 16, 21])
@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_the_parts_of_complex_numbers(n: int, lanes: int) -> None:
    b, i = KernelBuilder("complex"), axis("i", n, lanes, 2)
    with b, b.loop(i):
        x, y = b.buffer("x", F32, 2 * n), b.buffer("y", F32, 2 * n + 1)
        re, im = (b.load(x, Index(part, {i: 2})) for part in (0, 1))
        for part, x in enumerate((im, b.op("neg", re))):
            b.store(y, Index(part, {i: 2}), x)
    x, found = np.arange(2 * n, dtype=F32), np.full(2 * n + 1, 99, F32)
    run(b.kernel(), x, found)
    assert (found[:-1].view(np.complex64) == -1j * x.view(np.complex64)).all() and found[-1] == 99


def test_a_value_in_the_index_keeps_a_load_from_being_transposed() -> None:
    b, i, j = KernelBuilder("bent"), axis("i", 4, tile=2), axis("j", 4, 4)
    with b, b.loop(i):
        more = b.index(Index(1, {i: 1}))
        with b.loop(j):
            x = b.load(b.buffer("x", F32, 64), Index(0, {j: 8, i: 1, more: 1}))
            b.store(b.buffer("y", F32, 16), Index(0, {i: 4, j: 1}), x)
    found = np.zeros(16, F32)
    run(b.kernel(), np.arange(64, dtype=F32), found)
    assert found.tolist() == [8 * col + 2 * row + 1 for row in range(4) for col in range(4)]


@pytest.mark.parametrize("guarded", [False, True])
def test_one_truncated_lane_is_stored_as_narrow_as_it_is(guarded: bool) -> None:
    b, i, t = KernelBuilder("narrow"), axis("i", 4 if guarded else 3, 2, 2), axis("t", 5)
    with b, b.loop(i):
        guard = b.op("lt", b.index(Index(0, {i: 1})), 3) if guarded else None
        with b.loop(t, ordered=True):
            number = b.convert(b.index(Index(0, {i: 1, t: 3})), np.dtype(np.int16))
            b.store(b.buffer("y", np.dtype(np.int16), 20), Index(0, {i: 1, t: 3}), number, guard)
    found = np.full(20, 99, np.int16)
    run(b.kernel(), found)
    assert found.tolist() == [*range(15), *[99] * 5]


def test_what_a_step_has_stored_is_read_again_by_what_reduces_across_all_steps() -> None:
    b, j = KernelBuilder("again"), axis("j", 64, 4, 16)
    with b, b.loop(j):
        y = b.buffer("y", F32, 64)
        b.store(y, Index(0, {j: 1}), b.load(b.buffer("x", F32, 64), Index(0, {j: 1})) + 1)
        held = b.load(y, Index(0, {j: 1}), here=True)
        b.store(b.buffer("z", F32, 64), Index(0, {j: 1}), held - b.across("max", j, held))
    x, y, z = np.arange(64, dtype=F32), np.zeros(64, F32), np.zeros(64, F32)
    run(b.kernel(), y, x, z)
    assert z.tolist() == (x - 63).tolist()


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_guarded_loop_touches_only_what_its_guard_allows(lanes: int) -> None:
    """A lane whose guard is false neither loads, even where a value is part of the index, nor stores."""
    b, i, t = KernelBuilder("guarded"), axis("i", 8, lanes), axis("t", 1)
    with b:
        x, table, y = (b.buffer(n, d, s) for n, d, s in (("x", I64, 8), ("t", I64, 10), ("y", I64, 8)))
        with b.loop(i):
            at = b.load(x, Index(0, {i: 1}))
            with b.loop(t, ordered=True, guard=b.op("lt", at, 10)) as loop:
                held = loop.carry(b.constant(-1, I64))
                found = b.load(table, Index(0, {at: 1}), here=True)
                b.store(y, Index(0, {i: 1}), found)
                after = loop.hand(held, found)
            b.store(b.buffer("z", I64, 8), Index(0, {i: 1}), after)
    far = 2**50
    x, y, z = np.array([0, far, 3, 9, far, far, far, 1]), np.full(8, 7), np.zeros(8, np.int64)
    run(b.kernel(), x, 10 * np.arange(10), y, z)
    assert y.tolist() == [0, 7, 30, 90, 7, 7, 7, 10]
    assert z.tolist() == [0, -1, 30, 90, -1, -1, -1, 10]

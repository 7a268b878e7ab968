"""Sums of products whose terms lie side by side in memory: squares are turned in registers, each sum is one chain."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from tests.backends.native_kernels import Native, fenced
from tests.hang import HANG

import wholestep as ws
from wholestep.backends.cpu.codegen.function import kernel_function
from wholestep.backends.cpu.cpu_features import CpuTarget, host_levels, host_target, named_target
from wholestep.backends.cpu.target import schedule
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Axis, Index, Kernel, axes_of
from wholestep.kernel.verify import verify_kernel
from wholestep.lower.compile import lower_program
from wholestep.lower.target import OperandLimits
from wholestep.runtime.cpu import thread_pool

F32 = np.dtype(np.float32)
MACHINE = CpuMachine(vector=64, registers=32)
SHAPES = [(1, 1, 1), (1, 7, 16), (2, 16, 16), (3, 17, 33), (1, 31, 5), (5, 9, 100), (8, 40, 64)]
"""Rows, columns, terms."""


def sums(
    m: int, n: int, k: int, dtype: np.dtype, lanes: int = 1, columns: int = 1, rows: int = 1, tile: int = 1
) -> Kernel:
    """y[i, j] = the sum over t of x[i, t] * w[j, t], with vectors along j."""
    with KernelBuilder("sums") as b:
        x, w, y = b.buffer("x", dtype, m * k), b.buffer("w", dtype, n * k), b.buffer("y", dtype, m * n)
        j, i, t = Axis("j", n, lanes=lanes, tile=columns), Axis("i", m, tile=rows), Axis("t", k, tile=tile)
        work = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
        with b.loop(j), b.loop(i):
            with b.loop(t) as loop:
                left = b.convert(b.load(x, Index(0, {i: k, t: 1})), work)
                right = b.convert(b.load(w, Index(0, {j: k, t: 1})), work)
                found = loop.fold("fma", left, right)
            b.store(y, Index(0, {i: n, j: 1}), b.convert(found, dtype))
    made = b.kernel()
    verify_kernel(made)
    return made


def check(made_for: CpuTarget, dtype: np.dtype, fence: bool = False) -> None:
    """Every schedule gives the bits of a loop of scalars."""
    rng, wide = np.random.default_rng(0), made_for.lanes(max(dtype.itemsize, 4))
    for m, n, k in SHAPES:
        schedules = [
            (1, 1, 1, 1),
            (wide, 1, 1, 2),
            (wide, 1, m, wide),
            (wide, 2, 2, wide),
            (wide, 1, m, 2 * wide),
            (wide, 2, 1, max(wide // 2, 1)),
            (4, 3, 1, 3),
        ]
        native = Native([sums(m, n, k, dtype, *words) for words in schedules], made_for)
        given = [rng.normal(size=size).astype(dtype) for size in (m * k, n * k)]
        held = [fenced(a, True) for a in given] if fence else [(a, None) for a in given]
        found = [np.zeros(m * n, dtype) for _ in schedules]
        for at, y in enumerate(found):
            steps = native.kernels[at].outer.steps
            native.run(at, [*[a for a, _ in held], y], shares=[steps // 2])
            assert y.tobytes() == found[0].tobytes(), (m, n, k, schedules[at])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["host", *host_levels()])
def test_every_schedule_gives_the_bits_of_one_chain(name: str, dtype: type) -> None:
    check(host_target() if name == "host" else named_target(name), np.dtype(dtype))


FENCE = "from tests.backends.test_turned_sums import F32, check, host_target; check(host_target(), F32, fence=True)"


@pytest.mark.skipif(sys.platform != "linux", reason="fences are pages protected as Linux does it")
def test_nothing_behind_an_operand_is_read() -> None:
    done = subprocess.run([sys.executable, "-c", FENCE], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-2000:]


def test_rows_are_loaded_whole_and_the_next_ones_asked_for() -> None:
    text = kernel_function(sums(1, 64, 64, F32, 8, 1, 1, 8), "k", named_target("x86-64-v3")).text
    assert text.count("llvm.prefetch") == text.count("load <8 x float>") == 8
    assert text.count("load float") == 8, "one for each term of the vector, none of the matrix"


def launches(f, *args):
    return list(lower_program(ws.jit(f).lower(*args), MACHINE).launches())


@pytest.mark.parametrize("m", [1, 3, 8, OperandLimits().rows])
def test_few_rows_read_a_matrix_where_it_lies(m: int) -> None:
    x, w = np.ones((m, 64), F32), np.ones((96, 64), F32)
    (only,) = launches(lambda x, w: x @ w.T, x, w)
    lane = next(a for a in axes_of(only.kernel) if a.lanes > 1)
    assert lane.extent == 96 and only.kernel.outer is lane
    assert next(a for a in axes_of(only.kernel) if a.extent == 64).tile == lane.lanes


def test_a_matrix_times_a_vector_is_one_kernel_and_shared() -> None:
    (only,) = launches(lambda x, w: np.tanh(x @ w), np.ones((5000, 100), F32), np.ones(100, F32))
    assert only.parallel and only.kernel.outer.extent == 125
    assert [a.lanes for a in axes_of(only.kernel) if a.extent == 100] == [64 // F32.itemsize]


def test_short_terms_and_many_rows_are_copied() -> None:
    assert len(launches(lambda x, w: x @ w.T, np.ones((4, 8), F32), np.ones((96, 8), F32))) == 2
    rows = OperandLimits().rows + 2
    assert len(launches(lambda x, w: x @ w.T, np.ones((rows, 20), F32), np.ones((17, 20), F32))) == 2
    assert len(launches(lambda x, w: x @ w.T, np.ones((rows, 64), F32), np.ones((96, 64), F32))) > 1


@pytest.mark.parametrize(("m", "n", "k"), [(1, 33, 70), (4, 64, 128), (15, 100, 37), (8, 5, 16)])
def test_threads_and_layouts_do_not_show_in_the_bits(m, n, k, monkeypatch) -> None:
    monkeypatch.setattr(schedule, "SHARED_POINTS", 1)
    rng = np.random.default_rng(1)
    x, w, b = (rng.normal(size=s).astype(F32) for s in ((m, k), (n, k), (n,)))
    found = [ws.jit(lambda x, w, b: np.maximum(x @ w + b, 0))(x, np.ascontiguousarray(w.T), b)]
    for count in (1, 2, 3, 4):
        with thread_pool.threads(count):
            found.append(ws.jit(lambda x, w, b: np.maximum(x @ w.T + b, 0))(x, w, b))
    assert len({y.tobytes() for y in found}) == 1
    np.testing.assert_allclose(found[0], np.maximum(x.astype("d") @ w.T.astype("d") + b, 0), rtol=1e-5, atol=1e-5)


def test_batches_of_one_row_read_their_matrices_where_they_lie() -> None:
    rng = np.random.default_rng(2)
    q, keys = rng.normal(size=(2, 3, 32)).astype(F32), rng.normal(size=(2, 3, 20, 32)).astype(F32)

    def scores(q, keys):
        return np.einsum("bhd,bhnd->bhn", q, keys)

    assert len(launches(scores, q, keys)) == 1
    np.testing.assert_allclose(ws.jit(scores)(q, keys), scores(q, keys), rtol=1e-5, atol=1e-5)

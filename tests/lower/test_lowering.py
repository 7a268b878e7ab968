"""Lowering by its parts: loops joined, reductions staged, resident state replaced in a safe order."""

import numpy as np
import pytest
from tests.kernel import interpret

import wholestep as ws
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.compiler.driver import compile_graph
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.collapse_loops import collapse_loops
from wholestep.kernel.lang import Axis, Index, axes_of
from wholestep.kernel.text import format_kernel
from wholestep.lower.compile import lower_program
from wholestep.lower.program.steps import RoutineCall
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.primitives.movement import reshape_groups
from wholestep.runtime.cpu import thread_pool

F32 = np.dtype(np.float32)
MACHINE = CpuMachine(vector=64, registers=32)


def planned(f, *args, resident=()):
    return lower_program(run_passes(ws.jit(f).lower(*args), ALL_PASSES), MACHINE, resident)


def doubled(shape, strides):
    with KernelBuilder("doubled") as b:
        x, y = b.buffer("x", F32, 1000), b.buffer("y", F32, 1000)
        axes = [Axis(f"i{k}", n) for k, n in enumerate(shape)]
        at = Index(0, dict(zip(axes, strides, strict=True)))
        with b.loop(axes[0]), b.loop(axes[1]), b.loop(axes[2]):
            b.store(y, at, b.load(x, at) * 2.0)
    return b.kernel()


def test_loops_that_walk_as_one_are_joined():
    kernel = doubled((4, 5, 3), (15, 3, 1))
    joined = collapse_loops(kernel)
    assert "for i2 in 60" in format_kernel(joined) and format_kernel(joined).count("for") == 1
    x = np.arange(1000, dtype=F32)
    a, b = np.zeros(1000, F32), np.zeros(1000, F32)
    interpret.run_kernel(kernel, [x, a])
    interpret.run_kernel(joined, [x, b])
    np.testing.assert_array_equal(a, b)


def test_loops_with_a_gap_between_rounds_stay_apart():
    kernel = doubled((4, 5, 3), (20, 4, 1))
    assert collapse_loops(kernel) is kernel
    assert format_kernel(collapse_loops(doubled((4, 5, 3), (40, 3, 1)))).count("for") == 2


SHORT_RUNS = {
    "kernels with their outputs last": (lambda x: x.transpose(2, 3, 1, 0).copy(), ["i3", "i2", "i0", "i1"]),
    "flipped kernels with their inputs last": (
        lambda x: x[:, :, ::-1, ::-1].transpose(2, 3, 0, 1).copy(),
        ["i2", "i3", "i0", "i1"],
    ),
    "kernels in half precision": (lambda x: x.transpose(2, 3, 1, 0).astype(np.float16), ["i3", "i2", "i0", "i1"]),
    "transformed kernels": (lambda x: np.maximum(x.transpose(2, 3, 1, 0), 0) + 1, ["i3", "i2", "i0", "i1"]),
}


@pytest.mark.parametrize("name", SHORT_RUNS)
def test_a_copy_out_of_short_runs_uses_lines_up(name):
    f, order = SHORT_RUNS[name]
    x = np.random.default_rng(0).normal(size=(70, 67, 3, 3)).astype(F32)
    (launch,) = planned(f, x).launches()
    axes = axes_of(launch.kernel)
    assert [a.name for a in axes] == order
    assert {a.name: a.lanes for a in axes if a.lanes > 1} == {"i3": 16}
    found = np.zeros(x.size, f(x).dtype)
    interpret.run_kernel(launch.kernel, [x.reshape(-1), found])
    np.testing.assert_array_equal(found.reshape(f(x).shape), f(x))
    np.testing.assert_array_equal(ws.jit(f)(x), f(x))


def test_a_small_copy_stays_in_its_order():
    x = np.zeros((20, 20, 3, 3), F32)
    (launch,) = planned(SHORT_RUNS["kernels with their outputs last"][0], x).launches()
    assert [a.name for a in axes_of(launch.kernel)] == ["i0", "i1", "i2", "i3"]


@pytest.mark.parametrize("axis", [None, 0])
def test_a_large_reduction_is_shared_and_keeps_its_bits(axis):
    x = np.random.default_rng(0).normal(size=(40000, 3) if axis == 0 else (400, 300)).astype(F32)
    p = planned(lambda x: np.sum(x, axis=axis), x)
    assert any(launch.parallel for launch in p.launches())
    f = ws.jit(lambda x: np.sum(x, axis=axis))
    found = []
    for n in (1, 2, 4):
        with thread_pool.threads(n):
            found.append(np.asarray(f(x)).tobytes())
    assert len(set(found)) == 1
    np.testing.assert_allclose(np.frombuffer(found[0], F32), np.sum(x, axis=axis).reshape(-1), rtol=2e-5, atol=1e-3)


def test_few_points_of_much_work_are_shared():
    x = np.ones((40, 100), F32)

    def shared(f, x):
        (launch,) = planned(f, x).launches()
        return launch.parallel

    assert shared(lambda x: np.exp(np.tanh(x)), x) and not shared(lambda x: x * 2, x)
    assert not shared(lambda x: np.exp(np.tanh(x)), x[:10])


def test_a_long_contraction_with_few_results_is_shared_and_keeps_its_bits():
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(1 << 15, 20)).astype(F32), rng.normal(size=1 << 15).astype(F32)
    shared, rest = planned(lambda x, g: x.T @ g, x, g).launches()
    assert shared.parallel and shared.kernel.outer.extent == 64 and not rest.parallel
    columns = next(a for a in axes_of(shared.kernel) if a.lanes > 1)
    assert columns.tile * columns.lanes >= 20, "a row is read once"
    f = ws.jit(lambda x, g: x.T @ g)
    with thread_pool.threads(1):
        alone = f(x, g)
    for count in (2, 3, 4):
        with thread_pool.threads(count):
            assert f(x, g).tobytes() == alone.tobytes()
    np.testing.assert_allclose(alone, x.T.astype("d") @ g, rtol=1e-4, atol=1e-2)


def test_short_contractions_and_those_with_many_results_stay_whole():
    def count(k, n, dtype=F32):
        return len(list(planned(lambda x, g: x.T @ g, np.ones((k, n), dtype), np.ones(k, dtype)).launches()))

    assert count(1 << 15, 20) == 2
    assert count((1 << 15) - 64, 20) == count(1 << 15, 1024) == count(1 << 15, 20, np.float16) == 1


def test_half_precision_is_not_staged():
    x = np.ones((300, 400), np.float16)
    assert sum(1 for _ in planned(lambda x: np.max(x), x).launches()) == 1
    assert float(ws.jit(lambda x: np.sum(x * np.float16(0.1)))(x[:, :50])) == pytest.approx(1500, rel=2e-3)


def test_states_that_change_places_take_a_detour():
    x, y = np.arange(4.0), np.arange(4.0) + 10
    program = compile_graph(ws.jit(lambda x, y: (y, x + 1)).lower(x, y), [(0, 0), (1, 1)])
    assert any(isinstance(step, RoutineCall) and step.routine == "copy" for step in program.plan.steps)
    state = [x.copy(), y.copy()]
    instance = program.instance(state)
    instance(())
    instance(())
    np.testing.assert_array_equal(state[0], x + 1)
    np.testing.assert_array_equal(state[1], y + 1)


def test_a_state_shifted_over_itself_is_not_written_too_early():
    x = np.arange(100.0)
    program = compile_graph(ws.jit(lambda x: np.concatenate([x[1:], x[:1]]) * 2).lower(x), [(0, 0)])
    state = [x.copy()]
    program.instance(state)(())
    np.testing.assert_array_equal(state[0], np.roll(x, -1) * 2)


def test_an_unchanged_state_costs_nothing():
    x, y = np.arange(4.0), np.arange(4.0)
    p = planned(lambda x, y: (x, y * 2), x, y, resident=[(0, 0), (1, 1)])
    assert len(p.steps) == 1


def test_an_update_is_one_kernel_in_place():
    p, m, g = (np.ones((30, 50), F32) for _ in range(3))

    def update(p, m, g):
        m = np.float32(0.9) * m + np.float32(0.1) * g
        return p - np.float32(0.1) * m / (np.sqrt(m * m) + np.float32(1e-8)), m

    made = planned(update, p, m, g, resident=[(0, 0), (1, 1)])
    assert len(list(made.launches())) == 1 and made.arena == 0


def test_a_softmax_is_one_kernel():
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    for n in (10, 100, 5000):
        assert len(list(planned(softmax, np.ones((20, n), F32)).launches())) == 1


def test_a_layer_is_one_kernel_and_its_gradient_rides_on_contractions():
    x, w, b = np.ones((32, 64), F32), np.ones((64, 48), F32), np.ones(48, F32)
    assert len(list(planned(lambda x, w, b: np.maximum(x @ w + b, 0), x, w, b).launches())) == 1


@pytest.mark.parametrize("first", ["weights", "product"])
def test_a_summed_map_of_a_contraction_is_in_the_kernel_of_the_sum(first):
    """The gradient of softmax weights: they divide exponentials, and a contraction reads them too."""

    def f(g, k, e, s):
        weights, product = (e / s, g @ k) if first == "weights" else (g @ k, e / s)[::-1]
        total = (product * (-weights / s)).sum(-1, keepdims=True)
        return weights.T @ g, (product / s + total) * e

    made = planned(f, *(np.ones(shape, F32) for shape in ((48, 16), (16, 48), (48, 48), (48, 1))))
    stored = [(kernel.name, sum([b.written for b in kernel.buffers])) for kernel in made.kernels()]
    assert stored == [("contract", 1), ("sum", 2), ("contract", 1)]


def test_a_kernel_does_not_read_what_it_writes_under_another_name():
    def f(x, w):
        h = ws.capture("h", np.sin(x))
        z = np.sum(h * w) * x
        return ws.cond(w[0] > 0, lambda a, b: a + b, lambda a, b: a - b, h, z)

    x = np.arange(3.0)
    for w in (np.ones(3), -np.ones(3)):
        np.testing.assert_allclose(ws.jit(f)(x, w), ws.jit(f, device="reference")(x, w), rtol=1e-12)


def test_what_a_contraction_sums_over_is_not_made_for_each_of_its_sums():
    """The contraction's operand is as large as its result, and a sum has both: one kernel would repeat the tanh."""

    def f(x, g, w):
        t = np.tanh(x)
        return g * t + (g * x * (1 - t * t)) @ w

    made = planned(f, *(np.ones(shape, np.float32) for shape in ((64, 64), (64, 64), (64, 64))))
    assert len(made.kernels()) == 2


def test_what_is_cheap_is_made_again_from_what_is_stored():
    def f(x, w, v):
        t = np.tanh(x @ w)
        g = (1 - t * t) * v
        return (t * v + 1).sum(0), (g - 2).sum(1), (g / v.sum(1, keepdims=True)).max(0)

    large = [np.ones((64, 64), np.float32)] * 3
    held = [h for h in planned(f, *large).live_ranges if h.nbytes == 64 * 64 * 4]
    assert [h.what.split()[0] for h in held] == ["tanh"]


def test_a_sum_is_no_chain_of_scalars_where_vectors_can_run_along_another_axis():
    def f(x):
        return np.lib.stride_tricks.sliding_window_view(x, 5, axis=1)[:, :, ::2].sum()

    x = np.random.default_rng(0).uniform(0.5, 0.7, (24, 33)).astype(np.float32)
    kernel = planned(f, x).kernels()[0]
    assert [(a.extent, a.lanes) for a in axes_of(kernel)] == [(24, 1), (3, 1), (29, 16)]
    exact = f(x.astype(np.float64))
    assert abs(ws.jit(f)(x) - exact) < 4e-7 * exact


def test_neither_is_one_with_a_short_last_axis_where_its_terms_take_long() -> None:
    def f(a, b, c):
        return np.sum(np.tanh(np.einsum("a,uvw->uwav", a, b)) * c)

    args = [np.ones(shape, np.float32) for shape in ((102,), (7, 2, 7), (7, 7, 102, 2))]
    kernel = planned(f, *args).kernels()[0]
    assert [(a.extent, a.lanes) for a in axes_of(kernel)] == [(7, 1), (7, 1), (2, 1), (102, 16)]


def test_a_reshape_of_nothing_has_no_runs() -> None:
    assert reshape_groups((2, 0, 3), (0, 6)) is None
    assert reshape_groups((2, 3, 4), (6, 4)) == [([0, 1], [0]), ([2], [1])]


@pytest.mark.parametrize(("columns", "lanes"), [(2, 2), (3, 1), (4, 4), (5, 1), (8, 8), (12, 8)])
def test_short_rows_that_a_scatter_adds_to_have_no_masked_stores(columns, lanes):
    """A load after a masked store to the same address waits for it: rows of 2 to 5 elements took five times as long."""
    rows = np.repeat(np.arange(4), 5)

    def f(x, u):
        return ws.grad(lambda x: np.sum(x[rows] * u))(x)

    plan = planned(f, np.ones((4, columns)), np.ones((20, columns)))
    (kernel,) = [k for k in plan.kernels() if k.name == "scatter_add"]
    assert max(axis.lanes for axis in axes_of(kernel)) == lanes


@pytest.mark.parametrize("join", [np.concatenate, lambda rows: np.stack(rows)[:, 0]])
def test_elements_of_a_joined_array_are_computed_once(join):
    def f(x):
        rows = [x[:1]]
        for _ in range(40):
            rows.append(rows[-1] * x[1] + x[2])
        return join(rows)

    texts = [format_kernel(kernel) for kernel in planned(f, np.arange(3.0)).kernels()]
    assert sum(text.count(" * ") for text in texts) <= 100


def test_a_chain_of_moves_is_cut_where_its_end_is_computed_in_the_kernel_of_its_reader():
    def f(x, weight, *biases):
        for bias in biases:
            x = np.flip(x + bias, 1)
        y = np.flip(np.flip(x * biases[0], 1) + biases[1], 1)
        return weight.T @ (y + y)

    plan = planned(f, *[np.ones((3, 4)) for _ in range(2 + 7 * 32 - 2)])
    sums = [format_kernel(kernel).count(" + v") for kernel in plan.kernels()]
    assert sum(sums) <= 3 * 7 * 32 and max(sums) <= 2 * 32, sums

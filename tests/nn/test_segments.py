"""Reductions by segments beside loops over the segments, and beside JAX's."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import BoundsError, DtypeError, ParameterError, ShapeError

RNG = np.random.default_rng(7)
NUMPY = {
    "sum": (nn.segment_sum, np.sum, 0),
    "mean": (nn.segment_mean, np.mean, 0),
    "max": (nn.segment_max, np.max, -np.inf),
    "min": (nn.segment_min, np.min, np.inf),
    "prod": (nn.segment_prod, np.prod, 1),
}
AT = np.array([3, 0, 3, 3, 5, 0, 1, 3])


def by_loops(f, x, at, count, nothing):
    return np.stack([f(x[at == k], axis=0) if (at == k).any() else np.full(x.shape[1:], nothing) for k in range(count)])


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("shape", [(8,), (8, 3), (8, 2, 2)])
def test_segments_are_those_of_a_loop(name, shape):
    ours, f, nothing = NUMPY[name]
    x = RNG.normal(size=shape)
    wanted = by_loops(f, x, AT, 7, nothing)
    np.testing.assert_allclose(ours(x, AT, 7), wanted, rtol=1e-13)
    np.testing.assert_allclose(ws.jit(lambda x, at: ours(x, at, 7))(x, AT), wanted, rtol=1e-13)
    weights = RNG.normal(size=wanted.shape)
    used = np.unique(AT)
    ws.gradcheck(lambda x: np.sum((ours(x, AT, 7) * weights)[used] ** 2), x)
    np.testing.assert_allclose(
        ws.vmap(lambda x, at: ours(x, at, 7))(np.stack([x, -x]), np.stack([AT, AT[::-1]]))[1],
        by_loops(f, -x, AT[::-1], 7, nothing),
    )


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_segments_are_those_of_jax(name, dtype):
    jax = pytest.importorskip("jax", reason="JAX is an outside oracle; not installed")
    x = RNG.integers(0, 5, (8, 2)).astype(dtype)
    there = getattr(jax.ops, f"segment_{name}")(x, AT, 7)
    if dtype == "int64":  # JAX narrows it
        ends = {"max": np.iinfo(dtype).min, "min": np.iinfo(dtype).max}
        there = by_loops(NUMPY[name][1], x, AT, 7, ends.get(name, NUMPY[name][2]))
    found = NUMPY[name][0](x, AT, 7)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, there)


def test_rows_that_tie_share_the_gradient_and_values_stay_exact():
    x, at = np.array([0.1, 0.1, 0.1, -np.inf, 2.0, np.inf, np.nan, 1.0]), np.array([0, 0, 0, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(nn.segment_max(x, at, 5), [0.1, -np.inf, np.inf, np.nan, -np.inf])
    gradient = ws.grad(lambda x: np.sum(nn.segment_max(x, at, 5)[:1]))(x)
    np.testing.assert_allclose(gradient, [1 / 3, 1 / 3, 1 / 3, 0, 0, 0, 0, 0])


def test_a_product_with_zeros_has_its_derivative():
    x, at = np.array([0.0, 3.0, 0.0, 0.0, 5.0]), np.array([0, 0, 1, 1, 1])
    gradient = ws.grad(lambda x: np.sum(nn.segment_prod(x, at, 2)))(x)
    assert gradient.tolist() == [3.0, 0.0, 0.0, 0.0, 0.0]


def test_a_softmax_by_segments():
    x, at = RNG.normal(size=(8, 2)) * 500, AT
    found = ws.jit(lambda x, at: nn.segment_softmax(x, at, 7))(x, at)
    for k in np.unique(AT):
        np.testing.assert_allclose(found[at == k], nn.softmax(x[at == k], axis=0), rtol=1e-12)
    ws.gradcheck(lambda x: np.sum(nn.segment_softmax(x, at, 7) ** 2), x / 500)


def test_no_rows():
    for ours, _, nothing in NUMPY.values():
        assert ours(np.zeros((0, 2)), np.zeros(0, int), 2).tolist() == [[nothing] * 2] * 2


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("bad", [7, -1])
def test_a_number_outside_is_refused_in_programs_too(name, bad):
    ours, at = NUMPY[name][0], np.array([0, bad, 1])
    with pytest.raises(BoundsError, match=f"segment_{name}: segment"):
        ours(np.ones(3), at, 7)
    with pytest.raises(BoundsError, match=rf"segment_{name}: segment {bad}, outside \[0, 7\)") as found:
        ws.jit(lambda x, at: ours(x, at, 7))(np.ones(3), at)
    assert "classes" not in str(found.value)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "softmax"])
def test_graphs_of_any_size_are_one_program(name):
    nodes, edges = ws.Dim("N"), ws.Dim("E")
    ours = getattr(nn, f"segment_{name}")

    def value_and_slope(h, x, at):
        return ours(x, at, h.shape[0]), ws.grad(lambda x: np.sum(ours(x, at, h.shape[0]) ** 2))(x)

    program = ws.jit(value_and_slope)
    program.any_size(ws.ShapeDtype((nodes,)), ws.ShapeDtype((edges, 2)), ws.ShapeDtype((edges,), np.int64))
    for n, e in ((2, 5), (7, 9), (70, 300)):
        x, at = RNG.normal(size=(e, 2)), np.concatenate([np.arange(n), RNG.integers(0, n, e)])[:e]
        value, slope = program(np.zeros(n), x, at)
        np.testing.assert_allclose(value, ours(x, at, n), rtol=1e-12)
        np.testing.assert_allclose(slope, ws.grad(lambda x, at=at, n=n: np.sum(ours(x, at, n) ** 2))(x), rtol=1e-9)
    assert program.traces == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.segment_sum(np.ones((3, 2)), np.zeros(2, int), 2), ShapeError, "segment_sum: x is f64"),
        (lambda: nn.segment_sum(np.ones(3), np.zeros(3), 2), DtypeError, "segment_sum"),
        (lambda: nn.segment_max(np.ones(3), np.zeros(3, int), 0), ParameterError, "segment_max: count is 0"),
        (lambda: nn.segment_max(np.ones(3, complex), np.zeros(3, int), 1), DtypeError, "has no order"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_extremes_are_one_pass():
    x, at = np.ones((50, 2), np.float32), np.zeros(50, int)
    assert str(ws.trace(lambda x, at: nn.segment_max(x, at, 40))(x, at)).count("scatter_max(") == 1
    assert str(ws.trace(lambda x, at: nn.segment_min(x, at, 40))(x, at)).count("scatter_min(") == 1

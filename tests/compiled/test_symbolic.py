"""One code for all sizes gives the reference's results for each size; a graph that needs its sizes says why."""

import numpy as np
import pytest
from tests.kernel import interpret
from tests.kernel.parse import parse_kernel

import wholestep as ws
from wholestep.backends import reference
from wholestep.compiler import devices
from wholestep.compiler.dynamic_shapes import AnySizeProgram, PerSizeProgram
from wholestep.dims import Dim, substitute
from wholestep.errors import BoundsError, DtypeError, ShapeError
from wholestep.ir.sizes import graph_at
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import I64, Axis, Index
from wholestep.kernel.text import format_kernel

B = Dim("B")
SIZES = (1, 2, 3, 7, 16, 31, 64, 65, 130)
ONES = np.ones((3, 5), np.float32)


def shape(*sizes, dtype="float32"):
    return ws.ShapeDtype(sizes, dtype)


def softmax(x):
    z = np.exp(x - x.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def normed(x):
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0, ddof=0) + 1e-5)


def centred(x):
    return x - x.max(axis=0) + np.sum(np.log(1 + np.exp(x)))


def table(x, i):
    return ws.grad(lambda x: np.sum(np.tanh(x[i]) ** 2))(x)


def picked(x, i):
    return np.take_along_axis(x, i[:, None], axis=1)[:, 0].mean() + x[i % x.shape[0]].sum()


def padded(x):
    return np.pad(np.concatenate([x, x * 2], 0), ((1, 2), (0, 1)))[1:-1]


def turned(x):
    return np.tanh(x.T @ x) + x[::-1].sum() + x[-1, 0] + x[::2].sum()


def running(x):
    return np.cumsum(x, 0) * np.argmax(x, axis=0) + ws.numpy.arange(x.shape[0])[:, None]


def attention(x, w):
    q, k = x @ w, x @ w.T
    scores = softmax((q @ k.swapaxes(-1, -2)).reshape(-1, x.shape[1])).reshape(x.shape[0], x.shape[1], x.shape[1])
    return np.mean((scores @ x) ** 2)


def looped(x):
    return ws.scan(lambda c, row: (np.tanh(c + row), c), np.zeros(3, np.float32), x)


def over_time(xs):
    return ws.scan(lambda c, x: (np.tanh(c + x), c.sum()), np.zeros_like(xs[0]), xs)


def convolved(x, k):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.sum(np.maximum(np.einsum("nchwij,ocij->nohw", windows, k), 0) ** 2)


@ws.composite
def squashed(x):
    return x / (1 + np.abs(x))


squashed.defvjp(lambda args, y, g: (g / (1 + np.abs(args[0])) ** 2,))


def bodies(x, w):
    layer = ws.checkpoint(lambda h: ws.nn.gelu(squashed(h @ w)))
    return np.mean(ws.nn.softmax(layer(layer(x))) ** 2)


ONE_CODE = {
    "softmax": (softmax, shape(B, 10)),
    "normed": (normed, shape(B, 33)),
    "centred": (centred, shape(B, 5)),
    "layer": (ws.value_and_grad(lambda w, x: np.mean(np.tanh(x @ w))), shape(20, 33), shape(B, 20)),
    "table": (table, shape(9, 3), shape(B, dtype="int32")),
    "picked": (picked, shape(B, 4), shape(B, dtype="int32")),
    "padded": (padded, shape(B, 3)),
    "turned": (turned, shape(B, 7)),
    "running": (running, shape(B, 3)),
    "attention": (ws.value_and_grad(attention, argnums=1), shape(B, 6, 8), shape(8, 8)),
    "looped": (looped, shape(B, 3)),
    "over time": (over_time, shape(4, B, 3)),
    "convolved": (ws.value_and_grad(convolved, argnums=1), shape(B, 2, 6, 6), shape(3, 2, 3, 3)),
    "bodies": (ws.value_and_grad(bodies, argnums=1), shape(B, 6), shape(6, 6)),
    "number": (lambda x: np.sum(x) / x.shape[0] ** 2 + x.shape[0], shape(2 * B, 3)),
    "double": (lambda x: np.std(x, axis=0, ddof=0) @ x.T, shape(B, 3, dtype="float64")),
}


def drawn(graph, n):
    """Numbers for a graph's inputs where B is n."""
    rng = np.random.default_rng(n)
    arrays = []
    for t in graph.in_types:
        sizes = tuple(substitute(size, {"B": n}) for size in t.shape)
        integers = t.dtype.kind == "i"
        arrays.append(rng.integers(0, 3, sizes).astype(t.dtype) if integers else rng.normal(size=sizes).astype(t.dtype))
    return arrays


@pytest.mark.parametrize("name", ONE_CODE)
def test_one_code_for_all_sizes(name):
    f, *shapes = ONE_CODE[name]
    graph = ws.trace(f)(*shapes)
    program = devices.compile_for_device(graph, (), "cpu")
    assert isinstance(program, AnySizeProgram), program.why
    for n in SIZES:
        arrays = drawn(graph, n)
        for got, want in zip(program(arrays), reference.interpret(graph_at(graph, {"B": n}), arrays), strict=True):
            np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=2e-5, atol=1e-5, err_msg=f"{n}")


def test_what_needs_its_size_is_compiled_for_each_and_says_why():
    graph = ws.trace(lambda x: np.sort(x, axis=0) @ np.sort(x, axis=0).T)(shape(B, 3))
    program = devices.compile_for_device(graph, (), "cpu")
    assert isinstance(program, PerSizeProgram)
    assert "sort: it is not made of loops" in program.why and "test_symbolic.py" in program.why
    for n in (1, 5, 5, 8):
        (x,) = arrays = drawn(graph, n)
        np.testing.assert_allclose(program(arrays)[0], np.sort(x, 0) @ np.sort(x, 0).T, rtol=1e-5)
    assert len(program.programs) == 3


def test_what_a_slice_needs_is_asked_of_every_size():
    program = devices.compile_for_device(ws.trace(lambda x: x[:5] + x[-5:])(shape(B, 2)), (), "cpu")
    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    np.testing.assert_array_equal(program([x])[0], x[:5] + x[-5:])
    with pytest.raises(ShapeError, match="the program needs B > 4, and B is 3"):
        program([x[:3]])


def test_sizes_that_disagree():
    program = devices.compile_for_device(ws.trace(lambda x, y: x + y[:, None])(shape(B, 2), shape(B)), (), "cpu")
    with pytest.raises(ShapeError, match="where B is 3"):
        program([np.ones((3, 2), np.float32), np.ones(4, np.float32)])


def test_memory_grows_as_the_plan_says():
    program = devices.compile_for_device(ws.trace(ONE_CODE["layer"][0])(*ONE_CODE["layer"][1:]), (), "cpu")
    arena = program.memory.arena
    for n in (1, 64, 65, 1000):
        made = program.at({"B": n})
        assert made.artefact.slots[0].nbytes == substitute(arena, {"B": n}) >= 33 * 4 * n
    assert str(program.memory.inputs) == "80*B + 2640"


def test_a_kernel_over_a_symbolic_axis_prints_parses_and_runs():
    builder = KernelBuilder("doubled")
    with builder:
        x, y = builder.buffer("x", np.dtype("f4"), 8), builder.buffer("y", np.dtype("f4"), 8)
        axis = Axis("i", B, extent=8, tile=4)
        with builder.loop(axis):
            count = builder.convert(builder.size(B), np.dtype("f4"))
            builder.store(y, Index(0, {axis: 1}), builder.load(x, Index(0, {axis: 1})) * count)
    kernel = builder.kernel()
    assert "for i in (B ~ 8) tile 4:" in format_kernel(kernel) and "size(B)" in format_kernel(kernel)
    assert format_kernel(parse_kernel(format_kernel(kernel))) == format_kernel(kernel)
    given, found = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    interpret.run_kernel(kernel, [given, found], sizes={"B": 5})
    np.testing.assert_array_equal(found, [0, 5, 10, 15, 20, 0, 0, 0])
    assert builder.size(3).op == "const" and builder.size(3).dtype == I64


def test_two_names():
    rows, columns = shape(B, 3), shape(Dim("T"), 3)
    graph = ws.trace(lambda x, y: np.exp(x).sum(axis=0) * np.tanh(y @ y.sum(axis=0)).mean())(rows, columns)
    program = devices.compile_for_device(graph, (), "cpu")
    assert isinstance(program, AnySizeProgram), program.why
    rng = np.random.default_rng(0)
    for b, t in ((1, 70), (130, 2), (5, 5)):
        arrays = [rng.normal(size=(n, 3)).astype(np.float32) for n in (b, t)]
        want = reference.interpret(graph_at(graph, {"B": b, "T": t}), arrays)
        np.testing.assert_allclose(program(arrays)[0], want[0], rtol=2e-5)


def test_a_jitted_function_of_any_size():
    f = ws.jit(lambda x, y: np.sum(np.sort(y)) + x.mean(axis=0))
    f.any_size(shape(B, 2, dtype="float64"), np.ones(3))
    x, y = np.random.default_rng(0).normal(size=(9, 2)), np.arange(3.0)
    for n in (1, 9, 4):
        np.testing.assert_allclose(f(x[:n], y), 3 + x[:n].mean(axis=0), rtol=1e-12)
    assert f.traces == 1
    assert f(x.astype(np.float32), y).shape == (2,) and f.traces == 2
    # A call inside another trace is traced into it.
    np.testing.assert_allclose(ws.grad(lambda x: f(x, y).sum())(x), np.full((9, 2), 1 / 9))
    with pytest.raises(DtypeError, match="called with a shape and no array"):
        f(shape(B, 2, dtype="float64"), y)


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: x[: len(x)], r"len: the first size of f32\[B, 2\] is symbolic"),
        (lambda x: x * (1 / x.shape[0]), "1 / B: a symbolic size has no fractions"),
        (lambda x: x * (0.5 * x.shape[0]), "put together with whole numbers"),
        (lambda x: x if x.shape[0] > 4 else -x, "cannot decide whether B > 4"),
        (
            lambda x: x[:, 0][np.tril_indices(x.shape[0])],
            "numpy.tril_indices: cannot decide .*\n  at .*test_symbolic.py",
        ),
        (
            lambda x: ws.random.choice(ws.random.key(0), x.shape[0], (3,)),
            "choice: the number of candidates is symbolic",
        ),
        (lambda x: x[list(range(x.shape[0]))], "the size B is symbolic: it has no value here"),
    ],
)
def test_what_numpy_cannot_be_told(f, what):
    with pytest.raises((TypeError, ValueError), match=what):
        ws.trace(f)(shape(B, 2))


@pytest.mark.parametrize(
    ("f", "hint"),
    [
        (lambda x: x * (1 / x.shape[0]), r"float\(x.shape\[0\]\) is a number"),
        (lambda x: x * x.shape[0] ** -0.5, r"float\(x.shape\[0\]\) is a number"),
        (lambda x: x if x.shape[0] > 4 else -x, "np.where or ws.cond"),
        (lambda x: x if x.shape[0] == 4 else -x, "np.where or ws.cond"),
        (lambda x: x if x.shape[0] != 4 else -x, "np.where or ws.cond"),
        (lambda x: x if x.shape[0] in (1, 4) else -x, "np.where or ws.cond"),
        (lambda x: x if x.shape[0] % 2 == 0 else -x, "np.where or ws.cond"),
        (lambda x: x if x.shape == (4, 2) else -x, "np.where or ws.cond"),
        (lambda x: sum(x[i] for i in range(x.shape[0])), "ws.scan goes along an axis, ws.fori_loop"),
    ],
)
def test_what_a_size_cannot_be_told_is_refused_at_the_line_with_a_way_out(f, hint):
    for run in (lambda: ws.trace(f)(shape(B, 2)), lambda: ws.jit(f).any_size(shape(B, 2))):
        with pytest.raises(
            (TypeError, ValueError), match=rf"(.|\n)*\n  at .*test_symbolic.py:\d+:.*\n  hint: .*{hint}"
        ):
            run()


def test_sizes_that_are_equal_or_different_for_every_batch_may_be_compared():
    def f(x, y):
        same = x.shape[0] == y.shape[0] and x.shape == y.shape and x.shape[0] in (x.shape[0], 3)
        different = x.shape[0] != 0 and x.shape != (0, 2) and x.shape[0] + 1 != x.shape[0] and x.shape[0] != "B"
        return x + y if same and different else x

    assert len(ws.trace(f)(shape(B, 2), shape(B, 2)).nodes) == 1
    assert B != 3 and B * 2 != B + 1  # as expressions, outside of a trace


TABLE = np.arange(1.0, 4.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x / np.sqrt(x.shape[0]),
        lambda x: x * np.log(x.shape[0]) / np.maximum(x.shape[0] - 1, 1),
        lambda x: x * (1 / float(x.shape[0])),
        lambda x: np.where(float(x.shape[0]) > 4, x, -x),
        lambda x: x * np.ones(2) * x.shape[0],
        lambda x: (
            x * np.arange(1, 1 + x.shape[0])[:, None] + x * np.arange(x.shape[0] - 1, 2 * x.shape[0] - 1)[:, None]
        ),
        lambda x: x * np.arange(0, 3 * x.shape[0], 3)[:, None] + np.sum(np.arange(0, x.shape[0], 2, dtype=float)),
        lambda x: x * np.sum(TABLE / x.shape[0]) + np.sum(x.shape[0] % TABLE),
        lambda x: x * np.sum(TABLE < x.shape[0]) + np.sum(x.shape[0] <= TABLE),
        lambda x: ws.fori_loop(0, x.shape[0], lambda i, total: total + i * x[i], np.zeros(2)),
        lambda x: ws.fori_loop(x.shape[0] - 2, x.shape[0], lambda i, total: total * i + x[i], np.zeros(2)),
    ],
)
def test_a_size_is_a_number_for_numpy_and_for_loops(f):
    def loss(x):
        return np.sum(np.sin(f(x)))

    program = ws.jit(ws.value_and_grad(loss))
    program.any_size(shape(B, 2, dtype="float64"))
    for n in (2, 3, 7):
        x = np.random.default_rng(n).normal(size=(n, 2))
        value, slope = program(x)
        wanted, wanted_slope = ws.value_and_grad(loss)(x)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(slope, wanted_slope, rtol=1e-12)
    assert program.traces == 1


@pytest.mark.parametrize(
    ("f", "need", "enough"),
    [
        (lambda x: np.ones(x.shape[0] - 4).sum() + x.sum(), "B - 4 >= 0", 4),
        (lambda x: np.sum(x[: x.shape[0] - 4]), "B - 4 >= 0", 4),
        (lambda x: ws.random.normal(ws.random.key(0), (x.shape[0] - 4,)).sum() + x.sum(), "B - 4 >= 0", 4),
        (lambda x: ws.scan(lambda c, _: (c + 1.0, None), x.sum(), None, length=x.shape[0] - 4)[0], "B - 4 > 0", 5),
        (lambda x: ws.scan(lambda c, row: (c + row.sum(), None), 0.0, x[4:])[0], "B - 4 > 0", 5),
    ],
)
def test_a_batch_for_which_an_axis_or_a_loop_would_have_a_negative_size_is_refused(f, need, enough):
    program = ws.jit(f)
    program.any_size(shape(B, 2, dtype="float64"))
    np.testing.assert_allclose(program(np.ones((enough, 2))), f(np.ones((enough, 2))))
    with pytest.raises(ShapeError, match=rf"the program needs {need}, and B is {enough - 1}\n  at .*test_symbolic.py"):
        program(np.ones((enough - 1, 2)))


def test_alignments_of_any_number_of_times():
    labels, lengths = np.array([[1, 2, 1], [3, 3, 0]]), np.array([3, 2])

    def loss(x, times):
        return ws.nn.ctc_loss(ws.nn.log_softmax(x), labels, times, lengths)

    f, rng = ws.jit(ws.value_and_grad(loss)), np.random.default_rng(0)
    f.any_size(shape(B, 2, 5, dtype="float64"), shape(2, dtype="int64"))
    for n in (4, 7):
        x = rng.normal(size=(n, 2, 5))
        for got, want in zip(f(x, np.array([n, 4])), ws.value_and_grad(loss)(x, np.array([n, 4])), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10)
    with pytest.raises(BoundsError):
        f(rng.normal(size=(4, 2, 5)), np.array([4, 5]))
    assert f.traces == 1


def test_a_single_evenly_spaced_number_is_the_first_and_has_no_step():
    f = ws.jit(lambda x: np.linspace(2.0, 5.0, x.shape[0], retstep=True))
    f.any_size(shape(B))
    for n in (1, 4):
        for got, want in zip(f(np.ones(n, np.float32)), np.linspace(2.0, 5.0, n, retstep=True), strict=True):
            np.testing.assert_array_equal(got, want)


NUMPY_OF_ANY_SIZE = {
    "moments": lambda x: np.append(np.cov(x.T), np.quantile(x, [0.2, 0.9], axis=0)),
    "correlations": lambda x: np.corrcoef(np.append(x, x[:1] + 1, axis=0), rowvar=False),
    "rolled": lambda x: np.roll(x, 2, axis=0) * np.roll(x[:, 0], -4)[:, None],
    "spaced": lambda x: np.linspace(x[0], 5, x.shape[0]) + np.linspace(0, 1, x.shape[0], False)[:, None],
    "smoothed": lambda x: np.convolve(x[:, 0], [1.0, -2.0, 1.0]),
    "shuffled": lambda x: x[ws.random.permutation(ws.random.key(3), x.shape[0])] * 2,
    "drawn": lambda x: x[0, 0] + ws.random.randint(ws.random.key(3), (5,), 0, x.shape[0]),
}


@pytest.mark.parametrize("name", NUMPY_OF_ANY_SIZE)
def test_functions_of_any_size(name):
    f = NUMPY_OF_ANY_SIZE[name]
    compiled = ws.jit(f)
    compiled.any_size(shape(B, 3, dtype="float64"))
    for n in (2, 3, 9):
        x = np.random.default_rng(n).normal(size=(n, 3))
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12, atol=1e-12)
    assert compiled.traces == 1

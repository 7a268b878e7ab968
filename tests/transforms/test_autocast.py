"""Automatic precision: every primitive has a place in the table, and results have the promised types."""

import ml_dtypes
import numpy as np
import pytest

import wholestep as ws
from wholestep import dtypes
from wholestep.backends import reference
from wholestep.errors import ParameterError
from wholestep.frontend.precision import autocast
from wholestep.ir.build import build
from wholestep.ir.types import array_type
from wholestep.ir.verify import verify
from wholestep.primitives.family import REGISTRY
from wholestep.primitives.precision import AS_WRITTEN, FOLLOWS, INSIDE, LOW, WIDE
from wholestep.transforms import autocast as table

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
ROUNDING = {BF16: 2.0**-8, F16: 2.0**-11}
SINGLE = {F64: F32, np.dtype(np.complex128): np.dtype(np.complex64)}


def in_single(x):
    """An array, or a parameter, in single precision where it was in double."""
    return x.astype(SINGLE.get(x.dtype, x.dtype)) if isinstance(x, np.ndarray) else SINGLE.get(x, x)


def single(sample):
    """A sample in single precision: (arrays, parameters)."""
    params = {
        name: in_single(x) if isinstance(x, np.ndarray) or name == "dtype" else x for name, x in sample.params.items()
    }
    return [in_single(x) for x in sample.inputs], params


PLAIN = sorted(name for name, op in REGISTRY.items() if not op.nested and not op.collective)


def program(op, arrays, params):
    types = [array_type(x.shape, x.dtype) for x in arrays]
    graph, _ = build(lambda *xs: op(*xs, **params) if op.multiple else [op(*xs, **params)], types)
    return graph


def run(graph, arrays):
    with np.errstate(all="ignore"):
        return reference.interpret(graph, arrays)


def ops(f, *args):
    """The operations of a program by name, each with the types of its operands."""
    return [(n.op.name, [str(t) for t in n.types]) for n in ws.jit(f).lower(*args).nodes]


def types_at(f, name, *args):
    return [types for op, types in ops(f, *args) if op == name]


def test_every_primitive_has_a_place_in_the_table():
    kinds = {LOW, WIDE, FOLLOWS, AS_WRITTEN, INSIDE}
    assert {op.precision for op in REGISTRY.values()} == kinds


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("low", [BF16, F16], ids=["bf16", "f16"])
def test_every_primitive_type_checks_with_and_without_rounded_operands(name, low):
    op = REGISTRY[name]
    for sample in list(op.samples(np.random.default_rng(0)))[:6]:
        arrays, params = single(sample)
        graph = program(op, arrays, params)
        outside(op, graph, arrays, low)
        inside(graph, arrays, low)


def outside(op, graph, arrays, low):
    """Inputs and outputs of a program keep their types, and results are equal within the rounding of its precision."""
    made = table.autocast(graph, low)
    verify(made)
    assert (made.in_types, made.out_types) == (graph.in_types, graph.out_types)
    for x, y in zip(run(graph, arrays), run(made, arrays), strict=True):
        assert x.dtype == y.dtype
        if op.precision != LOW:
            np.testing.assert_array_equal(x, y)
        elif x.size and dtypes.is_inexact(x.dtype):
            depth = 3 * max((a.size for a in arrays), default=1)
            np.testing.assert_allclose(x, y, rtol=0.05, atol=4 * depth * ROUNDING[low])


def inside(graph, arrays, low):
    """With rounded operands, results have the lower precision or the declared type, and no other one."""
    types = [array_type(t.shape, low) if t.dtype == F32 else t for t in graph.in_types]
    free = table.recast(graph, low, types)
    verify(free)
    for declared, t in zip(graph.out_types, free.out_types, strict=True):
        assert t is declared or (declared.dtype == F32 and t.dtype == low)
    again = table.recast(graph, low, types, graph.out_types)
    verify(again)
    assert again.out_types == graph.out_types
    run(free, [x.astype(low) if x.dtype == F32 else x for x in arrays])


X, W, B = [np.random.default_rng(1).normal(size=s).astype("f") for s in ((5, 3), (3, 4), (4,))]


def rounded(x, low=BF16):
    return x.astype(low).astype("f")


def test_a_layer_by_hand():
    made = autocast(lambda x, w, b: np.tanh(x @ w + b))(X, W, B)
    np.testing.assert_array_equal(made, np.tanh(rounded(rounded(X) @ rounded(W)) + B))
    assert made.dtype == F32


def test_the_same_eagerly_traced_and_compiled():
    def loss(w, b):
        return np.mean(np.square(np.tanh(X @ w + b)))

    f = ws.value_and_grad(autocast(loss), argnums=(0, 1))
    eager, traced = f(W, B), ws.jit(f, device="reference")(W, B)
    np.testing.assert_allclose(eager[0], traced[0], rtol=1e-6)
    for a, b, c in zip(eager[1], traced[1], ws.jit(f)(W, B)[1], strict=True):
        assert a.dtype == b.dtype == c.dtype == F32
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=1e-3)
        np.testing.assert_allclose(a, c, rtol=2e-2, atol=1e-3)


def test_gradients_of_a_shared_weight_add_up_in_float32():
    def f(w, x):
        return np.sum((x @ w) @ w)

    adds = types_at(ws.grad(autocast(f)), "add", W[:, :3], X)
    assert adds == [["f32[3, 3]", "f32[3, 3]"]]


def test_operands_of_different_precision_meet_in_the_wider():
    def f(x, w, b):
        h = x @ w
        return h * h.max(), h + b, np.where(h > 0, h, b), np.concatenate([h, x @ w])

    found = ops(autocast(f), X, W, B)
    assert ("mul", ["bf16[5, 4]", "bf16[5, 4]"]) in found
    assert ("add", ["f32[5, 4]", "f32[5, 4]"]) in found
    assert ("select", ["bool[5, 4]", "f32[5, 4]", "f32[5, 4]"]) in found
    assert ("concat", ["bf16[5, 4]", "bf16[5, 4]"]) in found


@pytest.mark.parametrize(
    ("number", "low", "kept"),
    [
        *[(x, "bfloat16", True) for x in (2.0, 1e-8, -1e9)],
        *[(x, "float16", True) for x in (2.0, 0.0, -np.inf)],
        *[(x, "float16", False) for x in (1e-8, -1e9)],
    ],
)
def test_a_number_follows_where_the_half_precision_holds_it(number, low, kept):
    found = types_at(autocast(lambda x, w: x @ w + number, low), "add", X, W)
    assert (found[0][0].startswith("f32")) is not kept


def test_what_overflows_is_done_in_float32():
    big = np.full((2, 2), 300.0, np.float32)
    f = autocast(
        lambda x: [np.sum(np.square(x @ np.eye(2, dtype="f"))), np.exp(x @ np.eye(2, dtype="f") / 10)], "float16"
    )
    total, e = f(big)
    assert total == 4 * 90000.0
    np.testing.assert_allclose(e, np.exp(30.0), rtol=1e-5)


def test_dtypes_that_the_program_names_are_left_alone():
    def f(x, w, i):
        double = x.astype(np.float64) @ w.astype(np.float64)
        half = x.astype(np.float16) @ w.astype(np.float16)
        return double, half, half.astype(np.float32) + 1, i @ i

    found = types_at(autocast(f), "contract", X, W, np.arange(3))
    assert found == [["f64[5, 3]", "f64[3, 4]"], ["f16[5, 3]", "f16[3, 4]"], ["i64[3]", "i64[3]"]]
    assert [x.dtype for x in autocast(f)(X, W, np.arange(3))] == [F64, F16, F32, np.dtype(np.int64)]


def test_windows_are_made_of_what_is_already_rounded():
    def f(x, w):
        return np.convolve(x, w, mode="valid")

    found = ops(autocast(f), X[:, 0], W[:, 0])
    assert all(types[0].startswith("bf16") for op, types in found if op in ("window", "contract"))


def test_float32_inside_keeps_its_precision():
    inner = autocast(lambda x, w: x @ w, "float32")
    found = autocast(lambda x, w: inner(x, w) + 0)(X, W)
    np.testing.assert_array_equal(found, X @ W)
    np.testing.assert_array_equal(inner(X, W), X @ W)


def structures():
    def loop(w, x):
        return ws.scan(lambda h, row: (np.tanh(row @ w + h @ w), np.sum(h @ w)), np.zeros(3, "f"), x)[1].sum()

    def branch(w, x):
        return np.sum(ws.cond(x[0, 0] > 0, lambda a: a @ w, lambda a: (a - 1) @ w, x))

    def kept(w, x):
        return np.sum(ws.checkpoint(lambda a: np.tanh(a @ w))(x) ** 2)

    def named(w, x):
        return np.sum(ws.composite(lambda a, b: np.tanh(a @ b), name="layer")(x, w))

    def mapped(w, x):
        return np.sum(ws.vmap(lambda row: np.tanh(row @ w))(x))

    return {f.__name__: f for f in (loop, branch, kept, named, mapped)}


@pytest.mark.parametrize("name", structures())
@pytest.mark.parametrize("low", ["bfloat16", "float16"])
def test_structures_and_their_gradients(name, low):
    f, w = structures()[name], W[:, :3]
    value, gradient = ws.value_and_grad(f)(w, X)
    low_value, low_gradient = ws.jit(ws.value_and_grad(autocast(f, low)))(w, X)
    assert low_value.dtype == low_gradient.dtype == F32
    np.testing.assert_allclose(low_value, value, rtol=0.03, atol=0.05)
    np.testing.assert_allclose(low_gradient, gradient, rtol=0.1, atol=0.1)
    assert not np.array_equal(low_gradient, gradient), "nothing was rounded"
    inside = str(ws.jit(autocast(f, low)).lower(w, X))
    assert {"bfloat16": "bf16", "float16": "f16"}[low] in inside


def test_while_loops_carry_float32():
    def f(w, x):
        return ws.while_loop(lambda h: np.sum(h) < 100.0, lambda h: h + np.abs(h @ w) + 1.0, x)

    w, x = W[:, :3], np.abs(X[0])
    np.testing.assert_allclose(ws.jit(autocast(f))(w, x), ws.jit(f)(w, x), rtol=0.05)


def test_stated_derivatives_see_what_they_were_written_for():
    @ws.custom_vjp
    def doubled(x):
        return 2.0 * x

    seen = []

    def bwd(_, g):
        seen.append(g.dtype)
        return (3.0 * g,)

    doubled.defvjp(lambda x: (2.0 * x, None), bwd)
    gradient = ws.grad(autocast(lambda w: np.sum(doubled(X @ w))))(W)
    assert seen == [F32]
    np.testing.assert_allclose(gradient, 3 * np.tile(X.sum(0)[:, None], (1, 4)), rtol=0.02, atol=0.02)


def test_against_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    w, b, v = W, B, B[:, None]

    def loss(w, b, v):
        return np.mean(np.square(np.maximum(X @ w + b, 0) @ v - 1))

    value, gradients = ws.value_and_grad(autocast(loss), argnums=(0, 1, 2))(w, b, v)
    given = [torch.tensor(a, requires_grad=True) for a in (w, b, v)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = torch.relu(torch.tensor(X) @ given[0] + given[1]) @ given[2]
        other = torch.mean(torch.square(h.float() - 1))
    other.backward()
    np.testing.assert_allclose(value, other.item(), rtol=0.01)
    for mine, its in zip(gradients, given, strict=True):
        np.testing.assert_allclose(mine, its.grad.numpy(), rtol=0.05, atol=0.02)


def test_another_dtype_is_refused():
    with pytest.raises(ParameterError, match="'bfloat16', 'float16', 'float32'"):
        autocast(np.sin, "float8")


@pytest.mark.parametrize(("dtype", "there"), [("bfloat16", "bf16"), ("float16", "f32")])
def test_a_symbolic_size_is_a_number_of_any_size(dtype, there):
    """A quotient by a symbolic size stays in bfloat16, whose range holds all sizes; float16 becomes float32."""

    def f(x, w):
        return (x @ w) / x.shape[0]

    def divided(n):
        graph = ws.trace(ws.autocast(f, dtype))(ws.ShapeDtype((n, 3), "float32"), ws.ShapeDtype((3, 2), "float32"))
        (node,) = [node for part in graph.family() for node in part.nodes if node.op.name == "div"]
        return str(node.outputs[0].type)

    assert divided(ws.Dim("B")) == f"{there}[B, 2]"
    assert divided(100) == ("bf16" if dtype == "bfloat16" else "f16") + "[100, 2]"
    assert divided(10**6) == f"{there}[1000000, 2]"

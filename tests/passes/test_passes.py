"""Laws of the passes: meaning unchanged (to the bit for the exact ones), idempotent; and their results as text."""

import inspect
import os
import re
import secrets
from pathlib import Path

import numpy as np
import pytest
from tests.passes.moving import moving

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.compiler.rewrites import REWRITES
from wholestep.frontend.jit import jit
from wholestep.ir.build import build
from wholestep.ir.text import parse
from wholestep.ir.types import array_type
from wholestep.ir.verify import verify
from wholestep.passes.differential_check import evaluate_row_major
from wholestep.passes.pipeline import ALL_PASSES, EXACT_PASSES, PASSES, run_passes
from wholestep.primitives.family import REGISTRY
from wholestep.transforms.reverse import vjp
from wholestep_tools.drawn.programs import program

SEED = int(os.environ.get("PROGRAMS_SEED") or secrets.randbits(32))
COUNT = int(os.environ.get("PROGRAMS_COUNT") or 300)
ROUNDINGS = 4096
"""The allowed difference when sums are reordered, in rounding errors of the largest element."""

X = np.array([[0.5, -0.0, np.inf], [-np.inf, np.nan, 2.0]])
W = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.0]])
RNG = np.random.default_rng(0)


def recurrent(w, xs):
    def step(h, x):
        h = np.tanh(w @ h * 1.0 + x - 0.0)
        return h, np.negative(-h)

    return ws.scan(ws.checkpoint(step), np.zeros(3), xs)[1].sum()


def cross_entropy(logits, labels):
    shifted = logits - logits.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -logs[np.arange(logits.shape[0]), labels].mean()


def perceptron(w1, b1, w2, x, labels):
    return cross_entropy(np.maximum(x @ w1 + b1, 0) @ w2, labels)


def network(w1, w2, x):
    """A convolution with padding, a pool, and a convolution with a stride and a dilation."""
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    h = np.maximum(np.einsum("nhwcij,ijco->nhwo", windows, w1), 0)
    n, height, width, c = h.shape
    h = h.reshape(n, height // 2, 2, width // 2, 2, c).max((2, 4))
    windows = np.lib.stride_tricks.sliding_window_view(h, (3, 2), axis=(1, 2))[:, ::2, :, :, ::2]
    return (np.einsum("nhwcij,ijco->nhwo", windows, w2) ** 2).sum()


def attention(x, qkv, out):
    rows, columns = x.shape
    q, k, v = (x @ qkv).reshape(2, rows // 2, 3, 2, columns // 2).transpose(2, 0, 3, 1, 4)
    scores = np.where(np.tril(np.ones((rows // 2, rows // 2), bool)), q @ k.swapaxes(-1, -2), -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return ((weights @ v).transpose(0, 2, 1, 3).reshape(rows, columns) @ out).sum()


def norm(x, scale, shift):
    centred = x - x.mean(-1, keepdims=True)
    return (centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + shift).sum()


def drawn(*shapes):
    return [RNG.normal(size=shape) for shape in shapes]


PROGRAMS = {
    "algebra": (lambda x: (np.negative(-(x * 1.0 - 0.0)) / 1.0, x + 0.0, x * 0.0, 2.0 * (3.0 - 1.0) * x), X),
    "movement": (lambda x: x.T.T.reshape(6).reshape(3, 2)[::-1][::-1] * np.ones(2), X),
    "softmax gradient": (ws.grad(lambda x: (np.exp(x - x.max(1, keepdims=True)) ** 3).sum()), W),
    "hessian": (ws.hessian(lambda w: (np.tanh(w) ** 2).sum()), W),
    "recurrent gradient": (ws.grad(recurrent), np.eye(3), np.ones((4, 3))),
    "branches": (lambda x: ws.cond(x.sum() > 0, lambda x: x * 1.0, lambda x: x * (2.0 - 1.0), x), W),
    "twins": (lambda x: (np.sort(x), np.sort(x), np.sin(x) + np.sin(x)), X),
    "signs of zero": (lambda x: (x * -0.0, x * 0.0, x - (-0.0), x - 0.0), X),
    "perceptron": (
        ws.value_and_grad(perceptron, (0, 1, 2)),
        *drawn((3, 4), (4,), (4, 5), (6, 3)),
        np.array([0, -1, 4, -5, 2, 2]),
    ),
    "convolution": (ws.value_and_grad(network, (0, 1, 2)), *drawn((3, 3, 2, 3), (2, 2, 3, 2), (2, 6, 8, 2))),
    "attention": (ws.value_and_grad(attention, (0, 1, 2)), *drawn((6, 4), (4, 12), (4, 3))),
    "norm": (ws.value_and_grad(norm, (0, 1, 2)), *drawn((3, 4), (4,), (4,))),
}


def graph_of(name):
    f, *args = PROGRAMS[name]
    return jit(lambda *own: f(*own)).lower(*args), args


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    same = (a == b) & (np.signbit(a) == np.signbit(b)) if a.dtype.kind == "f" else a == b
    return a.dtype == b.dtype and bool((same | ((a != a) & (b != b))).all())


def near(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and np.allclose(
        a, b, rtol=0, atol=ROUNDINGS * np.finfo(a.dtype).eps * np.abs(a).max(initial=1.0)
    )


STEPS = {**{name: (name,) for name in ALL_PASSES}, "exact": EXACT_PASSES, "all": ALL_PASSES}


def change(graph, step):
    """The graph after one pass, or after a pipeline."""
    return PASSES[step].rewrite(graph) if step in ALL_PASSES else run_passes(graph, STEPS[step])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_meaning_is_unchanged_and_the_pass_is_idempotent(name, step):
    graph, args = graph_of(name)
    made = change(graph, step)
    verify(made)
    assert made.in_types == graph.in_types and made.out_types == graph.out_types
    exact = set(STEPS[step]) <= set(EXACT_PASSES)
    for a, b in zip(evaluate_row_major(graph, args), evaluate_row_major(made, args), strict=True):
        assert same_bits(a, b) if exact or np.asarray(a).dtype.kind != "f" or not np.isfinite(a).all() else near(a, b)
    assert str(change(made, step)) == str(made)


@pytest.mark.parametrize("name", PROGRAMS)
def test_optimized_program(name, golden):
    golden(run_passes(graph_of(name)[0], ALL_PASSES))


def test_every_samples_program_means_the_same():
    rng = np.random.default_rng(0)
    for primitive in REGISTRY.values():
        if primitive.nested or primitive.collective:
            continue
        for sample in primitive.samples(rng):
            types = [array_type(x.shape, x.dtype) for x in sample.inputs]

            def twice(*xs, p=primitive, s=sample):
                first, second = p(*xs, **s.params), p(*xs, **s.params)
                return [*first, *second] if p.multiple else [first, second]

            graph, _ = build(twice, types)
            made = run_passes(graph)
            verify(made)
            with np.errstate(all="ignore"):
                for a, b in zip(interpret(graph, sample.inputs), interpret(made, sample.inputs), strict=True):
                    assert np.asarray(a).dtype == np.asarray(b).dtype, primitive.name
                    assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), primitive.name


@pytest.mark.parametrize("chunk", range(10))
def test_random_programs_and_their_gradients_keep_every_bit(chunk):
    for k in range(chunk, COUNT, 10):
        seed = (SEED, k)
        nodes = int(np.random.default_rng([*seed, 1]).integers(5, 28))
        drawn = program(seed, nodes, mixed=bool(k % 2))
        graph = vjp(drawn.graph, [t.inexact for t in drawn.graph.in_types], [True], True)
        args = [*drawn.args, np.ones(())]
        for step in (*EXACT_PASSES, "exact"):
            made = change(graph, step)
            for a, b in zip(evaluate_row_major(graph, args), evaluate_row_major(made, args), strict=True):
                assert same_bits(a, b), f"PROGRAMS_SEED={SEED}, program {k}, {step}\n{graph}"
            assert str(change(made, step)) == str(made), f"PROGRAMS_SEED={SEED}, program {k}, {step}\n{graph}"


@pytest.mark.parametrize("chunk", range(10))
def test_random_contractions_on_integers_are_equal(chunk):
    for k in range(chunk, 3 * COUNT, 10):
        graph, args = moving((SEED, k), 14)
        expected = interpret(graph, args)
        if max([np.abs(x).max(initial=0) for x in expected]) > 2**50:
            continue  # larger integers are not exact in float64, so that the order of a sum matters
        for step in STEPS:
            made = change(graph, step)
            verify(made)
            for a, b in zip(expected, interpret(made, args), strict=True):
                assert np.array_equal(a, b), f"PROGRAMS_SEED={SEED}, program {k}, {step}\n{graph}\n{made}"
            assert str(change(made, step)) == str(made), f"PROGRAMS_SEED={SEED}, program {k}, {step}\n{graph}"


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_convolution_and_its_gradients_are_contractions_of_windows(layout, stride, dilation):
    at = layout.index("H")
    over = (slice(None),) * at + (slice(None, None, stride),) * 2
    inside = (..., slice(None, None, dilation), slice(None, None, dilation))
    labels = layout.lower() + "ij,ijco->" + layout.lower().replace("c", "o")

    def convolved(x, w):
        padded = np.pad(x, [(1, 1) if i in (at, at + 1) else (0, 0) for i in range(4)])
        span = [(n - 1) * dilation + 1 for n in w.shape[:2]]
        windows = np.lib.stride_tricks.sliding_window_view(padded, span, axis=(at, at + 1))
        return np.einsum(labels, windows[over][inside], w)

    rng = np.random.default_rng(1)
    x, w = [rng.integers(-3, 4, s).astype(float) for s in ((2, 8, 9, 3) if at == 1 else (2, 3, 8, 9), (3, 2, 3, 8))]
    out, pull = ws.vjp(convolved, x, w)
    gy = rng.integers(-3, 4, out.shape).astype(float)
    graph = jit(lambda x, w, gy: (convolved(x, w), *ws.vjp(convolved, x, w)[1](gy))).lower(x, w, gy)
    made = run_passes(graph, ALL_PASSES)
    for a, b in zip([out, *pull(gy)], interpret(made, [x, w, gy]), strict=True):
        assert np.array_equal(a, b)
    operands = [v.node.op.name for node in made.nodes if node.op.name == "contract" for v in node.inputs if v.node]
    # If the stride does not divide the dilation, elements of the operand's gradient have different taps by residue.
    kernels = ["slice"] * stride**2 if dilation % stride else ["flip"]
    assert sorted(operands) == sorted([*kernels, *["window"] * (2 + len(kernels))])
    assert not {"unwindow", "concat"} & {node.op.name for node in made.nodes}


@pytest.mark.parametrize("taps", [1, 2, 3, 5])
@pytest.mark.parametrize("gap", [2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_no_tap_meets_the_zeros_between_elements(taps, gap, dilation):
    rng = np.random.default_rng(3)
    for n, before, after in ((1, 0, 6), (2, 14, 13), (4, 1, 0), (5, 2, 3), (5, 0, 1)):
        size = before + (n - 1) * gap + 1 + after
        places = size - (taps - 1) * dilation
        if places < 1:
            continue
        graph = parse(f"""
def f(g: f64[3, 8, {n}], w: f64[{taps}, 8, 2]):
    pad_1: f64[3, 8, {size}] = pad(g, before=(0, 0, {before}), after=(0, 0, {after}), interior=(0, 0, {gap - 1}))
    window_1: f64[3, 8, {places}, {taps}] = window(pad_1, size=({taps},), stride=(1,), dilation=({dilation},))
    contract_1: f64[3, {places}, 2] = contract(window_1, w, spec='ncpk,kco->npo')
    return contract_1
""")
        made = run_passes(graph, ALL_PASSES)
        seen = [node.inputs[0].node for node in made.nodes if node.op.name == "window"]
        assert not any(any(node.params["interior"]) for node in seen if node and node.op.name == "pad")
        args = [rng.integers(-3, 4, shape).astype(float) for shape in ((3, 8, n), (taps, 8, 2))]
        assert np.array_equal(interpret(made, args)[0], interpret(graph, args)[0])


GROUPED = {
    "depthwise": (2, 6, 6, 6, 3, 1, 1),
    "of one image": (1, 6, 6, 6, 3, 2, 1),
    "two filters a channel": (2, 4, 8, 4, 3, 1, 2),
    "groups": (2, 8, 4, 2, 3, 2, 2),
    "one place": (2, 4, 4, 4, 8, 1, 1),
    "one channel": (2, 1, 1, 1, 3, 1, 1),
    "one channel, many filters": (2, 1, 5, 1, 3, 3, 1),
    "patches": (2, 8, 8, 1, 4, 4, 1),
    "patches of two": (2, 8, 8, 1, 2, 2, 1),
}
"""Images, channels, filters, groups, and the size, stride and dilation of a window."""


def test_the_gradient_of_large_patches_is_one_product():
    """The windows lie side by side: 256 phases were a kernel each."""
    x, w, gy = np.ones((1, 3, 33, 32)), np.ones((8, 3, 16, 16)), np.ones((1, 8, 2, 2))
    graph = jit(lambda x, w, gy: ws.vjp(lambda x: nn.conv2d(x, w, stride=16), x)[1](gy)).lower(x, w, gy)
    names = [node.op.name for node in run_passes(graph, ALL_PASSES).nodes]
    assert names.count("contract") == 1 and "window" not in names


@pytest.mark.parametrize("case", GROUPED)
def test_the_gradient_of_a_convolution_in_groups_is_one(case):
    n, c, o, groups, size, stride, dilation = GROUPED[case]
    rng = np.random.default_rng(2)
    x, w = [rng.integers(-3, 4, s).astype(float) for s in ((n, c, 8, 9), (o, c // groups, size, size))]

    def convolved(x, w):
        return nn.conv2d(x, w, stride=stride, dilation=dilation, groups=groups)

    out, pull = ws.vjp(convolved, x, w)
    gy = rng.integers(-3, 4, out.shape).astype(float)
    graph = jit(lambda x, w, gy: ws.vjp(convolved, x, w)[1](gy)).lower(x, w, gy)
    made = run_passes(graph, ALL_PASSES)
    assert "unwindow" not in {node.op.name for node in made.nodes}
    for a, b in zip(pull(gy), interpret(made, [x, w, gy]), strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(pull(gy), ws.jit(lambda x, w, gy: ws.vjp(convolved, x, w)[1](gy))(x, w, gy), strict=True):
        assert np.array_equal(a, b)


def test_what_is_not_exact_stays():
    source = """
def f(x: f64[3]):
    full_1: f64[3] = full(value=0.0, shape=(3,), dtype=f64)
    add_1: f64[3] = add(x, full_1)
    mul_1: f64[3] = mul(add_1, full_1)
    sub_1: f64[3] = sub(mul_1, x)
    return sub_1
"""
    graph = parse(source)
    assert str(run_passes(graph, ALL_PASSES)) == str(graph)


def test_a_label_out_of_range_is_still_an_error():
    graph, args = graph_of("perceptron")
    wrong = [*args[:-1], np.array([0, 5, 0, 0, 0, 0])]
    only_gradient = parse(str(graph).replace("return neg_1, ", "return "))
    for made in (run_passes(graph, ALL_PASSES), run_passes(only_gradient, ALL_PASSES)):
        assert "scatter_add" not in str(made)
        with pytest.raises(IndexError, match="5 is out of bounds"):
            interpret(made, wrong)


def test_every_rewrite_has_a_name_of_its_own_and_shows_a_graph_before_and_after():
    assert len({item.name for item in REWRITES}) == len(REWRITES)
    for item in REWRITES:
        assert "-->" in (inspect.getdoc(item.rewrite) or ""), item.name


def test_the_list_of_rewrites_has_every_pass():
    files = Path(ws.__file__).parent.rglob("*.py")
    passes = [name for f in files for name in re.findall(r"\bPass\(\s*\"(\w+)\"", f.read_text(encoding="utf-8"))]
    assert sorted(passes) == sorted([item.name for item in REWRITES])

"""Laws of the passes: meaning unchanged to the bit, idempotent, never longer; and what each does, as text."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.reference import run
from wholestep.frontend.jit import jit
from wholestep.ir.build import build
from wholestep.ir.text import parse
from wholestep.ir.types import array_type
from wholestep.ir.verify import verify
from wholestep.passes.pipeline import PIPELINE, optimized
from wholestep.primitives.family import REGISTRY

X = np.array([[0.5, -0.0, np.inf], [-np.inf, np.nan, 2.0]])
W = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.0]])


def recurrent(w, xs):
    def step(h, x):
        h = np.tanh(w @ h * 1.0 + x - 0.0)
        return h, np.negative(-h)

    return ws.scan(ws.checkpoint(step), np.zeros(3), xs)[1].sum()


PROGRAMS = {
    "algebra": (lambda x: (np.negative(-(x * 1.0 - 0.0)) / 1.0, x + 0.0, x * 0.0, 2.0 * (3.0 - 1.0) * x), X),
    "movement": (lambda x: x.T.T.reshape(6).reshape(3, 2)[::-1][::-1] * np.ones(2), X),
    "softmax gradient": (ws.grad(lambda x: (np.exp(x - x.max(1, keepdims=True)) ** 3).sum()), W),
    "hessian": (ws.hessian(lambda w: (np.tanh(w) ** 2).sum()), W),
    "recurrent gradient": (ws.grad(recurrent), np.eye(3), np.ones((4, 3))),
    "branches": (lambda x: ws.cond(x.sum() > 0, lambda x: x * 1.0, lambda x: x * (2.0 - 1.0), x), W),
    "twins": (lambda x: (np.sort(x), np.sort(x), np.sin(x) + np.sin(x)), X),
    "signs of zero": (lambda x: (x * -0.0, x * 0.0, x - (-0.0), x - 0.0), X),
}


def graph_of(name):
    f, *args = PROGRAMS[name]
    return jit(lambda *own: f(*own)).lower(*args), args


def same_bits(a, b):
    return np.asarray(a).dtype == np.asarray(b).dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("step", [*PIPELINE._fields, "all"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_meaning_is_unchanged_and_the_pass_is_idempotent(name, step):
    graph, args = graph_of(name)
    change = optimized if step == "all" else getattr(PIPELINE, step)
    made = change(graph)
    verify(made)
    assert len(made.nodes) <= len(graph.nodes)
    assert made.in_types == graph.in_types and made.out_types == graph.out_types
    for a, b in zip(run(graph, args), run(made, args), strict=True):
        assert same_bits(a, b)
    assert str(change(made)) == str(made)


@pytest.mark.parametrize("name", PROGRAMS)
def test_optimized_program(name, golden):
    golden(optimized(graph_of(name)[0]))


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
            made = optimized(graph)
            verify(made)
            with np.errstate(all="ignore"):
                for a, b in zip(run(graph, sample.inputs), run(made, sample.inputs), strict=True):
                    assert same_bits(a, b), primitive.name


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
    assert str(optimized(graph)) == str(graph)

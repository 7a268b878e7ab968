"""The laws on a primitive, checked at the samples that it provides.

from wholestep.testing.primitives import check_primitive
check_primitive(my_primitive)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.backends.reference import interpret
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build
from wholestep.ir.graph import Graph, NDArray
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import Primitive, Sample
from wholestep.testing import laws
from wholestep.testing.arrays import DOUBLE, Function, as_complex, coarsest_eps, move_arguments

COMPLEX_STEP = 1e-40


def graph_of(primitive: Primitive, sample: Sample) -> Graph:
    """The graph of one call."""

    def call(*xs: Any) -> Sequence[Any]:
        out: Any = primitive(*xs, **sample.params)
        return out if primitive.multiple else (out,)

    return build(call, [type_of(x) for x in sample.inputs], name=f"{primitive.name}_call")[0]


def samples_of(primitive: Primitive, seed: int = 0) -> list[Sample]:
    """A primitive's samples; the same for the same seed."""
    return list(primitive.samples(np.random.default_rng([seed, zlib.crc32(primitive.name.encode())])))


def complex_step(primitive: Primitive, sample: Sample) -> Function | None:
    """The derivative along a direction as Im f(x + ih dx) / h, exact to rounding; None where f is not analytic."""
    real = all(np.asarray(x).dtype == np.float64 for x in sample.inputs)
    if not isinstance(primitive, Elementwise) or "c" not in primitive.takes or not real or not sample.inputs:
        return None
    args = [as_complex(np.asarray(x)) for x in sample.inputs]
    graph = graph_of(primitive, Sample(tuple(args), sample.params))

    def slope(dxs: Sequence[NDArray]) -> list[NDArray]:
        marks = [True] * len(args)
        outs = interpret(graph, move_arguments(args, marks, dxs, 1j * COMPLEX_STEP))
        return [np.imag(y) / COMPLEX_STEP for y in outs if np.iscomplexobj(y)]

    return slope


def laws_of(
    primitive: Primitive, sample: Sample, rng: np.random.Generator, first: bool = False
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The checks of all laws on one call, by name, in order; with `first` also the empty batch and the batch of one."""
    graph = graph_of(primitive, sample)
    args = [np.asarray(x) for x in sample.inputs]
    yield "types", lambda: laws.types(graph, args)
    yield "text", lambda: laws.text(graph)
    yield "cost", lambda: laws.cost(graph)
    yield "integers", lambda: laws.integers(graph)
    yield "batch", lambda: laws.batch(graph, args)
    if first:
        yield "empty batch", lambda: laws.batch(graph, args, n=0, limit=1)
        yield "batch of one", lambda: laws.batch(graph, args, n=1, limit=1)
    yield "adjoint", lambda: laws.adjoint(graph, args, rng)
    yield "transposed", lambda: laws.transposed(graph, args, rng)
    if not sample.smooth or primitive.flat:
        return
    yield "tangent", lambda: laws.tangent(graph, args, rng)
    exact = complex_step(primitive, sample)
    if exact is not None and all(laws.differentiable(graph)):
        yield "complex step", lambda: laws.tangent(graph, args, rng, exact, rtol=1e-11)
    if coarsest_eps(graph) <= DOUBLE:
        yield "second order", lambda: second_order(graph, args, rng)


def check_sample(primitive: Primitive, sample: Sample, rng: np.random.Generator, first: bool = False) -> None:
    """Check every law on one call; with `first` also the empty batch and the batch of one."""
    for _, law in laws_of(primitive, sample, rng, first):
        law()


def second_order(graph: Graph, args: Sequence[NDArray], rng: np.random.Generator) -> None:
    """The tangent of the tangent, the tangent and the adjoint of the pullback."""
    for made in laws.derived(graph):
        values = laws.arguments(graph, args, made, rng)
        laws.text(made)
        laws.tangent(made, values, rng)
        laws.adjoint(made, values, rng)


def check_primitive(primitive: Primitive, seed: int = 0) -> None:
    """Check every law on every sample of a primitive; raises LawError where one is broken."""
    samples = samples_of(primitive, seed)
    if not samples:
        raise AssertionError(f"{primitive.name} gives no samples, so nothing is known of it")
    for i, sample in enumerate(samples):
        check_sample(primitive, sample, np.random.default_rng([seed, i]), first=i == 0)

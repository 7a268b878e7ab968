"""Random programs against an outside judge: value and gradient as JAX computes them on the CPU in double precision."""

from __future__ import annotations

import os

import jax
import numpy as np
import pytest
from tests.programs.draw import Drawn, smooth_functions
from tests.programs.jax_meaning import MEANING, meaning
from tests.programs.test_programs import SEED, explained

from wholestep.backends.reference import run
from wholestep.testing.arrays import gap, largest, precision
from wholestep.transforms.reverse import vjp

COUNT = int(os.environ.get("PROGRAMS_AGAINST_JAX") or 160)
CHUNK = 10


def check_against_jax(drawn: Drawn, seed: tuple[int, ...]) -> None:
    graph, args = drawn.graph, drawn.args
    wrt = tuple(range(len(args)))
    value, gradient = jax.jit(jax.value_and_grad(meaning(graph), wrt))(*args)
    eps = precision(graph)
    (found,) = run(graph, args)
    assert gap(found, value) <= 1e4 * eps * max(1.0, abs(float(value))), f"the value is {found!r}, by JAX {value!r}"
    pulled = run(vjp(graph, (True,) * len(args), (True,)), [*args, np.float64(1.0)])
    for i, (g, expected) in enumerate(zip(pulled, gradient, strict=True)):
        bound = 1e5 * eps * max(largest(list(gradient)), 1e-3)
        assert gap(g, expected) <= bound, f"gradient {i}\n{g}\nby JAX\n{np.asarray(expected)}"


@pytest.mark.parametrize("chunk", range(COUNT // CHUNK))
def test_jax_agrees(chunk: int) -> None:
    for i in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        explained((SEED, 10**6 + i), check_against_jax, mixed=i % 4 == 3, only=set(MEANING))


def test_jax_knows_most_functions() -> None:
    known = {p.name for p in smooth_functions()} & set(MEANING)
    assert len(known) >= 35

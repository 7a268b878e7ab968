"""JAX as a judge in a process of its own, since its compiler aborts on a program now and then and would take us along.

python -m tests.programs.judge SEED FIRST STOP       prints `agrees N` for each program, or why it does not
"""

from __future__ import annotations

import sys

import jax
import numpy as np
from tests.programs.draw import Drawn
from tests.programs.jax_meaning import MEANING, meaning
from tests.programs.test_programs import explained

from wholestep.backends.reference import run
from wholestep.testing.arrays import gap, largest, precision
from wholestep.transforms.reverse import vjp


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


if __name__ == "__main__":
    seed, first, stop = map(int, sys.argv[1:])
    for number in range(first, stop):
        explained((seed, 10**6 + number), check_against_jax, mixed=number % 4 == 3, only=set(MEANING))
        print("agrees", number, flush=True)

"""JAX as a judge in a process of its own, since its compiler aborts on a program now and then and would take us along.

python -m wholestep_tools.drawn.jax_judge SEED FIRST STOP       prints `agrees N` for each program, or why it does not
"""

from __future__ import annotations

import sys

import jax
import numpy as np

from wholestep.backends.reference import interpret
from wholestep.compiler.double_precision import in_double, widest
from wholestep.compiler.rounding_bound import TIMES
from wholestep.testing.arrays import coarsest_eps, gap, largest_magnitude
from wholestep.transforms.reverse import vjp
from wholestep_tools.drawn.draw import Drawn
from wholestep_tools.drawn.jax_meaning import MEANING, meaning
from wholestep_tools.drawn.programs import explained

RUN_ONCE = {"xla_backend_optimization_level": 0}
"""Options of XLA for programs of a few numbers that run once: it takes longer to compile them than anything else."""


def check_against_jax(drawn: Drawn, seed: tuple[int, ...]) -> None:
    graph, args = drawn.graph, drawn.args
    wrt = tuple(range(len(args)))
    value, gradient = jax.jit(jax.value_and_grad(meaning(graph), wrt), compiler_options=RUN_ONCE)(*args)
    eps = coarsest_eps(graph)
    (found,) = interpret(graph, args)
    # A value is no surer than its arguments: a hundred roundings of theirs move it by so much.
    unsure = max(1e4 * max(1.0, abs(float(value))), 1e2 * largest_magnitude(list(gradient)))
    assert gap(found, value) <= eps * unsure, f"the value is {found!r}, by JAX {value!r}"
    pullback = vjp(graph, (True,) * len(args), (True,))
    pulled = interpret(pullback, [*args, np.ones(())])
    exact = interpret(in_double(pullback), [*widest(args), np.ones(())])
    for i, (g, expected, truth) in enumerate(zip(pulled, gradient, exact, strict=True)):
        # In steep programs JAX's own single precision is further from its double-precision result.
        bound = max(1e5 * eps * max(largest_magnitude(list(gradient)), 1e-3), TIMES * gap(expected, truth))
        assert gap(g, expected) <= bound, f"gradient {i}\n{g}\nby JAX\n{np.asarray(expected)}"


if __name__ == "__main__":
    seed, first, stop = map(int, sys.argv[1:])
    for number in range(first, stop):
        explained((seed, 10**6 + number), check_against_jax, mixed=number % 4 == 3, only=set(MEANING))
        print("agrees", number, flush=True)

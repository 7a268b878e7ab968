"""Rules of special functions agree with SciPy over the whole real line, poles and infinities included."""

from __future__ import annotations

import numpy as np
import pytest
from tests.laws.balls import BALLS, ball_value

from wholestep.backends.reference import interpret
from wholestep.export.rules.special import SPECIAL_RULES
from wholestep.ir.build import build
from wholestep.ir.types import array_type
from wholestep.primitives.family import REGISTRY

EDGES = [0.0, -0.0, 0.5, 1.0, 2.0, -0.5, -1.0, -2.0, -3.0, 90.0, -90.0, 45.0, 180.0, 270.0, 360.0, 1e-8, -1e-8, 1e-300]
EDGES += [np.inf, -np.inf, np.nan, 1.0 - 1e-12, 1e15, 700.0, -700.0]
LOOSE = {"gamma": 1e-11, "rgamma": 1e-11, "beta": 1e-11, "digamma": 1e-10}
"""Relative tolerances of functions that are thousands of times smaller than their terms; 1e-12 for others."""


def arguments(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    spread = [rng.normal(size=300), rng.uniform(0, 1, 300), rng.uniform(-30, 120, 300), 10 ** rng.uniform(-8, 4, 100)]
    plain = np.concatenate(spread)
    if count == 1:
        return [np.concatenate([plain, EDGES])]
    # SciPy's betaln subtracts logarithms that grow with the arguments: beyond 300 it has fewer digits.
    return [np.minimum(np.abs(x), 300) for x in (plain, rng.permutation(plain))]


@pytest.mark.parametrize("name", sorted(SPECIAL_RULES))
def test_a_rule_is_the_function(name: str) -> None:
    primitive = REGISTRY[name]
    xs = arguments(primitive.arity)
    graph, _ = build(lambda *vs: [SPECIAL_RULES[name](*vs)], [array_type(x.shape, x.dtype) for x in xs], name=name)
    with np.errstate(all="ignore"):
        (got,), want = interpret(graph, xs), primitive.ref(*xs)
    if name == "cotdg":  # SciPy subtracts angles from 90, which takes the digits of small ones
        near = (xs[0] != 0) & (np.abs(xs[0]) < 1)
        want[near] = [ball_value(BALLS["cotdg"], [x]) for x in xs[0][near]]
    slack = LOOSE.get(name, 1e-12)
    off = ~np.isclose(got, want, rtol=slack, atol=1e-12, equal_nan=True)
    assert not off.any(), [(*[x[off][k] for x in xs], got[off][k], want[off][k]) for k in range(min(off.sum(), 6))]


def test_the_logarithm_of_beta_keeps_its_digits_where_scipy_subtracts_large_numbers() -> None:
    """log beta(0.20593033025321647, 4384.009074417359), computed with 40 digits, of which SciPy has ten."""
    x, y = np.array(0.20593033025321647), np.array(4384.009074417359)
    graph, _ = build(lambda *vs: [SPECIAL_RULES["betaln"](*vs)], [array_type((), x.dtype)] * 2, name="betaln")
    (got,) = interpret(graph, [x, y])
    assert abs(got - -0.23370379895233944) < 1e-14

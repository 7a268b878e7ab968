"""Random programs of masked reads and writes: NumPy's values, and one derivative whether masks are known or not."""

import numpy as np
import pytest

import wholestep as ws

PROGRAMS = 24
STATEMENTS = 7


def scale(rng):
    c = rng.uniform(0.5, 2.0)
    return lambda v, r, m: v.__setitem__(m, v[m] * c)


def root(rng):
    return lambda v, r, m: v.__setitem__(v > 0.1, np.sqrt(v[v > 0.1]))


def clip(rng):
    c = rng.uniform(0.5, 1.5)
    return lambda v, r, m: v.__setitem__(v > c, c + 0.1 * (v[v > c] - c))


def centre(rng):
    return lambda v, r, m: r.__setitem__(m, r[m] - r[m].mean(axis=0))


def column(rng):
    j = int(rng.integers(3))
    return lambda v, r, m: r.__setitem__((m, j), v[m] + r[m, j] ** 2)


def total(rng):
    return lambda v, r, m: v.__setitem__(0, np.tanh(v[m].sum()) + 1.5 + np.max(r[m]) / 9)


def in_steps(rng):
    def statement(v, r, m):
        s = v[m]
        s[s > 1] *= 0.5
        s += 0.25
        v[m] = s

    return statement


def divide(rng):
    return lambda v, r, m: np.divide(1.0, v, out=v, where=m & (v > 0.2))


def row(rng):
    return lambda v, r, m: r.__setitem__(m, r[m] * np.array([1.0, 0.5, -1.0]) + v[m][:, None])


def spread(rng):
    return lambda v, r, m: v.__setitem__(~m, v[~m] / (1 + np.var(v[m])))


def alternate(rng):
    return lambda v, r, m: v.__setitem__(slice(None), np.piecewise(v, [m], [np.arctan, np.sin]))


KINDS = (scale, root, clip, centre, column, total, in_steps, divide, row, spread, alternate)


def drawn(seed):
    """A program of random statements on copies of its arguments."""
    rng = np.random.default_rng(seed)
    statements = [KINDS[k](rng) for k in rng.integers(len(KINDS), size=STATEMENTS)]

    def program(v, r, m):
        v, r = v.copy(), r.copy()
        for statement in statements:
            statement(v, r, m)
        return np.sum(np.tanh(v)) + np.sum(np.tanh(r))

    return program


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program_of_masks(seed):
    program = drawn(seed)
    rng = np.random.default_rng(100 + seed)
    v, r, m = rng.normal(1, 1, 6), rng.normal(0, 2, (6, 3)), rng.random(6) < 0.6
    m[0] = True
    both = ws.value_and_grad(program, argnums=(0, 1))
    want, slopes = program(v, r, m), both(v, r, m)[1]
    assert all(np.isfinite(s).all() for s in slopes)
    plain = ws.jit(lambda v, r: both(v, r, m), device="reference")(v, r)
    traced = ws.jit(both, device="reference")(v, r, m)
    mapped = ws.vmap(both)(v[None], r[None], m[None])
    for value, found in (plain, traced, (mapped[0][0], [x[0] for x in mapped[1]])):
        assert np.isclose(value, want, rtol=1e-12)
        for x, y in zip(found, slopes, strict=True):
            assert np.allclose(x, y, rtol=1e-9, atol=1e-11)

"""The law of formulas: in C they are the functions of libraries, and a program says which of them it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from tests.laws.balls import BALLS, ball_value
from tests.native.c_program import COMPILER, CProgram

import wholestep as ws
from wholestep.export.native.formulas import SPECIAL_FORMULAS
from wholestep.ir.build import build
from wholestep.ir.graph import OPS
from wholestep.ir.types import array_type
from wholestep.primitives.family import REGISTRY
from wholestep.scipy import special
from wholestep_tools.drawn.c_library import CLibrary

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
BOUNDS = {np.float64: 1e-10, np.float32: 10 * 2.0**-23}
"""The relative errors that documentation states."""
RNG = np.random.default_rng(3)


def spread(low: float, high: float, count: int = 300) -> Any:
    """Numbers of all sizes between two powers of ten, of both signs."""
    return RNG.choice([-1, 1], count) * 10.0 ** RNG.uniform(low, high, count)


ANYWHERE = np.concatenate([spread(-8, 2), RNG.uniform(0, 1, 200), 1 - 10.0 ** RNG.uniform(-7, 0, 50)])
ROOTS = {"digamma": (1.4616321449683622,)}
"""Zeros of functions, whose surroundings are left out, since relative errors are unbounded there."""


POSITIVE = np.minimum(np.abs(ANYWHERE), 300)
PARAMETERS = np.maximum(POSITIVE, 1e-4)
LARGE_ENOUGH = np.maximum(POSITIVE, 1e-2)
BETWEEN = np.concatenate(
    [RNG.uniform(0, 1, 350), 10.0 ** RNG.uniform(-9, 0, 100), 1 - 10.0 ** RNG.uniform(-7, -1, 100)]
)
ORDERS = np.concatenate([RNG.uniform(0, 60, 300), RNG.integers(0, 80, 100) / 2, 10.0 ** RNG.uniform(-5, 3, 100)])
SIZES = np.concatenate([10.0 ** RNG.uniform(-6, 2.5, 300), RNG.uniform(0, 80, 200)])
SHAPES = RNG.uniform(0.3, 8, 500)
DOMAINS = {
    # orders above the argument, where Bessel functions have no zeros
    "jv": (RNG.uniform(25, 100, 500), RNG.uniform(0, 25, 500)),
    "yv": (RNG.uniform(25, 100, 500), RNG.uniform(0, 25, 500)),
    **dict.fromkeys(("iv", "ive", "kv", "kve"), (ORDERS, SIZES)),
    "hyp0f1": (SHAPES, SIZES),
    "hyp1f1": (SHAPES, SHAPES, np.concatenate([RNG.uniform(-20, 0, 200), RNG.uniform(0, 100, 300)])),
    "hyp2f1": (SHAPES, SHAPES, SHAPES, np.concatenate([RNG.uniform(-3, 0, 200), RNG.uniform(0, 0.99, 300)])),
    "gammaincinv": (LARGE_ENOUGH, BETWEEN),
    "gammainccinv": (LARGE_ENOUGH, BETWEEN),
    "betainc": (PARAMETERS, PARAMETERS, BETWEEN),
    "betaincc": (PARAMETERS, PARAMETERS, BETWEEN),
    "betaincinv": (LARGE_ENOUGH, LARGE_ENOUGH, BETWEEN),
    "betainccinv": (LARGE_ENOUGH, LARGE_ENOUGH, BETWEEN),
    "gammainc": (PARAMETERS, POSITIVE),
    "gammaincc": (PARAMETERS, POSITIVE),
    "stdtr": (LARGE_ENOUGH, ANYWHERE),
    "stdtrit": (LARGE_ENOUGH, BETWEEN),
    # SciPy has half the digits for a small second argument.
    "owens_t": (np.clip(ANYWHERE, -10, 10), np.copysign(np.maximum(np.abs(ANYWHERE), 1e-2), ANYWHERE)),
    "expi": (np.concatenate([ANYWHERE, spread(0, 2.8)]),),
    "spence": (np.concatenate([POSITIVE, 10.0 ** RNG.uniform(2, 30, 50)]),),
    "ndtri_exp": (-np.concatenate([POSITIVE, 10.0 ** RNG.uniform(2, 8, 50)]),),
}
"""The arguments of functions whose domain or interesting range differs from the default."""


def arguments(name: str) -> list[Any]:
    """Arguments of a function over its domain, except near zeros where SciPy is inaccurate."""
    if name in DOMAINS:
        return [RNG.permutation(x) if k else x for k, x in enumerate(DOMAINS[name])]
    if REGISTRY[name].arity == 1:
        near = [np.abs(ANYWHERE - root) < 1e-2 for root in ROOTS.get(name, ())]
        low = ANYWHERE < 0 if name in ("digamma", "gammaln") else ANYWHERE != ANYWHERE
        return [ANYWHERE[~np.any([low, *near], axis=0)]]
    # SciPy's betaln subtracts logarithms that grow with the arguments.
    return [RNG.permutation(POSITIVE) for _ in range(REGISTRY[name].arity)]


def oracle(name: str, xs: list[Any]) -> Any:
    """SciPy's results in float64; `gammaln` by complex numbers, since that of real ones has half the digits near 1."""
    wide = [x.astype(np.float64) for x in xs]
    with np.errstate(all="ignore"):
        if name in ("gammaln", "loggamma"):
            found = scipy.special.loggamma(wide[0].astype(np.complex128)).real
            return np.where((name == "loggamma") & (wide[0] < 0), np.nan, found).astype(xs[0].dtype)
        return REGISTRY[name].ref(*wide).astype(xs[0].dtype)


def relative_error(found: Any, wanted: Any) -> Any:
    """Relative errors, where equal numbers and NaN count as 0; subnormal numbers are 0 in native programs."""
    tiny = np.finfo(wanted.dtype).tiny
    found, wanted = (np.where(np.abs(x) < tiny, np.zeros_like(x), x) for x in (found, wanted))
    same = (found == wanted) | np.isnan(found) & np.isnan(wanted)
    with np.errstate(all="ignore"):
        return np.where(same, 0, np.abs(found - wanted) / np.abs(wanted))


def judged(name: str, xs: list[Any], found: Any, wanted: Any, bound: float) -> Any:
    """SciPy's numbers, replaced by those of ball arithmetic where they are beyond the bound from the numbers found.

    SciPy gives up some powers of ten before the ends of a dtype, and has few digits where numbers cancel.
    """
    wanted = wanted.copy()
    for place in np.flatnonzero(~(relative_error(found, wanted) <= bound)):
        if name in BALLS:
            wanted[place] = ball_value(BALLS[name], [float(x[place]) for x in xs])
    return wanted


@needs_compiler
def test_formulas_in_c_are_within_the_bounds_that_are_stated(tmp_path: Path) -> None:
    graphs, given = {}, {}
    for name in SPECIAL_FORMULAS:
        for dtype in BOUNDS:
            xs = [x.astype(dtype) for x in arguments(name)]
            graph, _ = build(lambda *vs, name=name: [OPS[name](*vs)], [array_type(x.shape, x.dtype) for x in xs])
            graphs[f"{name}_{np.dtype(dtype).name}"] = graph
            given[f"{name}_{np.dtype(dtype).name}"] = name, xs
    library = CLibrary(graphs, tmp_path)
    off = []
    for key, (name, xs) in given.items():
        assert library.formulas(key)
        found: Any = library(key, xs)
        bound = BOUNDS[xs[0].dtype.type]
        wanted = judged(name, xs, found[0], oracle(name, xs), bound)
        worst = np.max(relative_error(found[0], wanted))
        if not worst <= bound:
            off.append((key, worst))
    assert not off


@needs_compiler
def test_what_takes_too_many_steps_is_nan_and_no_number(tmp_path: Path) -> None:
    a, b, x = np.array([-100.0, -30_000.0]), np.full(2, 1.5), np.full(2, 2.0)
    graph, _ = build(lambda *vs: [OPS["hyp1f1"](*vs)], [array_type(v.shape, v.dtype) for v in (a, b, x)])
    found: Any = CLibrary({"recurrence": graph}, tmp_path)("recurrence", [a, b, x])
    assert relative_error(found[0], scipy.special.hyp1f1(a, b, x))[0] < 1e-10
    assert np.isnan(found[0][1])


def drawn() -> Any:
    """A step that draws normal numbers, whose quantile SciPy computes in this process."""

    def loss(p: Any, x: Any) -> Any:
        noise = ws.random.normal(ws.random.key(3), x.shape, np.float32)
        return np.mean((np.tanh(x * p["scale"] + noise * p["spread"]) - 0.5) ** 2) + special.ndtri(p["chance"]) ** 2

    params = {"scale": np.float32(0.5), "spread": np.float32(0.3), "chance": np.float32(0.6)}
    return ws.compile(loss, params, optimizer=ws.optim.sgd(0.05), batch=np.linspace(-1, 1, 64, dtype=np.float32))


@needs_compiler
@pytest.mark.parametrize("kind", ["c", "object"])
def test_a_step_with_quantiles_trains_by_formulas_and_says_so(kind: str, tmp_path: Path) -> None:
    step, batch = drawn(), np.linspace(-1, 1, 64, dtype=np.float32)
    sources = {"c": ["model.c"], "object": ["model.o", "model_state.c"]}[kind]
    step.export(tmp_path / sources[0])
    assert "and not to the bit: special.ndtri. */" in (tmp_path / "model.h").read_text()
    program = CProgram(tmp_path, batch, sources, "")
    losses = program.train(tmp_path / "model.safetensors", tmp_path / "new.safetensors", 10)
    np.testing.assert_allclose(losses, [float(step(batch).loss) for _ in range(10)], rtol=1e-6)


def test_a_program_that_calls_no_library_has_no_formulas(tmp_path: Path) -> None:
    x = np.ones(3, np.float32)
    step = ws.compile(lambda p, x: np.sum(np.tanh(p * x)), x, optimizer=ws.optim.sgd(0.1), batch=x)
    step.export(tmp_path / "model.c")
    assert "formulas" not in (tmp_path / "model.h").read_text()

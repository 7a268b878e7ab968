"""Parameters of NumPy's and SciPy's functions are taken here, or refused by an error of ours that names the option."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.stats

import wholestep as ws
import wholestep.numpy as wnp
import wholestep.scipy.stats as stats
from wholestep.errors import UnsupportedError
from wholestep.frontend import dispatch

ARRANGE = {"numpy.arange": "NumPy names its parameters by their number; start, stop and step are taken by name too"}
FAMILIES = "scipy.stats."
"""Methods of distributions share one signature, and SciPy's own shows *args for the parameters of each."""


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def comparable() -> list[str]:
    """Covered functions with a signature, except ufuncs, which NumPy dispatches with every option."""
    found = []
    for name, outside in sorted(dispatch.NAMES.items()):
        if (
            isinstance(outside, np.ufunc)
            or name in ARRANGE
            or name.removeprefix(FAMILIES).count(".") < name.count(".") - 1
        ):
            continue
        try:
            inspect.signature(outside)
        except (TypeError, ValueError):
            continue
        found.append(name)
    return found


@pytest.mark.parametrize("name", comparable())
def test_a_function_takes_the_parameters_of_the_one_it_covers(name: str) -> None:
    outside = dispatch.NAMES[name]
    theirs, ours = parameters(outside), parameters(dispatch.FUNCTIONS[outside])
    kinds = {p.kind for p in ours.values()}
    named = {k for k, p in theirs.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        assert named <= ours.keys()
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        by_place = [[k for k, p in x.items() if p.kind <= p.POSITIONAL_OR_KEYWORD] for x in (theirs, ours)]
        assert len(by_place[1]) >= len(by_place[0])


@pytest.mark.parametrize("outside", [f for f, ours in dispatch.FUNCTIONS.items() if getattr(ours, "stated", "")])
def test_a_stated_signature_is_that_of_the_function(outside: Any) -> None:
    """A process without docstrings has no other source of the signature."""
    stated = inspect.signature(eval("lambda " + dispatch.FUNCTIONS[outside].stated.strip("()") + ": 0"))
    assert stated == inspect.signature(outside)


@pytest.mark.parametrize("name", ["norm.logpdf", "norm.cdf", "norm.ppf", "poisson.logpmf", "beta.sf"])
def test_a_distribution_takes_its_operand_by_name(name: str) -> None:
    family, method = name.split(".")
    outside = getattr(getattr(scipy.stats, family), method)
    operand = next(iter(parameters(outside)))
    shapes = {"poisson": {"mu": 2.0}, "beta": {"a": 2.0, "b": 3.0, "scale": 2.0}}.get(family, {"scale": 2.0})

    def f(z: Any) -> Any:
        return getattr(getattr(stats, family), method)(**{operand: 1.0}, **(shapes | {max(shapes): z}))

    z = float(shapes[max(shapes)])
    np.testing.assert_allclose(ws.value_and_grad(f)(z)[0], outside(1.0, **shapes))


PRODUCTS = {
    "matmul": (np.ones((2, 3)), np.ones((3, 4))),
    "matvec": (np.ones((2, 3)), np.ones(3)),
    "vecmat": (np.ones(3), np.ones((3, 2))),
    "vecdot": (np.ones((2, 3)), np.ones((2, 3))),
    "add": (np.ones((2, 3)), np.ones(3)),
    "dot": (np.ones((2, 3)), np.ones((3, 4))),
    "einsum": ("ij,jk->ik", np.ones((2, 3)), np.ones((3, 4))),
}


@pytest.mark.parametrize("name", [n for n in PRODUCTS if hasattr(np, n)])
@pytest.mark.parametrize("module", [np, wnp], ids=["numpy", "wholestep.numpy"])
def test_products_write_into_out(name: str, module: Any) -> None:
    *head, a, b = PRODUCTS[name]
    call = getattr(module, name)

    def f(x: Any) -> Any:
        out = wnp.zeros(np.shape(getattr(np, name)(*head, a, b)))
        given = call(*head, x, b, out=out)
        assert given is out
        return np.sum(out * out)

    def plain(x: Any) -> Any:
        made = getattr(np, name)(*head, x, b)
        return np.sum(made * made)

    np.testing.assert_allclose(ws.grad(f)(a), ws.grad(plain)(a))


@pytest.mark.parametrize("name", ["matmul", "add"])
def test_an_option_that_is_not_covered_is_named(name: str) -> None:
    *_, a, b = PRODUCTS[name]
    option = {"matmul": {"axes": [(-2, -1), (-2, -1), (-2, -1)]}, "add": {"signature": "dd->d"}}[name]
    with pytest.raises(UnsupportedError, match=rf"{name}: option {min(option)}="):
        ws.grad(lambda x: np.sum(getattr(wnp, name)(x, b, **option)))(a)

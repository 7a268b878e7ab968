"""Jacobians with holomorphic=True, beside derivatives by hand."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ArgumentError, DtypeError

Z = np.array([1 + 2j, 3 - 1j])
BY_HAND = np.array([[Z[1], Z[0]], [np.exp(Z[0]), 0]])


def curve(z):
    return np.array([z[0] * z[1], np.exp(z[0])])


@pytest.mark.parametrize("jacobian", [ws.jacrev, ws.jacfwd, ws.jacobian])
def test_complex_derivatives(jacobian):
    np.testing.assert_allclose(jacobian(curve, holomorphic=True)(Z), BY_HAND)
    np.testing.assert_allclose(ws.jit(jacobian(curve, holomorphic=True))(Z), BY_HAND)
    np.testing.assert_allclose(jacobian(lambda z: z**3, holomorphic=True)(1 + 2j), 3 * (1 + 2j) ** 2)
    with pytest.raises(DtypeError, match="needs complex arguments and results, and an argument is f64"):
        jacobian(curve, holomorphic=True)(Z.real)
    with pytest.raises(DtypeError, match="a result is f64"):
        jacobian(lambda z: z.real, holomorphic=True)(Z)


def test_complex_second_derivatives():
    made = ws.hessian(lambda z: z[0] ** 2 * z[1], holomorphic=True)(Z)
    np.testing.assert_allclose(made, [[2 * Z[1], 2 * Z[0]], [2 * Z[0], 0]])


def test_the_order_of_arguments_in_jax_is_named():
    with pytest.raises(ArgumentError, match=r"custom_root: after solve come(.|\n)*tangent_solve is not needed"):
        ws.custom_root(lambda x: x**2 - 2, 1.0, lambda f, x: np.sqrt(2.0), lambda g, y: y / g(1.0))
    with pytest.raises(ArgumentError, match=r"custom_linear_solve: after solve come(.|\n)*transpose_solve="):
        ws.custom_linear_solve(lambda x: 2 * x, np.ones(2), lambda f, b: b / 2, lambda f, b: b / 2)

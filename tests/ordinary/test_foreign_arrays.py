"""Arrays and functions of other libraries beside traced arrays: they count as constants, or the error names them."""

from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import splu

import wholestep as ws
from wholestep.errors import DtypeError, UnsupportedError

X = np.array([1.0, 2.0, 3.0])
C = np.array([2.0, 2.0, 4.0], np.float32)
FACTORS = splu(scipy.sparse.csc_matrix(np.eye(3) + 1))
BESIDE = {
    "product": lambda x, c: c * x + x * c,
    "difference": lambda x, c: c - x,
    "power": lambda x, c: c**x,
    "quotient": lambda x, c: x / c,
    "matrix product": lambda x, c: c @ x,
    "equality": lambda x, c: np.where(c == x, x, 0.0),
    "order": lambda x, c: np.where(x < c, x, 0.0),
}


def torch_module():
    return pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("case", BESIDE)
def test_their_arrays_are_constants_beside_traced_arrays(case, library):
    f = BESIDE[case]
    constant = jnp.asarray(C) if library == "jax" else torch_module().from_numpy(C)
    wanted, slope = ws.value_and_grad(lambda x: np.sum(f(x, C)))(X)
    for transform in (lambda g: g, ws.jit):
        value, gradient = transform(ws.value_and_grad(lambda x: np.sum(f(x, constant))))(X)
        np.testing.assert_allclose(value, wanted)
        np.testing.assert_allclose(gradient, slope)


def test_a_tensor_whose_gradient_is_recorded_is_no_constant():
    tracked = torch_module().ones(3, requires_grad=True)
    with pytest.raises(DtypeError, match=r"Tensor is not read as an array: .*detach(.|\n)*test_foreign_arrays.py"):
        ws.grad(lambda x: np.sum(tracked * x))(X)


CALLS = {
    "jax: sum is called": lambda x: jnp.sum(x),
    "jax: sin is called": lambda x: jax.lax.sin(x),
    "jax: relu is called": lambda x: jax.nn.relu(x),
    "jax: loss is called": lambda x: jax.grad(loss)(x),
    "torch: from_numpy is called": lambda x: torch_module().from_numpy(x),
    "torch: tensor is called": lambda x: torch_module().tensor(x),
    "SuperLU.solve: not covered": lambda x: FACTORS.solve(x),
}


def loss(x):
    return x.sum()


@pytest.mark.parametrize("message", CALLS)
def test_calls_with_traced_arrays_name_the_function_and_the_line(message):
    with pytest.raises(UnsupportedError, match=f"{message}(.|\n)*test_foreign_arrays.py(.|\n)*hint"):
        ws.jit(CALLS[message])(X)


@pytest.mark.parametrize(
    "f", [lambda x: Fraction(1, 2) * x, lambda x: x * Decimal(2), lambda x: x + "a", lambda x: None - x]
)
def test_values_that_are_no_numbers_of_programs_are_refused_with_the_line(f):
    with pytest.raises(DtypeError, match=r"is not an array(.|\n)*test_foreign_arrays.py"):
        ws.jit(f)(X)


def test_functions_of_their_libraries_still_take_what_they_can():
    doubled = ws.jit(lambda x: jax.tree_util.tree_map(lambda a: 2 * a, {"x": x})["x"])
    assert doubled(X).tolist() == [2, 4, 6]

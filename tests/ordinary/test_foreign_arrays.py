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


def total(x):
    return np.sum(np.sin(x) * x)


TRANSFORMS = {
    "grad": lambda x: ws.grad(total)(x),
    "jvp": lambda x: ws.jvp(total, (x,), (x,)),
    "pullback": lambda x: ws.vjp(np.sin, x)[1](x),
    "vmap": lambda x: ws.vmap(np.sin)(x),
    "jacfwd": lambda x: ws.jacfwd(np.sin)(x),
    "linear_transpose": lambda x: ws.linear_transpose(lambda a: 2 * a, x)(x),
    "checkpoint": lambda x: ws.checkpoint(total)(x),
    "scan": lambda x: ws.scan(lambda c, row: (c + row, c), x[0], x),
    "gradcheck": lambda x: ws.gradcheck(total, x),
    "parameters": lambda x: trained(x, None),
    "buffers": lambda x: trained(x[:1], x),
}


def trained(params, buffers):
    loss = (lambda p, x: total(p) * np.sum(x)) if buffers is None else lambda p, b, x: (total(p * b * x), b + 1)
    step = ws.compile(loss, params, buffers=buffers, optimizer=ws.optim.sgd(0.1), batch=np.ones(3))
    return step(np.ones(3)).loss, step.params, step.buffers


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_and_steps_take_arrays_of_jax(name):
    x = np.arange(1, 4, dtype=np.float32)
    found, wanted = TRANSFORMS[name](jnp.asarray(x)), TRANSFORMS[name](x)
    assert [type(a) for a in ws.tree.leaves(found)] == [type(a) for a in ws.tree.leaves(wanted)]
    for a, b in zip(ws.tree.leaves(found), ws.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_an_array_of_another_library_in_a_module_is_refused_since_no_step_would_train_it(library):
    layer = ws.nn.Linear(3, 2, key=0)
    made = jnp.asarray(layer.weight) if library == "jax" else torch_module().tensor(layer.weight)
    with pytest.raises(DtypeError, match=r"weight is an? .*, not an array(.|\n)*frozen"):
        layer.weight = made

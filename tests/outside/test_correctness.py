"""Programs that an outside check found wrong, refused or badly explained: each gives its number or a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import wholestep as ws
import wholestep.numpy as wnp
import wholestep.scipy.integrate as integrate
import wholestep.scipy.special as special
import wholestep.scipy.stats as stats
from wholestep import nn
from wholestep.errors import ConversionError, ParameterError, UnsupportedError

X = np.array([4.0, -1.0])
MODES = {
    "eager": lambda f: f,
    "jit": ws.jit,
    "vmap": lambda f: lambda *xs: ws.tree.map(lambda y: y[0], ws.vmap(f)(*[np.stack([x, x]) for x in xs])),
}
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


# Masked reads: elements outside of a mask reach no derivative.


def roots(x: Any) -> Any:
    y = x.copy()
    y[y > 1] **= 0.5
    return np.sum(y)


def assigned(x: Any) -> Any:
    out = wnp.zeros(x.shape)
    m = x > 0
    out[m] = np.sqrt(x[m])
    return np.sum(out)


def powers(x: Any) -> Any:
    y = x.copy()
    y[y < 1] = np.exp(y[y < 1])
    return np.sum(y)


def pieces(x: Any) -> Any:
    return np.sum(np.piecewise(x, [x > 0, x <= 0], [np.sqrt, lambda v: 0 * v]))


MASKED = {
    "in place": (roots, X, [0.25, 1.0]),
    "log of chosen": (lambda w: np.log(w[w > 0]).sum(), np.array([2.0, 0.0]), [0.5, 0.0]),
    "assigned": (assigned, X, [0.25, 0.0]),
    "entropy": (lambda p: -(p[p > 0] * np.log(p[p > 0])).sum(), np.array([0.5, 0.0]), [-1 - np.log(0.5), 0.0]),
    "exp of chosen": (powers, np.array([0.0, 1000.0]), [1.0, 1.0]),
    "mean of chosen": (lambda x: np.sqrt(x[x > 0]).mean(), X, [0.25, 0.0]),
    "piecewise": (pieces, X, [0.25, 0.0]),
    "plain mask": (lambda x: np.sum(np.sqrt(x[np.array([True, False])])), X, [0.25, 0.0]),
}


@each_mode
@pytest.mark.parametrize("name", MASKED)
def test_masks_keep_what_they_leave_out_from_derivatives(name: str, mode: Any) -> None:
    f, x, expected = MASKED[name]
    np.testing.assert_allclose(mode(ws.grad(f))(x), expected, rtol=1e-14)


def test_a_compiled_step_trains_through_a_mask() -> None:
    def loss(p: Any, b: Any) -> Any:
        return roots(p["x"] * b["one"])

    step = ws.compile(loss, {"x": X}, optimizer=ws.optim.sgd(0.1), batch={"one": np.ones(2)})
    step({"one": np.ones(2)})
    np.testing.assert_allclose(step.params["x"], X - 0.1 * np.array([0.25, 1.0]), rtol=1e-6)


@each_mode
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: np.sum(x[x > 0]), [1.0, 0.0]),
        (lambda x: np.mean(x[x > 0]), [1.0, 0.0]),
        (lambda x: np.log(x[x > 0]).max(), [0.25, 0.0]),
        (lambda x: np.sum(np.abs(x[x > 0])), [1.0, 0.0]),
        (lambda x: np.sum(abs(x[x > 0])), [1.0, 0.0]),
        (lambda x: np.sum((x[x > 0] > 1) * x[x > 0]), [1.0, 0.0]),
    ],
)
def test_reductions_of_a_masked_read(f: Any, expected: Any, mode: Any) -> None:
    np.testing.assert_allclose(mode(ws.grad(f))(X), expected)


PLAIN = np.array([True, False])


@each_mode
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: np.sum(x[PLAIN] / np.array([2.0, 0.0])[PLAIN]), [0.5, 0.0]),
        (lambda x: x[PLAIN] @ np.array([3.0]), [3.0, 0.0]),
        (lambda x: np.sum(x[PLAIN]) * x[PLAIN].shape[0], [1.0, 0.0]),
        (lambda x: np.sum(np.stack([x, x])[PLAIN] @ np.array([1.0, 2.0])), [1.0, 2.0]),
        (lambda x: np.sum(np.stack([x, 2 * x])[PLAIN].sum(axis=0)), [1.0, 1.0]),
    ],
)
def test_a_plain_mask_is_its_indices(f: Any, expected: Any, mode: Any) -> None:
    np.testing.assert_allclose(mode(ws.grad(f))(X), expected)


def test_a_plain_mask_gives_an_array() -> None:
    np.testing.assert_array_equal(ws.jit(lambda x: x[PLAIN])(X), X[PLAIN])


@each_mode
def test_safe_division_by_out_and_where(mode: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        return np.sum(np.divide(a, b, out=np.zeros_like(a), where=b != 0))

    found = mode(ws.grad(f, argnums=(0, 1)))(np.ones(2), np.array([2.0, 0.0]))
    np.testing.assert_allclose(found, [[0.5, 0.0], [-0.25, 0.0]])


def logs(b: Any) -> Any:
    return np.sum(np.log(b, out=b * 0.0, where=b > 0))


def roots_in_place(x: Any) -> Any:
    y = x.copy()
    np.sqrt(y, out=y, where=y > 0)
    return np.sum(y)


def test_out_and_where_of_other_ufuncs() -> None:
    np.testing.assert_allclose(ws.grad(logs)(np.array([2.0, 0.0])), [0.5, 0.0])
    np.testing.assert_allclose(ws.grad(roots_in_place)(X), [0.25, 1.0])
    np.testing.assert_allclose(ws.grad(lambda x: np.sum(np.power(x, 0.5, out=x * 0.0, where=x > 0)))(X), [0.25, 0.0])


# Second derivatives at ties and wide gaps.


def test_newton_for_logistic_regression_starts_from_zero() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)), rng.choice([-1.0, 1.0], 20)
    found = ws.hessian(lambda w: np.mean(np.logaddexp(0, -y * (x @ w))))(np.zeros(3))
    np.testing.assert_allclose(found, x.T @ x / 80, rtol=1e-12)


SECOND = {
    "logaddexp": lambda x: np.logaddexp(0.0, x),
    "softplus": nn.softplus,
    "bce_with_logits": lambda x: nn.bce_with_logits(x, 1.0 + 0 * x),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_at_a_tie(name: str) -> None:
    np.testing.assert_allclose(ws.grad(ws.grad(SECOND[name]))(0.0), 0.25, rtol=1e-14)


def test_second_derivatives_elsewhere() -> None:
    assert ws.grad(ws.grad(lambda x: nn.log_cosh(x, 0.0 * x)))(0.0) == 1.0
    np.testing.assert_array_equal(
        ws.hessian(lambda x: np.logaddexp(x[0], x[1]))(np.array([0.0, 800.0])), np.zeros((2, 2))
    )
    thirds = (np.eye(3) - 1 / 3) / 3
    np.testing.assert_allclose(ws.hessian(np.logaddexp.reduce)(np.zeros(3)), thirds, atol=1e-15)
    np.testing.assert_allclose(ws.hessian(lambda x: np.logaddexp.accumulate(x)[-1])(np.zeros(3)), thirds, atol=1e-15)
    single = ws.hessian(lambda x: nn.bce_with_logits(x, np.ones(1, np.float32)))(np.full(1, 90.0, np.float32))
    assert np.all(np.isfinite(single))


# Views.


@each_mode
def test_a_diagonal_from_einsum_is_a_view(mode: Any) -> None:
    def f(a: Any) -> Any:
        y = a.copy()
        d = np.einsum("ii->i", y)
        d *= 2.0
        t = np.einsum("ij->ji", y)
        t[0] += 1.0
        return np.sum(y)

    assert f(np.ones((3, 3))) == 15.0 == ws.value_and_grad(f)(np.ones((3, 3)))[0]
    np.testing.assert_array_equal(mode(ws.grad(f))(np.ones((3, 3))), np.ones((3, 3)) + np.eye(3))


# Special points.


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_rgamma_at_its_zeros(n: int) -> None:
    found = ws.grad(special.rgamma)(-float(n))
    np.testing.assert_allclose(found, (-1) ** n * float(scipy.special.factorial(n)), rtol=1e-14)


@each_mode
@pytest.mark.parametrize("ord", [None, 2, 1, 3, 0.5, np.inf, -np.inf, -1, -2, 0])
def test_norms_at_zero_have_the_gradient_zero(ord: Any, mode: Any) -> None:
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(mode(ws.grad(lambda x: np.linalg.norm(x, ord)))(np.zeros(3)), np.zeros(3))
        beside = mode(ws.grad(lambda x: np.linalg.norm(x, ord)))(np.array([0.0, 1.0, 2.0]))
    assert np.all(np.isfinite(beside))


# Programs with lines that repeat.


def rolled(p: Any, b: Any) -> Any:
    w = wnp.zeros(3)
    for _ in range(6):
        w = np.tanh((p["A"] + np.diag(w)) @ w + 1)
    return np.sum(w**3) + 0 * np.sum(b["z"])


def newton(p: Any, b: Any) -> Any:
    w = wnp.zeros(3)
    for _ in range(6):
        h = p["A"].T @ p["A"] * np.sum(w) + np.eye(3)
        w = w - np.linalg.solve(h, p["A"].T @ (p["A"] @ w) + 1)
    return np.sum(w**3) + 0 * np.sum(b["z"])


def inverted(p: Any, b: Any) -> Any:
    w = wnp.zeros(3)
    for _ in range(6):
        w = np.tanh(np.linalg.inv(p["A"] + np.diag(w)) @ w + 1)
    return np.sum(w**3) + 0 * np.sum(b["z"])


@pytest.mark.parametrize("loss", [rolled, newton, inverted])
def test_loops_over_matrices_compile(loss: Any) -> None:
    start, batch = {"A": np.eye(3) + 0.1}, {"z": np.zeros(1)}
    step = ws.compile(loss, start, optimizer=ws.optim.sgd(0.1), batch=batch)
    step(batch)
    gradient = ws.grad(loss)(start, batch)["A"]
    np.testing.assert_allclose(step.params["A"], start["A"] - 0.1 * gradient, rtol=1e-9)


# Calls.


def test_matmul_writes_into_out() -> None:
    def f(a: Any) -> Any:
        c = wnp.zeros((2, 2))
        wnp.matmul(a, a, out=c)
        return np.sum(c * c)

    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(ws.grad(f)(a), ws.grad(lambda a: np.sum((a @ a) ** 2))(a))


def test_complex_numbers_in_order() -> None:
    z = np.array([1 + 1j, 1 + 2j, 0.5 + 9j])
    assert ws.jit(np.max)(z) == 1 + 2j and ws.jit(np.min)(z) == 0.5 + 9j
    found = ws.grad(lambda z: np.real(np.max(z)) + 2 * np.imag(np.max(z)))(z)
    np.testing.assert_array_equal(found, [0, 1 + 2j, 0])
    np.testing.assert_allclose(ws.jit(special.logsumexp)(z), scipy.special.logsumexp(z), rtol=1e-14)


def test_calls_that_were_refused() -> None:
    a, w = np.array([0.1, 0.4, 0.7]), np.array([1.0, 2.0, 3.0])
    counts = ws.grad(lambda w: np.sum(np.histogram(a, bins=2, weights=w)[0] ** 2))(w)
    np.testing.assert_allclose(counts, [2.0, 10.0, 10.0])
    assert ws.grad(lambda x: np.sum(x.view() ** 2))(w).tolist() == [2.0, 4.0, 6.0]
    polynomial = ws.grad(lambda c: wnp.polynomial.polynomial.polyval(2.0, c))(w)
    np.testing.assert_array_equal(polynomial, [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(ws.grad(lambda x: np.sum(wnp.full_like(a, x[0])))(w), [3.0, 0.0, 0.0])
    b = np.array([[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]])
    point = b @ np.array([1.0, -1.0])
    density = ws.jit(lambda b: stats.multivariate_normal.logpdf(point, None, b @ b.T, allow_singular=True))(b)
    expected = scipy.stats.multivariate_normal.logpdf(point, None, b @ b.T, allow_singular=True)
    np.testing.assert_allclose(density, expected, rtol=1e-9)
    end = ws.grad(lambda k: integrate.odeint(lambda y, t, k: -k * y, 1.0, np.array([0.0, 1.0]), args=(k,))[-1])(2.0)
    np.testing.assert_allclose(end, -np.exp(-2.0), rtol=1e-6)


def test_dtypes_are_equal_to_those_of_numpy() -> None:
    assert wnp.float32 == np.float32 == X.astype(wnp.float32).dtype.type
    assert {wnp.float32: 1}[np.float32] == 1


MESSAGES = {
    "ranks into a plain array": (
        lambda x: np.sum(ranks(np.empty(2), x)),
        ConversionError,
        "is a plain array: make it inside the traced function",
    ),
    "full_like": (lambda x: np.sum(np.full_like(np.ones(3), x[0])), UnsupportedError, "wholestep.numpy"),
    "nditer": (lambda x: sum(v for v in wnp.nditer(x)), UnsupportedError, "numpy.nditer: not covered"),
    "frompyfunc": (
        lambda x: np.sum(np.frompyfunc(lambda v: v, 1, 1)(x)),
        UnsupportedError,
        "wholestep.numpy.vectorize or ws.vmap",
    ),
    "hardtanh": (
        lambda x: np.sum(nn.hardtanh(x, 0.0, 0.0)),
        ParameterError,
        "the bounds 0.0 and 0.0 are equal",
    ),
    "view of another dtype": (lambda x: np.sum(x.view(np.int64)), UnsupportedError, "has no bits to read"),
}


def ranks(table: Any, x: Any) -> Any:
    table[np.argsort(x)] = x
    return table


@pytest.mark.parametrize("name", MESSAGES)
def test_what_is_refused_says_what_to_write(name: str) -> None:
    f, kind, words = MESSAGES[name]
    with pytest.raises(kind) as caught:
        ws.grad(f, rewrite=False)(X)
    assert words in str(caught.value) and "test_correctness.py:" in str(caught.value) and "hint:" in str(caught.value)

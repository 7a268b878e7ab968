"""Eager gradients of tapes that were recorded before: the bits of a reverse pass of their own, for any function."""

import gc
import weakref

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import DerivativeError
from wholestep.frontend import known_tapes

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 5)).astype(np.float32)


def assigned(x):
    y = x.copy()
    y[1:] += 0.5 * x[:-1]
    y[0] = y[1] * y[2]
    return np.sum(np.where(y > 0, np.sqrt(np.abs(y) + 1), y[::-1]))


def looped(x):
    total = 0.0
    for row in x:
        total = total + np.tanh(row) @ np.maximum(row, 0.1)
    return total / len(x)


def gathered(x):
    chosen = np.prod(x[np.array([0, 2, 2])] + 2) + np.max(np.cumsum(x, axis=0))
    return chosen + np.log(np.linalg.det(x.T @ x + np.eye(3)))


FUNCTIONS = {
    "network": (lambda w: np.mean((np.tanh(X.astype(np.float32) @ w) - 1) ** 2), W),
    "assignment": (assigned, X),
    "loop": (looped, X),
    "indices": (gathered, X),
    "attention": (lambda x: np.sum(nn.scaled_dot_product_attention(x, x, x, causal=True) ** 2), X),
    "complex": (lambda z: np.sum(np.abs(np.fft.fft(z)) ** 3), X[0] + 1j * X[1]),
    "scan": (lambda x: ws.scan(lambda c, r: (np.sin(c * r), None), np.ones(3), x)[0].sum(), X),
    "total": (lambda x: np.sum(x), X),
    "number": (lambda x: np.exp(np.sin(x)) * x**3, 0.7),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_has_the_same_bits_however_often_its_tape_was_met(name):
    f, x = FUNCTIONS[name]
    known_tapes._known.clear()
    value_and_grad = ws.value_and_grad(f)
    first = value_and_grad(x)
    for scale in (1, 1, 0.5, 2, 1):
        value, gradient = value_and_grad(scale * x)
        known_tapes._known.clear() if scale == 2 else None
        own_value, own = ws.value_and_grad(lambda x: f(x))(scale * x)
        assert value.tobytes() == own_value.tobytes() and gradient.tobytes() == own.tobytes()
        assert gradient.dtype == own.dtype == first[1].dtype and type(gradient) is type(own)
        if scale == 1:
            assert gradient.tobytes() == first[1].tobytes()


def test_what_decides_anew_in_each_call_is_seen():
    settings = {"power": 2.0, "by": np.ones(3)}

    def f(x, sign=1.0):
        if x[0] > 0:
            return sign * np.sum(x ** settings["power"] * settings["by"])
        return np.sum(np.sin(x))

    grad, x = ws.grad(f), np.array([1.0, 2.0, 3.0])
    for power in (2.0, 3.0, 2.0, 3.0, 3.0):
        settings["power"] = power
        for by in (np.ones(3), np.arange(3.0)):
            settings["by"] = by
            np.testing.assert_allclose(grad(x), power * x ** (power - 1) * by, rtol=1e-12)
            np.testing.assert_allclose(grad(x, sign=-2.0), -2 * power * x ** (power - 1) * by, rtol=1e-12)
            np.testing.assert_allclose(grad(-x), np.cos(-x), rtol=1e-12)


def test_zeros_of_both_signs_are_two_numbers():
    grad = ws.grad(lambda x, c: np.sum(x * c))
    for c in (0.0, -0.0, 0.0, -0.0, 0.0, -0.0):
        assert np.signbit(grad(np.ones(2), c)).tolist() == [np.signbit(c)] * 2


def test_rules_of_the_users_run_in_every_call():
    ran = []

    @ws.custom_vjp
    def twice(x):
        return 2 * x

    def backward(residual, g):
        ran.append(len(ran))
        return (g * (3.0 if residual[0] > 1 else 5.0),)

    twice.defvjp(lambda x: (twice(x), x), backward)
    grad = ws.grad(lambda x: np.sum(twice(x)))
    for first in (0.0, 2.0, 0.0, 2.0):
        assert grad(np.array([first, 1.0])).tolist() == [3.0 if first > 1 else 5.0] * 2
    assert ran == [0, 1, 2, 3]


def test_the_options_of_grad():
    both = ws.grad(lambda p, x, unused: (np.sum(p["w"] * x), x * 2), argnums=(0, 1, 2), has_aux=True)
    holomorphic = ws.grad(lambda z: np.sum(z**2), holomorphic=True)
    strict = ws.grad(lambda x, y: np.sum(x), argnums=(0, 1), allow_unused=False)
    for _ in range(4):
        (params, x, unused), aux = both({"w": np.full(2, 3.0)}, np.ones(2), 5.0)
        assert params["w"].tolist() == [1, 1] and x.tolist() == [3, 3] and aux.tolist() == [2, 2]
        assert type(unused) is np.float64 and unused == 0
        assert holomorphic(np.array([1j])).tolist() == [2j]
        with pytest.raises(DerivativeError, match="does not depend on y"):
            strict(np.ones(2), np.ones(2))


def test_gradients_are_the_callers_own():
    w = np.ones(3)
    grad = ws.grad(lambda x, y: np.sum(x * y), argnums=(0, 1))
    for _ in range(4):
        x = np.arange(3.0)
        gx, gy = grad(x, w)
        gx[:], gy[:] = 7, 8
        assert x.tolist() == [0, 1, 2] and w.tolist() == [1, 1, 1]
        again = ws.grad(lambda x: np.sum(x))(x)
        again += 1


def test_a_tape_that_is_known_keeps_no_arrays():
    grad, alive = ws.grad(lambda x: np.sum(np.sin(x) * x)), []
    for _ in range(3):
        x = np.ones(1000)
        alive.append(weakref.ref(x))
        grad(x)
    del x
    gc.collect()
    assert [ref() for ref in alive] == [None] * 3


def test_the_number_of_known_tapes_has_a_bound(monkeypatch):
    monkeypatch.setattr(known_tapes, "MOST", 5)
    known_tapes._known.clear()
    for k in range(40):
        ws.grad(lambda x, c: np.sum(x + c))(np.ones(2), float(k))
        assert len(known_tapes._known) <= 5

"""Functions with a stated pullback: it equals the derivative of their body, and keeps fewer residuals."""

from __future__ import annotations

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn

RNG = np.random.default_rng(3)
MASK = RNG.random((5, 6)) < 0.7
MASK[2] = False  # a query that may look at nothing
KEYS, VALUES = RNG.normal(size=(6, 4)), RNG.normal(size=(6, 3))
FUNCTIONS = {
    "gelu": nn.gelu,
    "gelu tanh": lambda x: nn.gelu(x, "tanh"),
    "silu": nn.silu,
    "mish": nn.mish,
    "softmax": nn.softmax,
    "softmax along the first axis": lambda x: nn.softmax(x, 0),
    "attention": lambda x: nn.scaled_dot_product_attention(x, KEYS, VALUES, mask=MASK),
    "attention to the past": lambda x: nn.scaled_dot_product_attention(x, KEYS[:5], VALUES[:5], causal=True),
}
X, DX = 2 * RNG.normal(size=(5, 4)), RNG.normal(size=(5, 4))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_pullback_is_that_of_the_body(name):
    f = FUNCTIONS[name]
    y, dy = ws.jvp(f, (X,), (DX,))  # the derivative of the body
    gy = RNG.normal(size=y.shape)
    _, pullback = ws.vjp(f, X)
    (gx,) = pullback(gy)
    assert np.sum(gx * DX) == pytest.approx(np.sum(gy * dy), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_its_derivative_too(name):
    f = FUNCTIONS[name]

    def slope(x):
        return ws.grad(lambda x: np.sum(np.sin(f(x))))(x)

    def along(x):
        return ws.jvp(lambda x: np.sum(np.sin(f(x))), (x,), (DX,))[1]

    # the derivative of the stated pullback, and that of the body
    np.testing.assert_allclose(ws.jvp(slope, (X,), (DX,))[1], ws.grad(along)(X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "kept"), [("gelu", 2), ("gelu tanh", 2), ("silu", 2), ("mish", 2), ("softmax", 1)])
def test_little_is_kept_for_it(name, kept):
    """The residuals of a layer are the operand of the next one, and an activation's slope."""
    f, x, w = FUNCTIONS[name], np.zeros((256, 64), np.float32), np.zeros((64, 64), np.float32)

    def loss(layers, x):
        for w in layers:
            x = f(x @ w)
        return np.sum(x * x)

    def arena(layers):
        return ws.estimate(loss, [w] * layers, optimizer=ws.optim.sgd(0.1), batch=x, guard=None, roll=False).arena

    assert arena(12) - arena(4) <= 8 * (kept * x.nbytes + 4096)

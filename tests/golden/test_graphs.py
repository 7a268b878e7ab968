"""The programs that functions become, and their derivatives, pinned as text."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.frontend.jit import jit

X = np.ones((2, 3), np.float32)
W = np.ones((3, 4), np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def assigned(x):
    y = x * 2
    y[0] = x[1] ** 2
    y.T[1] += 1
    return y.sum()


def recurrent(w, xs):
    def step(h, x):
        h = np.tanh(w @ h + x)
        return h, h

    return ws.scan(step, np.zeros(3, np.float32), xs)[1].sum()


FUNCTIONS = {
    "sin": (np.sin, 1.0),
    "loss": (lambda x, w: np.tanh(x @ w).sum(), X, W),
    "softmax": (softmax, X),
    "mean_and_var": (lambda x: (x.mean(0), x.var(1)), X),
    "gather": (lambda x: x[[0, 1, 1], [2, 0, 0]], X),
    "slice_step": (lambda x: x[::-1, ::2], X),
    "assigned": (assigned, X),
    "where": (lambda x: np.where(x > 0, x, 0.1 * x), X),
    "cond": (lambda x: ws.cond(x.sum() > 0, np.sin, np.cos, x), X),
    "recurrent": (recurrent, np.ones((3, 3), np.float32), X),
    "while": (lambda x: ws.while_loop(lambda x: x < 10, lambda x: x * 2, x), 1.0),
    "norm": (lambda x: np.sqrt((x * x).sum()), X),
    "sort": (lambda x: np.sort(x, axis=0), X),
    "vmapped_matvec": (ws.vmap(lambda x, w: x @ w, in_axes=(0, None)), X, W),
    "grad_tanh": (ws.grad(np.tanh), 1.0),
    "grad_loss": (ws.grad(lambda x, w: np.tanh(x @ w).sum(), argnums=(0, 1)), X, W),
    "grad_softmax": (ws.grad(lambda x: (softmax(x) ** 2).sum()), X),
    "grad_assigned": (ws.grad(assigned), X),
    "grad_max": (ws.grad(lambda x: x.max(axis=1).sum()), X),
    "grad_gather": (ws.grad(lambda x: x[[0, 1, 1]].sum()), X),
    "grad_recurrent": (ws.grad(recurrent), np.ones((3, 3), np.float32), X),
    "grad_cond": (ws.grad(lambda x: ws.cond(x > 0, np.sin, np.cos, x)), 1.0),
    "grad_checkpoint": (ws.grad(ws.checkpoint(lambda x: np.sin(np.sin(x)))), 1.0),
    "jvp_exp": (lambda x: ws.jvp(np.exp, (x,), (x,)), 1.0),
    "hvp_cube": (lambda x: ws.hvp(lambda x: (x**3).sum(), (x,), (x,)), X),
    "per_sample_gradients": (ws.vmap(ws.grad(lambda w, x: np.tanh(x @ w).sum()), in_axes=(None, 0)), W, X),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_program(name, golden):
    f, *args = FUNCTIONS[name]
    golden(jit(lambda *own: f(*own)).lower(*args))

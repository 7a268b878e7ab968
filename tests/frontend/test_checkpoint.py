"""Checkpoint policies: the values that are kept, those that are computed again, and equal bits for every policy."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3))


def net(x, w):
    h = ws.capture("h", np.tanh(x @ w))
    return np.sum(np.exp(np.sin(h @ w) * 0.1))


POLICIES = {
    "none": None,
    "contractions": "contractions",
    "everything": "everything",
    "names": ["h"],
    "function": lambda operation, type, params: operation == "sin",
    "nothing": lambda operation, type, params: False,
}


def again(policy, f=net):
    """The number of times that each operation is computed for a value and its gradient."""
    counts = {}

    def count(graph):
        for node in graph.nodes:
            counts[node.op.name] = counts.get(node.op.name, 0) + 1
        for inner in graph.subgraphs():
            count(inner)

    count(ws.trace(ws.value_and_grad(ws.checkpoint(f, policy=policy), argnums=(0, 1)))(X, W))
    return {name: counts[name] for name in ("contract", "tanh", "sin", "exp")}


def test_what_a_policy_keeps_is_not_computed_again():
    # Two contractions forward and four backward, and those that are computed again.
    assert again("everything") == {"contract": 6, "tanh": 1, "sin": 1, "exp": 1}
    assert again(None) == again(POLICIES["nothing"]) == {"contract": 8, "tanh": 2, "sin": 2, "exp": 2}
    assert again("contractions") == {"contract": 6, "tanh": 2, "sin": 2, "exp": 2}
    assert again(["h"]) == {"contract": 7, "tanh": 1, "sin": 2, "exp": 2}
    assert again(POLICIES["function"]) == {"contract": 8, "tanh": 2, "sin": 1, "exp": 2}


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_gives_the_same_bits_under_every_transform(name):
    f, g = net, ws.checkpoint(net, policy=POLICIES[name])
    many = np.stack([X, 2 * X])
    for transform in (
        lambda f: f(X, W),
        lambda f: ws.grad(f, argnums=(0, 1))(X, W),
        lambda f: ws.jit(ws.value_and_grad(f, argnums=(0, 1)))(X, W),
        lambda f: ws.grad(ws.jit(f))(X, W),
        lambda f: ws.vmap(ws.grad(f), in_axes=(0, None))(many, W),
        lambda f: ws.grad(lambda xs: np.sum(ws.vmap(f, in_axes=(0, None))(xs, W)))(many),
        lambda f: ws.jvp(ws.grad(f, argnums=1), (X, W), (X, W)),
    ):
        for a, b in zip(ws_leaves(transform(g)), ws_leaves(transform(f)), strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(ws.hessian(g)(X, W), ws.hessian(f)(X, W), rtol=1e-12, atol=1e-14)
    ws.gradcheck(g, X, W)


def ws_leaves(found):
    return [found] if not isinstance(found, tuple) else [leaf for item in found for leaf in ws_leaves(item)]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_in_a_loop(name):
    def total(policy, wrap=ws.checkpoint):
        def step(c, x):
            h = ws.capture("h", np.tanh(c @ W) + x)
            return np.sin(h) * c, h

        f = wrap(step, policy=policy)
        return lambda c: np.sum(ws.scan(f, c, np.arange(5.0))[1] ** 2)

    plain, kept = total(None, lambda f, policy: f), total(POLICIES[name])
    np.testing.assert_array_equal(ws.grad(kept)(X), ws.grad(plain)(X))
    np.testing.assert_array_equal(ws.jit(ws.grad(kept))(X), ws.jit(ws.grad(plain))(X))


def test_policies_decide_what_a_loop_holds():
    def arena(policy):
        w = ws.ShapeDtype((64, 64), "float32")

        def loss(w, x):
            layer = lambda x, w: np.sin(ws.capture("h", np.tanh(x @ w))) @ w  # noqa: E731
            return np.sum(ws.scan(lambda x, _: (ws.checkpoint(layer, policy=policy)(x, w), None), x, None, 256)[0])

        return ws.estimate(loss, w, batch=ws.ShapeDtype((16, 64), "float32"), optimizer=ws.optim.sgd(0.1)).arena

    row = 256 * 16 * 64 * 4
    least = arena(None)
    assert row < least < 1.1 * row
    assert arena(["h"]) > least + 0.9 * row and arena("contractions") > least + 0.9 * row


def test_a_policy_is_asked_with_the_types():
    seen = []

    def policy(operation, type, params):
        seen.append((operation, type.shape, params.get("spec")))
        return type.ndim == 2

    ws.grad(ws.checkpoint(net, policy=policy))(X, W)
    assert ("contract", (4, 3), "ij,jk->ik") in seen


def test_other_policies_are_refused():
    for policy in ("some", "h", 3, [], [1], True, {}):
        with pytest.raises(ParameterError, match="checkpoint: policy is"):
            ws.checkpoint(net, policy=policy)
    with pytest.raises(ParameterError, match=r"net names no value 'k'\n.*\n  hint: it names h"):
        ws.checkpoint(net, policy=["h", "k"])(X, W)
    with pytest.raises(ParameterError, match="outside of loops and branches"):
        looped = lambda x: ws.scan(lambda c, x: (ws.capture("h", c), None), 0.0, x)[0]  # noqa: E731
        ws.checkpoint(looped, policy=["h"])(np.ones(3))

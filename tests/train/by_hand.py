"""Training written out: gradients and updates on plain arrays, one step after the other."""

import numpy as np

import wholestep as ws
from wholestep import tree


def rows(data, index):
    return tree.map(lambda x: x[index], data)


def stacked(batches):
    return tree.map(lambda *xs: np.stack(xs), batches[0], *batches[1:])


def train(loss, params, optimizer, batches):
    """(params, optimizer state, losses)."""
    state, losses = optimizer.init(params), []
    for batch in batches:
        value, grads = ws.value_and_grad(loss)(params, batch)
        params, state = optimizer.update(grads, state, params)
        losses.append(value)
    return params, state, losses


def same(a, b, device):
    """Assert equality, to the bit on the reference, which runs node by node, and to rounding on other devices."""
    assert tree.structure(a) == tree.structure(b)
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        if device == "reference":
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, **ROUNDING[np.asarray(y).dtype.itemsize])


ROUNDING = {4: {"rtol": 2e-4, "atol": 2e-6}, 8: {"rtol": 1e-9, "atol": 1e-12}}

"""A function beside one of PyTorch: values and gradients, eagerly in float64 and compiled in float32."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree

torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")


def agree(ours, theirs, *arrays, compiled=False, exact=1e-10, single=1e-5):
    """Assert that two functions agree in value and gradients; returns our value."""
    given = [torch.tensor(a, requires_grad=np.issubdtype(a.dtype, np.floating)) for a in arrays]
    there = [out for out in tree.leaves(theirs(*given)) if out is not None]
    expected = [out.detach().numpy() for out in there]
    rng = np.random.default_rng(sum(out.size for out in expected))
    weights = [rng.normal(size=out.shape) for out in expected]
    wanted = torch.autograd.grad(
        sum((out * torch.tensor(w)).sum() for out, w in zip(there, weights, strict=True)),
        [x for x in given if x.requires_grad],
        allow_unused=True,
    )
    wanted = [
        np.zeros(x.shape) if g is None else g.numpy()
        for x, g in zip([x for x in given if x.requires_grad], wanted, strict=True)
    ]
    inexact = tuple(i for i, a in enumerate(arrays) if np.issubdtype(a.dtype, np.floating))

    def scored(*xs):
        outs = tree.leaves(ours(*xs))
        return sum(np.sum(out * w.astype(out.dtype)) for out, w in zip(outs, weights, strict=True)), outs

    made = ours(*arrays)
    close(tree.leaves(made), expected, exact)
    graded = ws.value_and_grad(scored, argnums=inexact, has_aux=True)
    (_, outs), found = graded(*arrays)
    close([*outs, *found], [*expected, *wanted], exact)
    if compiled:
        small = [a.astype(np.float32) if i in inexact else a for i, a in enumerate(arrays)]
        (_, outs), found = ws.jit(graded)(*small)
        assert {out.dtype for out in (*outs, *found)} == {np.dtype(np.float32)}
        close([*outs, *found], [*expected, *wanted], single)
    return made


def close(found, expected, bound):
    """Assert that arrays have the shapes expected, and differ by at most `bound` of the largest element, or of 1."""
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(
            x, y, rtol=0, atol=bound * max(1.0, np.abs(y, where=np.isfinite(y), out=np.zeros(y.shape)).max(initial=0))
        )

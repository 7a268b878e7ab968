"""einops on traced arrays: values as on plain ones, derivatives that differences confirm; in a fresh process too."""

import subprocess
import sys

import numpy as np
import pytest

import wholestep as ws

einops = pytest.importorskip("einops", reason="an optional package; not installed")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 2, 3, 2))

CASES = {
    "rearrange": lambda x: einops.rearrange(x, "b (h i) (w j) c -> b h w (i j c)", i=2, j=3),
    "rearrange a list": lambda x: einops.rearrange([x[0], x[1] ** 2], "b h w c -> h (b w) c"),
    "mean": lambda x: einops.reduce(x, "b (h i) w c -> b h c", "mean", i=2),
    "max": lambda x: einops.reduce(x, "b (h i) (w j) c -> b h w c", "max", i=2, j=3),
    "prod": lambda x: einops.reduce(x, "b h w c -> h () c", "prod"),
    "a reduction of one's own": lambda x: einops.reduce(x, "b h w c -> b", lambda t, axes: np.sum(t**2, axis=axes)),
    "repeat": lambda x: einops.repeat(x, "b h w c -> b (h i) (n w) c", i=2, n=3),
    "einsum": lambda x: einops.einsum(x, x[0, 0], "batch height width channel, other channel -> batch height other"),
    "pack": lambda x: einops.pack([x, x[:, 0], x[:, :, 0] ** 2], "b * c")[0],
    "unpack": lambda x: einops.unpack(x, [[1], [2]], "b h * c")[1] ** 2,
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    f = CASES[name]
    expected = f(X)
    for found in (ws.jit(f)(X), ws.vmap(lambda _: f(X))(np.zeros(1))[0], ws.jvp(f, (X,), (X,))[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    ws.gradcheck(f, X)
    pull = RNG.normal(size=expected.shape)
    gradient = ws.grad(lambda x: np.sum(f(x) * pull))
    np.testing.assert_allclose(ws.jit(gradient)(X), gradient(X), rtol=1e-10)


def test_parse_shape_and_a_mean_of_integers():
    seen = []
    ws.jit(lambda x: seen.append(einops.parse_shape(x, "b _ w c")) or x)(X)
    assert seen == [{"b": 2, "w": 3, "c": 2}]
    with pytest.raises(Exception, match="reduce_mean is not available"):
        ws.jit(lambda x: einops.reduce(x, "b c ->", "mean"))(np.ones((2, 3), int))


def test_the_error_of_einops_passes_through():
    with pytest.raises(einops.EinopsError, match="Shape mismatch"):
        ws.grad(lambda x: np.sum(einops.rearrange(x, "a (b c) d e -> a b c d e", b=5)))(X)


@pytest.mark.parametrize("first", ["einops", "wholestep"])
def test_in_a_fresh_process_whichever_came_first(first):
    second = {"einops": "wholestep", "wholestep": "einops"}[first]
    code = f"""
import {first}, sys
assert {first == "einops"} or "einops" not in sys.modules
import {second}
import numpy as np, einops, wholestep as ws
f = lambda x: np.sum(einops.rearrange(x, "a b -> (b a)") * np.arange(6.0))
print(ws.grad(f)(np.ones((2, 3))).tolist(), ws.jit(f)(np.ones((2, 3))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]] 15.0\n"

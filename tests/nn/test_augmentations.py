"""Random augmentations of images: each is a valid one, all valid ones occur, and a key determines them."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import ParameterError, ShapeError

RNG = np.random.default_rng(6)
KEY = ws.random.key(11)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "bool"])
@pytest.mark.parametrize("axis", [-1, 2])
def test_flips(dtype, axis):
    x = RNG.integers(0, 2 if dtype == "bool" else 200, (400, 3, 4, 5)).astype(dtype)
    found = nn.random_flip(x, KEY, 0.3, axis=axis)
    assert found.dtype == dtype
    turned = (found == np.flip(x, axis)).all((1, 2, 3))
    assert (turned | (found == x).all((1, 2, 3))).all() and 80 < turned.sum() < 160
    np.testing.assert_array_equal(ws.jit(lambda x, key: nn.random_flip(x, key, 0.3, axis=axis))(x, KEY), found)
    for p, wanted in ((0, x), (1, np.flip(x, axis))):
        np.testing.assert_array_equal(nn.random_flip(x, KEY, p, axis=axis), wanted)


@pytest.mark.parametrize(("size", "padding"), [((3, 2), 0), (4, 1), ((5, 6), (1, 0)), ((5, 6), 0)])
def test_crops(size, padding):
    x = RNG.integers(1, 200, (300, 2, 5, 6)).astype(np.uint8)
    found = nn.random_crop(x, KEY, size, padding=padding)
    np.testing.assert_array_equal(ws.jit(lambda x, key: nn.random_crop(x, key, size, padding=padding))(x, KEY), found)
    h, w = (size, size) if isinstance(size, int) else size
    p, q = (padding, padding) if isinstance(padding, int) else padding
    assert found.shape == (300, 2, h, w) and found.dtype == np.uint8
    wide = np.pad(x, ((0, 0), (0, 0), (p, p), (q, q)))
    places = [(i, j) for i in range(5 + 2 * p - h + 1) for j in range(6 + 2 * q - w + 1)]
    seen = set()
    for image, part in zip(wide, found, strict=True):
        at = [(i, j) for i, j in places if (image[:, i : i + h, j : j + w] == part).all()]
        assert at
        seen |= set(at[:1])
    assert seen == set(places)


def test_resized_crops():
    grid = np.mgrid[0:30, 0:40].astype(np.float32)
    x = np.broadcast_to(grid, (500, 2, 30, 40))
    found = nn.random_resized_crop(x, KEY, (6, 8), scale=(0.25, 0.5))
    assert found.shape == (500, 2, 6, 8) and found.dtype == np.float32
    # The pixels are their own coordinates, so that a crop shows its place.
    rows, columns = found[:, 0, :, 0], found[:, 1, 0]
    heights, widths = (rows[:, -1] - rows[:, 0]) * 6 / 5, (columns[:, -1] - columns[:, 0]) * 8 / 7
    area = heights * widths / 1200
    assert (heights <= 30.01).all() and (widths <= 40.01).all()
    assert area.max() < 0.51 and area.min() > 0.2 and area.std() > 0.05
    free = (heights < 29.5) & (widths < 39.5)
    shape = (widths / heights)[free]
    assert 0.74 < shape.min() < 0.8 and 1.25 < shape.max() < 1.34
    assert found.min() >= 0 and found[:, 0].max() <= 29 and found[:, 1].max() <= 39
    np.testing.assert_allclose(np.diff(rows, axis=1).std(axis=1), 0, atol=1e-3)
    whole = nn.random_resized_crop(x[:3], KEY, (30, 40), scale=(1, 1), ratio=(4 / 3, 4 / 3))
    np.testing.assert_allclose(whole, x[:3], atol=1e-3)
    compiled = ws.jit(lambda x, key: nn.random_resized_crop(x, key, (6, 8), scale=(0.25, 0.5)))(x, KEY)
    np.testing.assert_allclose(compiled, found, atol=1e-3)


def test_views_in_a_compiled_step_are_drawn_anew_each_step():
    def loss(w, batch, *, key):
        return np.mean(nn.random_crop(batch, key, 4, padding=2) * w)

    step = ws.compile(loss, np.float32(1), optimizer=ws.optim.sgd(0.0), batch=np.ones((1, 1, 4, 4), np.float32))
    assert len({float(step(np.ones((1, 1, 4, 4), np.float32)).loss) for _ in range(12)}) > 3


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.random_flip(X, None), ParameterError, "random_flip: no key"),
        (lambda: nn.random_flip(X, KEY, 2.0), ParameterError, "random_flip: p is 2.0"),
        (lambda: nn.random_flip(X, KEY, axis=0), ShapeError, "have no axis 0"),
        (lambda: nn.random_flip(X, KEY, axis=4), ShapeError, "have no axis 4"),
        (lambda: nn.random_crop(X[0], KEY, 2), ShapeError, "random_crop: x is f32"),
        (lambda: nn.random_crop(X, KEY, 5), ShapeError, r"a part of \(5, 5\) is larger"),
        (lambda: nn.random_resized_crop(X, KEY, 2, scale=(0.5, 2)), ParameterError, r"scale is \(0.5, 2\)"),
        (lambda: nn.random_resized_crop(X, KEY, 2, scale=0.5), ParameterError, "scale is 0.5; it must be two numbers"),
        (lambda: nn.random_resized_crop(X, KEY, 2, ratio="ab"), ParameterError, "ratio is 'ab'; it must be two"),
        (lambda: nn.random_resized_crop(X, KEY, 2, ratio=(2, 1)), ParameterError, r"ratio is \(2, 1\)"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


X = np.ones((2, 3, 4, 4), np.float32)

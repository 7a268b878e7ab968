"""Pooling and resampling against PyTorch, and the choices where there are ties, padding and parts."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.nn.beside_torch import agree, close, torch

import wholestep as ws
from wholestep import nn
from wholestep.errors import BoundsError, DtypeError, ParameterError, ShapeError

F = torch.nn.functional
RNG = np.random.default_rng(3)
OURS = {"max": (nn.max_pool1d, nn.max_pool2d, nn.max_pool3d), "avg": (nn.avg_pool1d, nn.avg_pool2d, nn.avg_pool3d)}
THEIRS = {"max": (F.max_pool1d, F.max_pool2d, F.max_pool3d), "avg": (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)}


UNPOOLS = {"ours": (nn.max_unpool1d, nn.max_unpool2d, nn.max_unpool3d)}
UNPOOLS["theirs"] = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)
NORMS = {"ours": (nn.lp_pool1d, nn.lp_pool2d, nn.lp_pool3d), "theirs": (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)}


@st.composite
def pools(draw):
    """A number of axes, an array with many ties, and the options of a pool."""
    n = draw(st.integers(1, 3))
    size = tuple(draw(st.integers(1, 5 if n < 3 else 3)) for _ in range(n))
    padding = tuple(draw(st.integers(0, m // 2)) for m in size)
    lengths = [draw(st.integers(m, 8)) for m in size]
    x = RNG.integers(-2, 3, (2, 2, *lengths)).astype(float)
    return n, x, size, tuple(draw(st.integers(1, 4)) for _ in range(n)), padding, draw(st.booleans())


@settings(max_examples=40)
@given(pools())
def test_max_pools_with_ties(pool):
    n, x, size, stride, padding, ceil = pool
    ours, theirs = OURS["max"][n - 1], THEIRS["max"][n - 1]
    agree(
        lambda x: ours(x, size, stride, padding, ceil_mode=ceil),
        lambda x: theirs(x, size, stride, padding, ceil_mode=ceil),
        x,
    )


@settings(max_examples=60)
@given(pools(), st.integers(1, 3))
def test_max_pools_with_gaps_and_the_places_of_their_elements(pool, dilation):
    n, x, size, stride, padding, ceil = pool
    x = np.repeat(x, 3, axis=-1) if n == 1 else x
    options = {"dilation": dilation, "ceil_mode": ceil}
    ours = OURS["max"][n - 1]
    spans = [(m - 1) * dilation + 1 for m in size]
    if any(length + 2 * p < span for length, p, span in zip(x.shape[2:], padding, spans, strict=True)):
        with pytest.raises(ShapeError, match="a window covers"):  # with ceil_mode PyTorch lets it stick out
            ours(x, size, stride, padding, **options)
        return
    values, places = THEIRS["max"][n - 1](torch.tensor(x), size, stride, padding, **options, return_indices=True)
    if not np.isfinite(values.numpy()).all():  # PyTorch lets a window be padding throughout
        with pytest.raises(ShapeError, match="reads only the padding"):
            ours(x, size, stride, padding, **options)
        return
    agree(
        lambda x: ours(x, size, stride, padding, **options),
        lambda x: THEIRS["max"][n - 1](x, size, stride, padding, **options),
        x,
    )

    def both(x):
        return ours(x, size, stride, padding, **options, return_indices=True)

    for found in (both, ws.jit(both)):
        largest, at = found(x)
        np.testing.assert_array_equal(largest, values)
        np.testing.assert_array_equal(at, places)


def test_the_places_of_elements_that_are_infinite_are_theirs_and_nan_wins():
    x = np.full((1, 1, 4, 4), -np.inf)
    x[0, 0, 2, 3] = np.nan
    values, at = nn.max_pool2d(x, 3, 2, 1, return_indices=True)
    wanted, places = F.max_pool2d(torch.tensor(x), 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(at, places)
    # The gradient of a pool with places is that of the pool.
    y = RNG.normal(size=(2, 3, 7, 8))
    both = [
        ws.grad(f)(y)
        for f in (
            lambda y: np.sum(nn.max_pool2d(y, 3, 2, 1, return_indices=True)[0] ** 2),
            lambda y: np.sum(nn.max_pool2d(y, 3, 2, 1) ** 2),
        )
    ]
    np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("size", "stride", "padding"), [(2, None, 0), (3, 3, 1), (2, 3, 0)])
def test_the_way_back_from_a_max_pool(n, size, stride, padding):
    x = RNG.normal(size=(2, 3, *(9, 8, 7)[:n]))
    pool = THEIRS["max"][n - 1]
    values, at = pool(torch.tensor(x), size, stride, padding, return_indices=True)
    places, shape = at.numpy(), x.shape[2:]
    ours, theirs = UNPOOLS["ours"][n - 1], UNPOOLS["theirs"][n - 1]
    options = {"output_size": shape}
    agree(
        lambda v: ours(v, places, size, stride, padding, **options),
        lambda v: theirs(v, at, size, stride, padding, **options),
        values.numpy(),
        compiled=True,
    )
    layer = (nn.MaxUnpool1d, nn.MaxUnpool2d, nn.MaxUnpool3d)[n - 1](size, stride, padding)
    np.testing.assert_array_equal(
        layer(values.numpy(), places, shape), theirs(values, at, size, stride, padding, **options)
    )


@pytest.mark.parametrize(("size", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, None, 1)])
def test_the_least_size_that_there_can_have_been(size, stride, padding):
    x, at = RNG.normal(size=(1, 2, 3, 2)), np.arange(6).reshape(1, 1, 3, 2).repeat(2, axis=1)
    expected = F.max_unpool2d(torch.tensor(x), torch.tensor(at), size, stride, padding)
    np.testing.assert_array_equal(nn.max_unpool2d(x, at, size, stride, padding), expected)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("p", "size", "stride"), [(1, 2, None), (2, 3, 2), (3, 2, 1), (2.5, 2, 2)])
def test_pools_by_a_norm(n, p, size, stride):
    x = abs(RNG.normal(size=(2, 3, *(7, 8, 6)[:n])))
    ours, theirs = NORMS["ours"][n - 1], NORMS["theirs"][n - 1]
    agree(lambda x: ours(x, p, size, stride), lambda x: theirs(x, p, size, stride), x, compiled=True)
    np.testing.assert_array_equal(ours(-x, p, size, stride), ours(x, p, size, stride))
    layer = (nn.LpPool1d, nn.LpPool2d, nn.LpPool3d)[n - 1](p, size, stride)
    np.testing.assert_array_equal(layer(x), ours(x, p, size, stride))


def test_a_norm_of_nothing_has_no_gradient():
    x = np.zeros((1, 1, 4))
    assert nn.lp_pool1d(x, 3, 2).tolist() == [[[0.0, 0.0]]]
    assert not ws.grad(lambda x: np.sum(nn.lp_pool1d(x, 3, 2)))(x).any()


@settings(max_examples=40)
@given(pools(), st.booleans())
def test_mean_pools(pool, include):
    n, x, size, stride, padding, ceil = pool
    options = {"ceil_mode": ceil, "count_include_pad": include}
    ours, theirs = OURS["avg"][n - 1], THEIRS["avg"][n - 1]
    agree(lambda x: ours(x, size, stride, padding, **options), lambda x: theirs(x, size, stride, padding, **options), x)


def test_compiled():
    def both(library, max_pool, avg_pool, **more):
        return lambda x: [
            max_pool(x, 2),
            max_pool(x, 3, 2, 1),
            max_pool(x, 5, 1, 2),
            avg_pool(x, 3, 2, 1),
            avg_pool(x, 5, 2, 2, count_include_pad=False),
            library(x),
        ]

    def global_max(x):
        return x.amax((2, 3))

    agree(
        both(nn.global_max_pool, *[OURS[k][1] for k in OURS]),
        both(global_max, *[THEIRS[k][1] for k in THEIRS]),
        RNG.normal(size=(2, 3, 7, 8)),
        compiled=True,
    )


@pytest.mark.parametrize("size", [2, (4, 5), 6])
def test_the_first_of_equal_elements_takes_the_whole_gradient(size):
    """The first of equal elements in row-major order takes the gradient, also in a pool that goes axis by axis."""
    x = np.zeros((1, 1, 6, 6))
    gradient = ws.grad(lambda x: np.sum(nn.max_pool2d(x, size)))(x)[0, 0]
    rows, columns = (size, size) if isinstance(size, int) else size
    wanted = np.zeros((6, 6))
    wanted[: 6 - rows + 1 : rows, : 6 - columns + 1 : columns] = 1
    assert (gradient == wanted).all()
    first = np.zeros((6, 6))
    first[0, 0] = 1
    assert (ws.grad(lambda x: np.sum(nn.global_max_pool(x)))(x)[0, 0] == first).all()


@pytest.mark.parametrize(
    "pool", [lambda x: nn.max_pool2d(x, 5), lambda x: nn.adaptive_max_pool(x, 1), nn.global_max_pool]
)
def test_the_first_is_first_in_row_major_order(pool):
    x = np.zeros((1, 1, 5, 5))
    x[0, 0, 1, 3] = x[0, 0, 2, 0] = 1
    assert np.argwhere(ws.grad(lambda x: np.sum(pool(x)))(x)).tolist() == [[0, 0, 1, 3]]


def test_padding_is_minus_infinity_and_nan_wins():
    x = np.full((1, 1, 4, 4), -5.0)
    assert (nn.max_pool2d(x, 3, 1, 1) == -5).all()
    x[0, 0, 1, 2] = np.nan
    assert np.isnan(nn.max_pool2d(x, 2)).tolist() == [[[[False, True], [False, False]]]]


@pytest.mark.parametrize("size", [1, 3, (4, 5), (7, 6)])
def test_adaptive_pools(size):
    x = RNG.integers(-2, 3, (2, 3, 7, 8)).astype(float)
    agree(lambda x: nn.adaptive_avg_pool(x, size), lambda x: F.adaptive_avg_pool2d(x, size), x)
    agree(lambda x: nn.adaptive_max_pool(x, size), lambda x: F.adaptive_max_pool2d(x, size), x)
    agree(nn.AdaptiveAvgPool(2), lambda x: F.adaptive_avg_pool1d(x, 2), x[:, :, 0])
    agree(nn.AdaptiveMaxPool(2), lambda x: F.adaptive_max_pool1d(x, 2), x[:, :, 0])


def test_global_pools():
    x = RNG.normal(size=(2, 3, 4, 5))
    agree(nn.global_avg_pool, lambda x: x.mean((2, 3)), x)
    agree(nn.global_max_pool, lambda x: x.amax((2, 3)), x)


@pytest.mark.parametrize("padding", [0, 1])
def test_the_smooth_pool_by_its_formula(padding):
    x, beta = RNG.normal(size=(2, 3, 6, 6)), 1.7

    def theirs(x):
        total = F.avg_pool2d(torch.exp(beta * x), 2, 2, padding, count_include_pad=False)
        return torch.log(total) / beta

    agree(lambda x: nn.smooth_max_pool(x, 2, padding=padding, beta=beta), theirs, x, compiled=True)
    close([nn.smooth_max_pool(x, 3, beta=1e4)], [nn.max_pool2d(x, 3)], 1e-3)
    close([nn.smooth_max_pool(x, 3, beta=1e-7)], [nn.avg_pool2d(x, 3)], 1e-6)


def test_pool_layers():
    x = RNG.normal(size=(2, 3, 7, 8, 6))
    for here, there, n in [
        (nn.MaxPool1d(3, 2, 1), torch.nn.MaxPool1d(3, 2, 1), 1),
        (nn.MaxPool2d((2, 3)), torch.nn.MaxPool2d((2, 3)), 2),
        (nn.MaxPool3d(2, ceil_mode=True), torch.nn.MaxPool3d(2, ceil_mode=True), 3),
        (nn.AvgPool1d(3, 2, 1), torch.nn.AvgPool1d(3, 2, 1), 1),
        (
            nn.AvgPool2d(3, padding=1, count_include_pad=False),
            torch.nn.AvgPool2d(3, padding=1, count_include_pad=False),
            2,
        ),
        (nn.AvgPool3d(2), torch.nn.AvgPool3d(2), 3),
        (nn.Upsample(2), torch.nn.Upsample(scale_factor=2), 2),
        (nn.Upsample(size=(5, 9), mode="bilinear"), torch.nn.Upsample((5, 9), mode="bilinear"), 2),
    ]:
        agree(here, there, x[(..., *[0] * (3 - n))])
        assert not nn.named_parameters(here)


@pytest.mark.parametrize(
    ("mode", "n"), [("nearest", 1), ("nearest", 2), ("linear", 1), ("bilinear", 2), ("trilinear", 3)]
)
@pytest.mark.parametrize(
    "how",
    [{"scale": 1}, {"scale": 2}, {"scale": 3}, {"scale": 9}, {"scale": 1.7}, {"scale": 0.6}, {"size": 9}, {"size": 2}],
)
def test_upsampling(mode, n, how):
    x = RNG.normal(size=(2, 2, *range(4, 4 + n)))
    theirs = {"scale_factor": how["scale"]} if "scale" in how else {"size": (how["size"],) * n}
    agree(lambda x: nn.upsample(x, mode=mode, **how), lambda x: F.interpolate(x, mode=mode, **theirs), x)


def test_upsampling_between_what_is_not_finite():
    found = nn.upsample(np.array([[[1.0, np.inf, 2.0]]]), 3, mode="linear")[0, 0]
    np.testing.assert_array_equal(found, [1, 1, *[np.inf] * 5, 2, 2])


def test_upsampling_compiled():
    def ours(x):
        return nn.upsample(x, 2), nn.upsample(x, size=(5, 9)), nn.upsample(x, 2, mode="bilinear")

    def theirs(x):
        twice = {"scale_factor": 2}
        return F.interpolate(x, **twice), F.interpolate(x, (5, 9)), F.interpolate(x, **twice, mode="bilinear")

    agree(ours, theirs, RNG.normal(size=(2, 2, 4, 5)), compiled=True)


def test_pixels_and_channels():
    x = RNG.normal(size=(2, 12, 4, 6))
    agree(lambda x: nn.pixel_shuffle(x, 2), lambda x: F.pixel_shuffle(x, 2), x)
    agree(lambda x: nn.pixel_unshuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2), x)
    agree(lambda x: nn.channel_shuffle(x, 3), lambda x: torch.nn.ChannelShuffle(3)(x), x)


X = np.ones((2, 3, 6, 6), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.max_pool2d(X.astype(int), 2), DtypeError, "max_pool2d: x is i64.*not floating"),
        (lambda: nn.max_pool1d(X, 2), ShapeError, r"max_pool1d: x is f32\[2, 3, 6, 6\]"),
        (lambda: nn.max_pool2d(X, 7), ShapeError, r"a window covers \(7, 7\)"),
        (
            lambda: nn.max_pool2d(X, 2, padding=2),
            ParameterError,
            r"padding \(2, 2\) is more than half of a window of 2",
        ),
        (lambda: nn.avg_pool2d(X, 0), ParameterError, "size is 0"),
        (lambda: nn.smooth_max_pool(X, 2, beta=0), ParameterError, "beta is 0"),
        (lambda: nn.adaptive_avg_pool(X, 0), ParameterError, "size is 0"),
        (lambda: nn.adaptive_avg_pool(X[:, :, :0], 1), ShapeError, "with nothing to pool"),
        (lambda: nn.global_avg_pool(X[0, 0]), ShapeError, r"global_avg_pool: x is f32\[6, 6\]"),
        (lambda: nn.upsample(X), ParameterError, "give one of scale and size"),
        (lambda: nn.upsample(X, 2, size=3), ParameterError, "give one of scale and size"),
        (lambda: nn.upsample(X, 0.1), ParameterError, "leaves nothing"),
        (lambda: nn.upsample(X, -1), ParameterError, "scale is -1"),
        (lambda: nn.upsample(X, 2, mode="cubic"), ParameterError, "mode is 'cubic'"),
        (lambda: nn.upsample(X, 2, mode="linear"), ShapeError, "linear does not fit x"),
        (lambda: nn.pixel_shuffle(X, 2), ShapeError, r"2 \* 2 does not divide the 3 channels"),
        (lambda: nn.pixel_unshuffle(X, 4), ShapeError, "4 does not divide height and width"),
        (lambda: nn.pixel_shuffle(X, 0), ParameterError, "the factor is 0"),
        (lambda: nn.channel_shuffle(X, 2), ShapeError, "2 groups do not divide"),
        (lambda: nn.lp_pool2d(X, np.inf, 2), ParameterError, "p is inf; it must be positive and finite"),
        (lambda: nn.max_pool1d(X[0][..., :1], 2, 9, 2, dilation=4), ShapeError, "reads only the padding"),
        (lambda: nn.max_unpool2d(X, X, 2), DtypeError, "the indices are f32.*not integers"),
        (lambda: nn.max_unpool2d(X, np.zeros((2, 3, 6), int), 2), ShapeError, "x is f32.*and the indices i64"),
        (lambda: nn.max_unpool2d(X, np.full(X.shape, 144), 2), BoundsError, "144"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()

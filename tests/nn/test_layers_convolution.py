"""Convolutions, transposed and streaming ones, against PyTorch in random configurations."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.nn.beside_torch import agree, close, torch

import wholestep as ws
from wholestep import nn
from wholestep.errors import ParameterError, ShapeError

F = torch.nn.functional
RNG = np.random.default_rng(2)
OURS = {False: (nn.conv1d, nn.conv2d, nn.conv3d), True: (nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d)}
THEIRS = {False: (F.conv1d, F.conv2d, F.conv3d), True: (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)}


@st.composite
def configurations(draw, transposed):
    """A number of axes, arrays x, w and b, and options that fit them."""
    n = draw(st.integers(1, 3))
    each = st.integers
    size = [draw(each(1, 3)) for _ in range(n)]
    options = {
        "stride": tuple(draw(each(1, 3)) for _ in range(n)),
        "dilation": tuple(draw(each(1, 2)) for _ in range(n)),
        "padding": tuple(draw(each(0, 2)) for _ in range(n)),
        "groups": draw(st.sampled_from([1, 1, 2, 4])),
    }
    spans = [(m - 1) * d + 1 for m, d in zip(size, options["dilation"], strict=True)]
    lengths = [draw(each(max(s - 2 * p, 1), 6)) for s, p in zip(spans, options["padding"], strict=True)]
    if transposed:
        options["output_padding"] = tuple(
            draw(each(0, max(s, d) - 1)) for s, d in zip(options["stride"], options["dilation"], strict=True)
        )
        options["padding"] = tuple(min(p, (s - 1) // 2) for p, s in zip(options["padding"], spans, strict=True))
    groups = options["groups"]
    inputs, outputs = groups * draw(each(1, 2)), groups * draw(each(1, 2))
    shape = (inputs, outputs // groups, *size) if transposed else (outputs, inputs // groups, *size)
    x = RNG.normal(size=(draw(each(1, 2)), inputs, *lengths))
    bias = [RNG.normal(size=outputs)] if draw(st.booleans()) else []
    return n, [x, RNG.normal(size=shape), *bias], options


@pytest.mark.parametrize("transposed", [False, True])
def test_random_configurations(transposed):
    @settings(max_examples=30)
    @given(configurations(transposed))
    def check(configuration):
        n, arrays, options = configuration
        ours, theirs = OURS[transposed][n - 1], THEIRS[transposed][n - 1]
        agree(lambda *a: ours(*a, **options), lambda *a: theirs(*a, **options), *arrays)

    check()


@pytest.mark.parametrize(
    ("transposed", "groups", "options"),
    [
        (False, 1, {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}),
        (False, 2, {"padding": 1}),
        (False, 4, {"stride": 2}),
        (True, 1, {"stride": 2, "padding": 1, "output_padding": 1}),
        (True, 2, {"stride": (1, 2), "dilation": 2}),
    ],
)
def test_compiled(transposed, groups, options):
    shape = (4, 4 // groups, 3, 2)
    arrays = RNG.normal(size=(2, 4, 7, 6)), RNG.normal(size=shape), RNG.normal(size=4)
    options = {**options, "groups": groups}
    ours, theirs = OURS[transposed][1], THEIRS[transposed][1]
    agree(lambda *a: ours(*a, **options), lambda *a: theirs(*a, **options), *arrays, compiled=True)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_same_padding_is_that_of_torch(size, dilation):
    x, w = RNG.normal(size=(1, 2, 7, 8)), RNG.normal(size=(3, 2, size, size))
    options = {"padding": "same", "dilation": dilation}
    agree(lambda *a: nn.conv2d(*a, **options), lambda *a: F.conv2d(*a, **options), x, w)


@pytest.mark.parametrize("length", range(5, 10))
@pytest.mark.parametrize("stride", [2, 3])
def test_same_padding_with_a_stride_leaves_a_place_for_each_begun_step(length, stride):
    x, w = RNG.normal(size=(1, 1, length)), RNG.normal(size=(1, 1, 4))
    y = nn.conv1d(x, w, stride=stride, padding="same")
    total = max((y.shape[2] - 1) * stride + 4 - length, 0)
    assert y.shape[2] == -(-length // stride)
    close([y], [nn.conv1d(np.pad(x, ((0, 0), (0, 0), (total // 2, total - total // 2))), w, stride=stride)], 0)


def test_asymmetric_padding_and_its_spellings():
    x, w = RNG.normal(size=(2, 3, 5, 6)), RNG.normal(size=(4, 3, 2, 3))
    wide = np.pad(x, ((0, 0), (0, 0), (2, 0), (1, 3)))
    close([nn.conv2d(x, w, padding=[(2, 0), (1, 3)])], [nn.conv2d(wide, w)], 0)
    close(
        [nn.conv2d(x, w, padding="valid"), nn.conv2d(x, w, padding=1)],
        [nn.conv2d(x, w), nn.conv2d(x, w, padding=(1, 1))],
        0,
    )
    cut = nn.conv_transpose1d(x[:, :, 0], w[:3, :, 0].transpose(1, 0, 2), stride=2)
    close(
        [nn.conv_transpose1d(x[:, :, 0], w[:3, :, 0].transpose(1, 0, 2), stride=2, padding=[(3, 1)])],
        [cut[:, :, 3:-1]],
        1e-14,
    )


def test_a_transposed_convolution_is_the_pullback_of_the_convolution():
    x, w = RNG.normal(size=(2, 4, 9, 8)), RNG.normal(size=(6, 2, 3, 2))
    options = {"stride": (2, 3), "padding": 1, "dilation": (2, 1), "groups": 2}
    y, pullback = ws.vjp(lambda x: nn.conv2d(x, w, **options), x)
    gy = RNG.normal(size=y.shape)
    close([nn.conv_transpose2d(gy, w, **options, output_padding=(0, 2))], pullback(gy), 1e-12)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 3])
def test_chunks_are_the_whole_exactly(stride, dilation):
    """With integers in the arrays every sum is exact, so that equal means equal to the bit."""
    x, w = RNG.integers(-8, 8, (2, 4, 12)).astype(float), RNG.integers(-8, 8, (6, 2, 3)).astype(float)
    b, options = RNG.integers(-8, 8, 6).astype(float), {"stride": stride, "dilation": dilation, "groups": 2}
    whole = nn.causal_conv1d(x, w, b, **options)
    close(
        [whole],
        [
            F.conv1d(
                F.pad(*map(torch.tensor, [x]), (2 * dilation, 0)), torch.tensor(w), torch.tensor(b), **options
            ).numpy()
        ],
        0,
    )
    state, parts = nn.streaming_conv1d_init(2, w, dilation=dilation, groups=2), []
    for chunk in np.split(x, [2, 4, 10], axis=2):
        y, state = nn.streaming_conv1d(chunk, w, b, state=state, **options)
        parts.append(y)
    assert (np.concatenate(parts, axis=2) == whole).all()


def test_chunks_of_rows_are_the_whole_exactly():
    x, w = RNG.integers(-8, 8, (2, 3, 9, 5)).astype(float), RNG.integers(-8, 8, (4, 3, 3, 2)).astype(float)
    options = {"stride": (3, 2), "dilation": (2, 1)}
    whole = nn.conv2d(x, w, padding=[(4, 0), (1, 0)], **options)
    state, parts = nn.streaming_conv2d_init(2, w, 5, dilation=(2, 1)), []
    for chunk in np.split(x, [3, 6], axis=2):
        y, state = nn.streaming_conv2d(chunk, w, state=state, padding=[(1, 0)], **options)
        parts.append(y)
    assert (np.concatenate(parts, axis=2) == whole).all()


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (2, 3), (5, 1)])
def test_chunks_of_a_transposed_convolution_are_the_whole_exactly(stride, dilation):
    x, w = RNG.integers(-8, 8, (2, 4, 7)).astype(float), RNG.integers(-8, 8, (4, 3, 3)).astype(float)
    b, options = RNG.integers(-8, 8, 6).astype(float), {"stride": stride, "dilation": dilation, "groups": 2}
    whole = nn.conv_transpose1d(x, w, b, **options)
    state, parts = nn.streaming_conv_transpose1d_init(2, w, **options), []
    for chunk in np.split(x, [3, 4], axis=2):
        y, state = nn.streaming_conv_transpose1d(chunk, w, b, state=state, **options)
        parts.append(y)
    made = np.concatenate(parts, axis=2)
    assert made.shape[2] == 7 * stride
    n = min(made.shape[2], whole.shape[2])
    assert (made[:, :, :n] == whole[:, :, :n]).all() and (made[:, :, n:] == b[:, None]).all()


def test_a_stream_is_a_scan():
    x, w = RNG.normal(size=(1, 2, 12)), RNG.normal(size=(3, 2, 3))

    def streamed(x, w):
        chunks = np.moveaxis(x.reshape(1, 2, 4, 3), 2, 0)

        def step(state, chunk):
            y, state = nn.streaming_conv1d(chunk, w, state=state)
            return state, y

        ys = ws.scan(step, nn.streaming_conv1d_init(1, w), chunks)[1]
        return np.moveaxis(ys, 0, 2).reshape(1, 3, 12)

    agree(streamed, lambda x, w: F.conv1d(F.pad(x, (2, 0)), w), x, w, compiled=True)


LAYERS = [
    (nn.Conv1d, torch.nn.Conv1d, 1, {"stride": 2, "padding": 1}),
    (nn.Conv2d, torch.nn.Conv2d, 2, {"groups": 2, "bias": False}),
    (nn.Conv3d, torch.nn.Conv3d, 3, {"dilation": (1, 2, 1)}),
    (nn.ConvTranspose1d, torch.nn.ConvTranspose1d, 1, {"stride": 2, "output_padding": 1}),
    (nn.ConvTranspose2d, torch.nn.ConvTranspose2d, 2, {"groups": 2, "padding": 1}),
    (nn.ConvTranspose3d, torch.nn.ConvTranspose3d, 3, {"bias": False}),
]


@pytest.mark.parametrize(("ours", "theirs", "n", "options"), LAYERS, ids=lambda v: getattr(v, "__name__", ""))
def test_layers_are_those_of_torch(ours, theirs, n, options):
    there = theirs(4, 6, 3, **options, dtype=torch.float64)
    here = ours(4, 6, 3, key=0, dtype="float64", **options)
    assert here.weight.shape == tuple(there.weight.shape)
    bound = float(np.prod(here.weight.shape[1:])) ** -0.5
    for array in nn.named_parameters(here).values():
        assert 0.7 * bound < np.abs(array).max() <= bound
    here.weight = there.weight.detach().numpy()
    if there.bias is not None:
        here.bias = there.bias.detach().numpy()
    agree(here, there, RNG.normal(size=(2, 4, *[6] * n)))


X = np.ones((2, 3, 5, 5), np.float32)
W = np.ones((4, 3, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.conv2d(X[0], W), ShapeError, r"conv2d: x is f32\[3, 5, 5\], and its axes must be \[n, channels"),
        (lambda: nn.conv2d(X, W[0]), ShapeError, r"conv2d: the kernel is f32\[3, 3, 3\]; it must have 4 axes"),
        (lambda: nn.conv2d(X[:, :2], W), ShapeError, r"x is f32\[2, 2, 5, 5\], with 2 channels.*reads 3"),
        (lambda: nn.conv2d(X, W[:, :1], groups=3), ShapeError, "3 groups do not divide the 4 channels"),
        (lambda: nn.conv2d(X, W, groups=0), ParameterError, "groups is 0"),
        (lambda: nn.conv2d(X, W, groups=True), ParameterError, "groups is True"),
        (lambda: nn.conv2d(X, W, np.ones(3)), ShapeError, r"the bias is f64\[3\]; it must be \[4\]"),
        (lambda: nn.conv2d(X, W, stride=0), ParameterError, "stride is 0; it must be 2 integers, or one, of 1 or more"),
        (lambda: nn.conv2d(X, W, stride=(1, 2, 3)), ParameterError, r"stride is \(1, 2, 3\)"),
        (lambda: nn.conv2d(X, W, stride=1.5), ParameterError, "stride 1.5 is not made of integers"),
        (lambda: nn.conv2d(X, W, padding=-1), ParameterError, "padding is -1"),
        (lambda: nn.conv2d(X, W, padding="full"), ParameterError, "padding is 'full'"),
        (lambda: nn.conv2d(X, W, padding=[(1, 1)]), ParameterError, "it must be 2 pairs"),
        (lambda: nn.conv2d(X, W, dilation=3), ShapeError, r"a window covers \(7, 7\), more than f32"),
        (lambda: nn.conv_transpose2d(X, W), ShapeError, "with 3 channels.*reads 4"),
        (lambda: nn.conv_transpose2d(X, W[:3], output_padding=1), ParameterError, "output_padding 1 must be smaller"),
        (lambda: nn.conv_transpose2d(X, W[:3], padding="same"), ParameterError, "takes integers or pairs"),
        (lambda: nn.conv_transpose2d(X, W[:3], groups=2), ShapeError, "2 groups do not divide the 3 channels"),
        (lambda: nn.conv_transpose2d(X[:, :, :1, :1], W[:3], padding=2), ShapeError, "the padding cuts off all"),
        (lambda: nn.streaming_conv1d(X[0], W[0], state=np.zeros((3, 3, 2))), ShapeError, "5 channels"),
        (lambda: nn.streaming_conv1d(X[0], W[0], state=np.zeros((3, 5, 1))), ShapeError, "the state must be"),
        (
            lambda: nn.streaming_conv1d(X[:, 0], W[0], state=np.zeros((2, 5, 2)), stride=2),
            ShapeError,
            "a stride of 2 does not divide a chunk of 5",
        ),
        (lambda: nn.Conv2d(3, 4, 3, key=0, groups=2), ParameterError, "2 groups do not divide 3 and 4 channels"),
        (lambda: nn.Conv2d(3, 0, 3, key=0), ParameterError, "outputs is 0; it must be a positive integer"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()

"""Layers and functions of PyTorch's longer tail beside PyTorch's own."""

import numpy as np
import pytest
from tests.nn.beside_torch import agree, close, torch

import wholestep as ws
from wholestep import nn
from wholestep.errors import BoundsError, ParameterError, ShapeError

F = torch.nn.functional
RNG = np.random.default_rng(8)


def test_patches():
    x, columns = RNG.normal(size=(2, 3, 6, 7)), RNG.normal(size=(2, 18, 15))
    options = {"stride": 2, "padding": (1, 2), "dilation": (1, 2)}
    agree(lambda x: nn.unfold(x, (2, 3), **options), lambda x: F.unfold(x, (2, 3), **options), x, compiled=True)
    size = F.unfold(torch.tensor(x), (2, 3), **options).shape
    columns = RNG.normal(size=tuple(size))
    agree(
        lambda c: nn.fold(c, (6, 7), (2, 3), **options),
        lambda c: F.fold(c, (6, 7), (2, 3), **options),
        columns,
        compiled=True,
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("outside", ["zeros", "border"])
@pytest.mark.parametrize("align", [False, True])
def test_sampled_grids(mode, outside, align):
    x, theta = RNG.normal(size=(2, 3, 5, 6)), RNG.normal(size=(2, 2, 3)) * 0.6

    def theirs(x, theta):
        grid = F.affine_grid(theta, (2, 3, 4, 7), align_corners=align)
        return F.grid_sample(x, grid, mode=mode, padding_mode=outside, align_corners=align)

    def ours(x, theta):
        grid = nn.affine_grid(theta, (4, 7), align_corners=align)
        return nn.grid_sample(x, grid, mode=mode, outside=outside, align_corners=align)

    agree(ours, theirs, x, theta)


@pytest.mark.parametrize("mode", ["bicubic", "area"])
@pytest.mark.parametrize("size", [(3, 4), (5, 6), (8, 13)])
def test_modes_of_resampling(mode, size):
    x = RNG.normal(size=(2, 3, 5, 6))
    options = {"align_corners": False} if mode == "bicubic" else {}
    agree(
        lambda x: nn.upsample(x, size=size, mode=mode),
        lambda x: F.interpolate(x, size=size, mode=mode, **options),
        x,
        compiled=True,
    )


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_modes(mode):
    layer = nn.Conv2d(3, 4, 3, key=0, padding=2, stride=2, padding_mode=mode)
    there = torch.nn.Conv2d(3, 4, 3, padding=2, stride=2, padding_mode=mode)
    there.load_state_dict({name: torch.tensor(np.asarray(v)) for name, v in nn.to_torch(layer).items()})
    x = RNG.normal(size=(2, 3, 6, 7)).astype(np.float32)
    np.testing.assert_allclose(layer(x), there(torch.tensor(x)).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_local_response_norm(size):
    x = RNG.normal(size=(2, 6, 4))
    agree(
        lambda x: nn.local_response_norm(x, size, alpha=0.5, beta=0.7, k=1.2),
        lambda x: F.local_response_norm(x, size, alpha=0.5, beta=0.7, k=1.2),
        x,
        compiled=True,
    )


def test_forms_distances_and_lengths():
    x, y, w, b = (RNG.normal(size=s) for s in ((4, 3), (4, 2), (5, 3, 2), (5,)))
    agree(nn.bilinear, F.bilinear, x, y, w, b, compiled=True)
    agree(nn.l2_normalize, lambda x: F.normalize(x, dim=-1), x, compiled=True)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_distances(p):
    x, y = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(5, 3))
    agree(lambda x, y: nn.pairwise_distances(x, y, p=p), lambda x, y: torch.cdist(x, y, p), x, y)


def test_activations():
    x = RNG.normal(size=(3, 4)) * 5
    agree(nn.log_sigmoid, F.logsigmoid, x, compiled=True)
    agree(nn.squareplus, lambda x: (x + (x * x + 4).sqrt()) / 2, x, compiled=True)


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags(mode):
    table, ids = RNG.normal(size=(7, 3)), RNG.integers(0, 7, size=(5, 4))
    agree(
        lambda table: nn.embedding_bag(table, ids, mode=mode, padding_idx=1),
        lambda table: F.embedding_bag(torch.tensor(ids), table, mode=mode, padding_idx=1),
        table,
        compiled=True,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_pairs(reduction):
    x, y = RNG.normal(size=(2, 5, 4))
    sign, ones = RNG.choice([-1, 1], size=(5, 4)), RNG.integers(0, 2, size=(5, 4))
    s, t = torch.tensor(sign), torch.tensor(ones).double()
    pairs = {
        "ranking": (
            lambda x, y: nn.margin_ranking(x, y, sign, margin=0.2, reduction=reduction),
            lambda x, y: F.margin_ranking_loss(x, y, s, margin=0.2, reduction=reduction),
        ),
        "embedding": (
            lambda x, y: nn.hinge_embedding(x, sign, margin=0.5, reduction=reduction),
            lambda x, y: F.hinge_embedding_loss(x, s, margin=0.5, reduction=reduction),
        ),
        "soft": (
            lambda x, y: nn.soft_margin(x, sign, reduction=reduction),
            lambda x, y: F.soft_margin_loss(x, s, reduction=reduction),
        ),
        "several labels": (
            lambda x, y: nn.multilabel_soft_margin(x, ones, reduction=reduction),
            lambda x, y: F.multilabel_soft_margin_loss(x, t, reduction=reduction),
        ),
    }
    for ours, theirs in pairs.values():
        agree(ours, theirs, x, y, compiled=True)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder_layer_with_the_tensors_of_torch(norm_first):
    there = torch.nn.TransformerDecoderLayer(
        12, 3, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first
    )
    block = nn.TransformerDecoderBlock(12, 3, key=0, hidden=24, norm_first=norm_first)
    block = nn.from_torch(block, there.state_dict())
    x, context = RNG.normal(size=(2, 5, 12)).astype(np.float32), RNG.normal(size=(2, 7, 12)).astype(np.float32)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    expected = there(torch.tensor(x), torch.tensor(context), tgt_mask=causal, tgt_is_causal=True)
    np.testing.assert_allclose(block(x, context), expected.detach().numpy(), atol=2e-5)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_transformer_with_the_tensors_of_torch(norm_first):
    there = torch.nn.Transformer(12, 3, 2, 3, 24, dropout=0.0, batch_first=True, norm_first=norm_first)
    model = nn.Transformer(12, 3, key=0, encoder_layers=2, decoder_layers=3, hidden=24, norm_first=norm_first)
    model = nn.from_torch(model, there)
    x, y = RNG.normal(size=(2, 7, 12)).astype(np.float32), RNG.normal(size=(2, 5, 12)).astype(np.float32)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    expected = there(torch.tensor(x), torch.tensor(y), tgt_mask=causal, tgt_is_causal=True).detach().numpy()
    np.testing.assert_allclose(model(x, y), expected, atol=2e-5)
    np.testing.assert_allclose(model.decode(y, model.encode(x)), expected, atol=2e-5)


def test_a_batch_norm_over_a_named_axis_is_that_of_the_whole_batch():
    x, weights = RNG.normal(size=(3, 4, 2, 5)), RNG.normal(size=(3, 4, 2, 5))

    def normed(x, axis_name=None):
        norm = nn.BatchNorm(2, axis_name=axis_name, dtype=np.float64)
        return norm(x), norm.mean, norm.var

    def apart(x):
        made, means, variances = ws.vmap(lambda x: normed(x, "i"), axis_name="i")(x)
        return np.sum(made * weights), (made, means[0], variances[0])

    def whole(x):
        made, mean, var = normed(x.reshape(12, 2, 5))
        return np.sum(made.reshape(x.shape) * weights), (made.reshape(x.shape), mean, var)

    (_, ours), slope = ws.value_and_grad(apart, has_aux=True)(x)
    (_, wanted), expected = ws.value_and_grad(whole, has_aux=True)(x)
    close([*ours, slope], [*wanted, expected], 1e-12)


@pytest.mark.parametrize("make", [lambda t: t.Linear(5, 3), lambda t: t.Conv2d(2, 3, 3)])
def test_weight_norm(make):
    there = torch.nn.utils.parametrizations.weight_norm(make(torch.nn), dim=0)
    layer = nn.Linear(5, 3, key=0) if isinstance(there, torch.nn.Linear) else nn.Conv2d(2, 3, 3, key=0)
    weight = there.parametrizations.weight.original1.detach().numpy()
    turned = weight.T if weight.ndim == 2 else weight
    normed = nn.WeightNorm(layer)
    normed.direction, normed.layer.bias = np.array(turned), there.bias.detach().numpy()
    gain = RNG.normal(size=there.parametrizations.weight.original0.shape).astype(np.float32)
    there.parametrizations.weight.original0.data = torch.tensor(gain)
    normed.gain = gain.reshape(np.shape(normed.gain))
    x = RNG.normal(size=(4, 5) if weight.ndim == 2 else (4, 2, 5, 5)).astype(np.float32)
    np.testing.assert_allclose(normed(x), there(torch.tensor(x)).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("way", ["matrix_exp", "cayley", "householder"])
def test_an_orthogonal_weight_is_that_of_torch(sizes, way):
    there = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(*sizes).double(), orthogonal_map=way)
    original = there.parametrizations.weight.original
    if way == "householder":  # the diagonal holds signs there, which are no numbers to train
        turned = torch.tensor(np.sign(RNG.normal(size=min(sizes))))
        original.data = torch.tensor(RNG.normal(size=sizes[::-1])).fill_diagonal_(0)
        original.data[range(min(sizes)), range(min(sizes))] = turned
    else:
        original.data = torch.tensor(RNG.normal(size=sizes[::-1]))
    here = nn.from_torch(nn.Orthogonal(nn.Linear(*sizes, key=0, dtype=np.float64), map=way), there.state_dict())
    np.testing.assert_allclose(here.orthonormal(), there.weight.detach().numpy(), atol=1e-12)
    x, weights = RNG.normal(size=(7, sizes[0])), RNG.normal(size=(7, sizes[1]))
    made = there(torch.tensor(x))
    np.testing.assert_allclose(here(x), made.detach().numpy(), atol=1e-12)
    (made * torch.tensor(weights)).sum().backward()
    slope = ws.grad(lambda layer: np.sum(layer(x) * weights))(here)
    np.testing.assert_allclose(slope.raw.T, original.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(slope.layer.bias, there.bias.grad.numpy(), atol=1e-12)


def test_the_usual_map_is_that_of_torch():
    for sizes in ((5, 3), (4, 4)):
        there = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(*sizes))
        assert nn.Orthogonal(nn.Linear(*sizes, key=0)).map == there.parametrizations.weight[0].orthogonal_map.name


@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_softmax_with_the_tensors_of_torch(bias):
    there = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 50, [8, 20, 35], 2.0, bias).double()
    here = nn.AdaptiveLogSoftmax(16, 50, [8, 20, 35], key=0, shrink=2.0, head_bias=bias, dtype=np.float64)
    here = nn.from_torch(here, there.state_dict())
    x, labels = RNG.normal(size=(40, 16)), RNG.integers(0, 50, 40)
    expected = there(torch.tensor(x), torch.tensor(labels))
    np.testing.assert_allclose(here(x, labels), expected.output.detach(), rtol=1e-10)
    np.testing.assert_allclose(-here(x, labels).mean(), expected.loss.item(), rtol=1e-12)
    np.testing.assert_allclose(here.log_probs(x), there.log_prob(torch.tensor(x)).detach(), rtol=1e-10)
    np.testing.assert_array_equal(here.predict(x), there.predict(torch.tensor(x)))
    expected.loss.backward()
    gradient = ws.grad(lambda layer: -np.mean(layer(x, labels)))(here)
    for name, wanted in there.named_parameters():
        np.testing.assert_allclose(nn.to_torch(gradient)[name], wanted.grad, atol=1e-12, err_msg=name)


def test_adaptive_softmax_refuses_what_is_no_label_and_no_cutoff():
    layer = nn.AdaptiveLogSoftmax(8, 20, [5, 12], key=0, shrink=2.0)
    x = np.ones((2, 8), np.float32)
    for labels in ([0, 20], [-1, 3]):
        for f in (layer, ws.jit(layer)):
            with pytest.raises(BoundsError, match="AdaptiveLogSoftmax: label"):
                f(x, np.array(labels))
    for cutoffs in ([], [5, 5], [20], [0, 3], [2.5]):
        with pytest.raises(ParameterError, match="cutoffs are"):
            nn.AdaptiveLogSoftmax(8, 20, cutoffs, key=0)
    with pytest.raises(ParameterError, match="cluster 1 would have no numbers"):
        nn.AdaptiveLogSoftmax(8, 20, [5, 12], key=0, shrink=8.0)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_the_margins_of_several_labels(reduction):
    scores = RNG.normal(size=(6, 5))
    flags = np.array([[1, 0, 0, 1, 0], [0] * 5, [1] * 5, [0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 1, 0, 0, 1]])
    labels = np.full((6, 5), -1)
    for row, flag in zip(labels, flags, strict=True):
        row[: flag.sum()] = np.flatnonzero(flag)
    agree(
        lambda x: nn.multilabel_margin(x, flags, reduction=reduction),
        lambda x: F.multilabel_margin_loss(x, torch.tensor(labels), reduction=reduction),
        scores,
        compiled=True,
    )


def test_a_randomized_leaky_relu_beside_torch():
    x = RNG.normal(size=(5, 4000))
    there = torch.nn.RReLU(0.1, 0.4)
    layer = nn.RReLU(0.1, 0.4)
    agree(layer.eval(), there.eval(), x)
    drawn = layer.train()(x, key=3)
    slopes = (drawn / x)[x < 0]
    np.testing.assert_array_equal(drawn[x > 0], x[x > 0])
    assert 0.1 <= slopes.min() and slopes.max() <= 0.4 and abs(slopes.mean() - 0.25) < 0.003
    assert abs(slopes.std() - 0.3 / 12**0.5) < 0.003
    slope = ws.grad(lambda x: np.sum(layer(x, key=3)))(x)
    np.testing.assert_allclose(slope * x, drawn, rtol=1e-6)
    with pytest.raises(ParameterError, match="rrelu: no key"):
        layer(x)
    with pytest.raises(ParameterError, match="are not in order"):
        nn.RReLU(0.5, 0.1)


@pytest.mark.parametrize(("size", "counts"), [(2, (4, 5)), ((3, 2), (6, 1)), (1, (9, 8)), (2, (8, 7))])
def test_a_fractional_pool_at_the_draws_of_torch(size, counts):
    x, draws = RNG.normal(size=(2, 3, 9, 8)), RNG.uniform(size=(2, 3, 2))
    given = torch.tensor(draws[:, :, ::-1].copy())  # PyTorch has the draws of columns first
    agree(
        lambda x: nn.fractional_max_pool2d(x, size, counts, draws=draws),
        lambda x: F.fractional_max_pool2d(x, size, counts, _random_samples=given),
        x,
    )
    found = nn.FractionalMaxPool2d(size, output_size=counts)(x, key=1)
    assert found.shape == (2, 3, *counts) and np.isin(found, x).all()


@pytest.mark.parametrize(("size", "counts"), [(2, (4, 5, 2)), ((3, 2, 1), (6, 1, 4)), (1, (8, 7, 4))])
def test_a_fractional_pool_of_volumes_at_the_draws_of_torch(size, counts):
    x, draws = RNG.normal(size=(2, 3, 9, 8, 5)), RNG.uniform(size=(2, 3, 3))
    given = torch.tensor(draws)
    agree(
        lambda x: nn.fractional_max_pool3d(x, size, counts, draws=draws),
        lambda x: F.fractional_max_pool3d(x, size, counts, _random_samples=given),
        x,
    )
    found = nn.FractionalMaxPool3d(size, output_size=counts)(x, key=1)
    assert found.shape == (2, 3, *counts) and np.isin(found, x).all()
    assert nn.FractionalMaxPool3d(2, output_ratio=0.5)(x, key=1).shape == (2, 3, 4, 4, 2)


def test_fractional_pools_that_cannot_be_are_refused():
    x = np.ones((1, 1, 4, 4))
    with pytest.raises(ShapeError, match="4 windows of 2 do not fit 4"):
        nn.fractional_max_pool2d(x, 2, 4, ws.random.key(0))
    with pytest.raises(ParameterError, match="no key"):
        nn.fractional_max_pool2d(x, 2, 2)
    with pytest.raises(ParameterError, match="FractionalMaxPool2d: output_ratio"):
        nn.FractionalMaxPool2d(2, output_ratio=1.5)
    with pytest.raises(ParameterError, match="FractionalMaxPool3d: output_ratio"):
        nn.FractionalMaxPool3d(2, output_ratio=0.0)
    with pytest.raises(ShapeError, match=r"fractional_max_pool3d: .*channels, depth, height, width"):
        nn.fractional_max_pool3d(x, 2, 2, ws.random.key(0))

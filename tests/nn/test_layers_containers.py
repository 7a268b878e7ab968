"""Dense layers, containers, embeddings, dropout and initial values."""

import numpy as np
import pytest
from tests.nn.beside_torch import agree, close, torch

import wholestep as ws
from wholestep import nn
from wholestep.errors import BoundsError, DtypeError, ParameterError, ShapeError

F = torch.nn.functional
RNG = np.random.default_rng(7)


def test_linear_is_that_of_torch():
    x, w, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=5)
    agree(nn.linear, lambda x, w, b: F.linear(x, w.T, b), x, w, b, compiled=True)
    assert nn.Linear(3, 2, key=0, bias=False).bias is None


def test_the_same_key_gives_the_same_parameters():
    one, two, other = (nn.named_parameters(nn.MLP([3, 4, 2], key=k)) for k in (5, ws.random.key(5), 6))
    assert all((one[name] == two[name]).all() and (one[name] != other[name]).any() for name in one)
    assert list(one) == ["layers[0].weight", "layers[0].bias", "layers[1].weight", "layers[1].bias"]
    values = np.concatenate([v.reshape(-1) for v in one.values()])
    assert len(set(values.tolist())) == values.size


def test_sequential_gives_each_part_that_draws_its_own_key():
    x = np.ones(64, np.float32)
    model = nn.Sequential(nn.Dropout(0.5), lambda x: x + 0, nn.Sequential(nn.Dropout(0.5), np.abs))
    y = model(x, key=3)
    assert set(y.tolist()) == {0.0, 2.0, 4.0} - {2.0} and (y == model(x, key=3)).all() and (y != model(x, key=4)).any()
    with pytest.raises(ParameterError, match=r"dropout: no key to draw from\n.*\n  hint: pass key=ws.random.key"):
        model(x)
    assert (model.eval()(x) == x).all() and model.training
    assert isinstance(model[:2], nn.Sequential) and len(model[:2]) == 2 and next(iter(model)) is model[0]


def test_plain_parts():
    x = RNG.normal(size=(2, 3, 4))
    assert nn.Identity()(x) is x and nn.Lambda(np.add)(1, 2) == 3
    assert (
        nn.Flatten(0)(x).shape == (24,) and nn.Flatten()(x).shape == (2, 12) and nn.Flatten(3)(x).shape == (2, 3, 4, 1)
    )


def test_an_mlp_trains_compiled():
    x = RNG.normal(size=(64, 3)).astype(np.float32)
    batch = {"x": x, "y": np.sin(x.sum(1, keepdims=True))}
    model = nn.MLP([3, 32, 1], key=0, dropout=0.1, activation=nn.tanh)

    def loss(model, batch, *, key):
        return np.mean((model(batch["x"], key=key) - batch["y"]) ** 2)

    step = ws.compile(loss, model, optimizer=ws.optim.adam(1e-2), batch=batch)
    losses = [step(batch).loss for _ in range(60)]
    assert losses[-1] < 0.3 * losses[0]


def test_a_small_convolutional_net_compiled():
    """Every kind of layer of an image classifier in one program, beside torch's gradients."""
    here = nn.Sequential(
        nn.Conv2d(1, 4, 3, key=0, padding=1),
        nn.BatchNorm(4),
        nn.relu,
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 2, key=1),
    )
    there = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(36, 2),
    )  # fmt: skip
    with torch.no_grad():
        for ours, theirs in zip(nn.named_parameters(here).values(), there.parameters(), strict=True):
            theirs.copy_(torch.tensor(ours.T if ours.shape != tuple(theirs.shape) else ours))
    x = RNG.normal(size=(5, 1, 6, 6)).astype(np.float32)
    there(torch.tensor(x)).square().sum().backward()
    gradient = ws.jit(ws.grad(lambda model, x: np.sum(model(x) ** 2)))(here, x)
    for ours, theirs in zip(nn.named_parameters(gradient).values(), there.parameters(), strict=True):
        g = theirs.grad.numpy()
        close([ours], [g.T if g.shape != ours.shape else g], 1e-5)


def test_embeddings_are_those_of_torch():
    table, ids = RNG.normal(size=(6, 3)), np.array([[0, 5, 2], [2, 2, 1]])
    for padding in (None, 2, -4):
        agree(
            lambda t, p=padding: nn.embedding(t, ids, p),
            lambda t, p=padding: F.embedding(torch.tensor(ids), t, p),
            table,
            compiled=padding == 2,
        )
    assert ws.grad(lambda t: np.sum(nn.embedding(t, np.array([-4, 2, 1]), 2)))(table)[2].tolist() == [0, 0, 0]


def test_an_id_outside_of_the_table_is_an_error_everywhere():
    layer = nn.Embedding(6, 3, key=0, padding_idx=-1)
    assert (layer.weight[5] == 0).all() and (layer.weight[:5] != 0).all()
    for f in (layer, ws.jit(lambda i: layer(i)), lambda i: ws.jit(lambda m, i: m(i))(layer, i)):
        assert (f(np.array([[1]])) == layer.weight[1]).all()
        with pytest.raises(IndexError):
            f(np.array([0, 6]))


def test_a_tied_head_sums_both_gradients():
    layer, ids = nn.Embedding(6, 3, key=0, dtype="float64"), np.array([0, 5, 2])

    def theirs(t):
        return F.embedding(torch.tensor(ids), t) @ t.T

    def ours(t):
        layer_ = nn.Embedding(6, 3, key=0, dtype="float64")
        layer_.weight = t
        return layer_.attend(layer_(ids))

    agree(ours, theirs, layer.weight)


@pytest.mark.parametrize("layer", [nn.Dropout, nn.ChannelDropout])
def test_dropout_keeps_the_mean_and_its_share(layer):
    x = np.ones((40, 50, 4), np.float32)
    y = layer(0.3)(x, key=ws.random.key(1))
    kept = np.float32(1) * np.float32(1 / 0.7)
    assert set(y.reshape(-1).tolist()) == {0.0, float(kept)} and abs((y == 0).mean() - 0.3) < 0.03
    assert y.dtype == np.float32 and (layer is nn.Dropout) == (y != y[:, :, :1]).any()
    assert (ws.jit(lambda x, key: layer(0.3)(x, key=key))(x, ws.random.key(1)) == y).all()


def test_dropout_at_its_ends():
    x = np.full(5, np.inf)
    assert (nn.dropout(x, 1.0, 0) == 0).all() and nn.dropout(x, 0, None) is x and nn.Dropout(0)(x) is x
    gradient = ws.grad(lambda x: np.sum(nn.dropout(x, 0.5, 3)))(np.ones(100))
    assert (gradient == nn.dropout(np.ones(100), 0.5, 3)).all()


INIT = nn.init
SHAPES = {"io": (300, 200), "oi": (60, 40, 3, 5)}


@pytest.mark.parametrize("layout", SHAPES)
def test_initial_values_have_the_variance_they_should(layout):
    shape = SHAPES[layout]
    inputs, outputs = {"io": (300, 200), "oi": (600, 900)}[layout]
    assert INIT.fans(shape) == INIT.fans(shape, layout) == (inputs, outputs)
    assert torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape if layout == "oi" else shape[::-1])) == (
        inputs,
        outputs,
    )
    variances = {
        INIT.xavier_uniform: 2 / (inputs + outputs),
        INIT.xavier_normal: 2 / (inputs + outputs),
        INIT.lecun_uniform: 1 / inputs,
        INIT.lecun_normal: 1 / inputs,
    }
    for f, variance in variances.items():
        assert f(0, shape).var() == pytest.approx(variance, rel=0.03) and f(0, shape).dtype == np.float32
    for f in (INIT.kaiming_uniform, INIT.kaiming_normal):
        assert f(0, shape, nonlinearity="relu").var() == pytest.approx(2 / inputs, rel=0.03)
        assert f(0, shape, nonlinearity="linear", mode="fan_out").var() == pytest.approx(1 / outputs, rel=0.03)
        assert f(0, shape, a=3.0).var() == pytest.approx(0.2 / inputs, rel=0.03)


@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
def test_variance_scaling_has_the_variance_of_its_mode(distribution):
    for mode, fan in (("fan_in", 300), ("fan_out", 200), ("fan_avg", 250)):
        w = INIT.variance_scaling(0, (300, 200), 3.0, mode=mode, distribution=distribution)
        assert w.var() == pytest.approx(3 / fan, rel=0.03) and w.dtype == np.float32
    for wrong in ({"mode": "fan"}, {"distribution": "cauchy"}, {"scale": 0.0}):
        with pytest.raises(ws.errors.ParameterError, match="variance_scaling"):
            INIT.variance_scaling(0, (3, 2), **wrong)


def test_a_delta_orthogonal_convolution_keeps_lengths():
    w = INIT.delta_orthogonal(1, (6, 4, 3, 3), dtype="float64")
    x = np.random.default_rng(0).normal(size=(2, 4, 5, 5))
    y = ws.nn.conv2d(x, w, padding="same")
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), np.linalg.norm(x, axis=1))
    for shape in ((3, 4, 3), (4, 3)):
        with pytest.raises(ws.errors.ShapeError, match="delta_orthogonal"):
            INIT.delta_orthogonal(0, shape)


def test_gains_are_those_of_torch():
    for name in ("linear", "sigmoid", "tanh", "relu", "selu"):
        assert INIT.gain_of(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert INIT.gain_of("leaky_relu", 0.3) == pytest.approx(torch.nn.init.calculate_gain("leaky_relu", 0.3))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3), (4, 4)])
def test_orthogonal(shape):
    w = INIT.orthogonal(1, shape, 2.0, dtype="float64").reshape(shape[0], -1)
    close([w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w], [4 * np.eye(min(w.shape))], 1e-12)


def test_plain_initial_values():
    assert INIT.zeros((2,)).tolist() == [0, 0] and INIT.ones((2,), "float64").dtype == np.float64
    assert INIT.constant((2,), 3.5).tolist() == [3.5, 3.5]
    drawn = INIT.truncated_normal(0, (5000,), std=0.5, mean=3.0)
    assert drawn.min() >= 2 and drawn.max() <= 4 and drawn.std() == pytest.approx(0.44, rel=0.03)
    assert 2 <= INIT.uniform(0, (100,), 2, 3).min() and INIT.normal(0, (9,), dtype="float64").dtype == np.float64


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: nn.linear(np.ones(3), np.ones((2, 4))),
            ShapeError,
            r"linear: x is f64\[3\] and the weight f64\[2, 4\]",
        ),
        (
            lambda: nn.linear(np.ones(2), np.ones((2, 4)), np.ones(1)),
            ShapeError,
            r"the bias is f64\[1\]; it must be \[4\]",
        ),
        (lambda: nn.Linear(0, 2, key=0), ParameterError, "inputs is 0; it must be a positive integer"),
        (lambda: nn.Linear(2.0, 2, key=0), ParameterError, "inputs is 2.0"),
        (lambda: nn.MLP([3], key=0), ParameterError, r"sizes are \[3\]"),
        (lambda: nn.Sequential(nn.relu, 3), ParameterError, "Sequential: 3 cannot be called"),
        (lambda: nn.Flatten(3)(np.ones(2)), ShapeError, "with no axis 3"),
        (lambda: nn.embedding(np.ones((2, 3)), np.array([0.0])), DtypeError, "ids are of dtype float64, not integer"),
        (lambda: nn.embedding(np.ones(2), np.array([0])), ShapeError, r"it must be \[count, width\]"),
        (
            lambda: nn.embedding(np.ones((2, 3)), np.array([0]), 2),
            BoundsError,
            "padding_idx 2 is outside of the 2 rows",
        ),
        (lambda: nn.Embedding(2, 3, key=0, padding_idx=5), BoundsError, "padding_idx 5"),
        (lambda: nn.Dropout(1.5), ParameterError, "Dropout: p is 1.5"),
        (lambda: nn.dropout(np.ones(2), True, 0), DtypeError, "p is a bool"),
        (lambda: nn.dropout(np.ones(2), 0.5, None), ParameterError, "no key to draw from"),
        (lambda: INIT.fans((3,)), ShapeError, "has no fan-in"),
        (lambda: INIT.fans((3, 4, 5), "io"), ShapeError, "in layout io"),
        (lambda: INIT.fans((3, 4), "hwio"), ParameterError, "layout is 'hwio'"),
        (lambda: INIT.kaiming_normal(0, (3, 4), mode="fan"), ParameterError, "mode is 'fan'"),
        (lambda: INIT.gain_of("sin"), ParameterError, "'sin' has no gain"),
        (lambda: INIT.orthogonal(0, (3,)), ShapeError, "less than two axes"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("make", [INIT.zeros, INIT.ones, lambda shape: INIT.constant(shape, 1.0), INIT.fans])
@pytest.mark.parametrize("shape", ["ab", 2.5, (2, "a"), None])
def test_a_shape_that_is_none_is_an_error_with_a_way_out(make, shape):
    with pytest.raises(ShapeError, match="is not made of integers") as caught:
        make(shape)
    assert "(2, 3)" in str(caught.value)

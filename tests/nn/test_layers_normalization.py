"""Normalizations against PyTorch, and the running statistics of batch norm."""

import numpy as np
import pytest
from tests.nn.beside_torch import agree, close, torch

import wholestep as ws
from wholestep import nn
from wholestep.errors import DtypeError, ParameterError, ShapeError

F = torch.nn.functional
RNG = np.random.default_rng(4)
X, GAIN, BIAS = RNG.normal(size=(3, 4, 5, 6)) * 2 + 1, RNG.normal(size=4), RNG.normal(size=4)
LAST = RNG.normal(size=(2, 5, 6))


def normed(library, x, gain, bias, *last):
    """Every norm with a gain and a bias, in either library."""
    if library is torch:
        return (
            F.layer_norm(x, (5, 6), last[0], last[1], 1e-3),
            F.rms_norm(x, (5, 6), last[0], 1e-3),
            F.batch_norm(x, None, None, gain, bias, training=True, eps=1e-3),
            F.group_norm(x, 2, gain, bias, 1e-3),
            F.instance_norm(x, weight=gain, bias=bias, eps=1e-3),
        )
    return (
        nn.layer_norm(x, last[0], last[1], 1e-3),
        nn.rms_norm(x, last[0], 1e-3),
        nn.batch_norm(x, gain, bias, eps=1e-3),
        nn.group_norm(x, 2, gain, bias, 1e-3),
        nn.instance_norm(x, gain, bias, 1e-3),
    )


def test_values_and_gradients_are_those_of_torch():
    agree(lambda *a: normed(nn, *a), lambda *a: normed(torch, *a), X, GAIN, BIAS, *LAST, compiled=True)


def test_without_gain_and_bias():
    agree(
        lambda x: (nn.layer_norm(x), nn.rms_norm(x), nn.batch_norm(x), nn.group_norm(x, 4), nn.instance_norm(x)),
        lambda x: (
            F.layer_norm(x, (6,)),
            F.rms_norm(x, (6,), eps=1e-5),
            F.batch_norm(x, None, None, training=True),
            F.group_norm(x, 4),
            F.instance_norm(x),
        ),
        X,
    )


def test_epsilon_is_inside_the_root():
    close(
        [nn.layer_norm(np.zeros((1, 3))), nn.layer_norm(np.array([[-1.0, 1.0]]), eps=3.0)],
        [np.zeros((1, 3)), np.array([[-0.5, 0.5]])],
        1e-12,
    )


@pytest.mark.parametrize("shape", [(8, 4), (3, 4, 5), (2, 4, 3, 3), (2, 4, 2, 2, 2)])
def test_batch_norm_remembers_what_torch_remembers(shape):
    """Results in training, running statistics with the unbiased variance, and results in evaluation."""
    there = [None, None, torch.nn.BatchNorm1d, torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d]
    there, here = (
        there[len(shape)](4, momentum=0.3, dtype=torch.float64),
        nn.BatchNorm(4, momentum=0.3, dtype="float64"),
    )
    for _ in range(3):
        x = RNG.normal(size=shape) * 3 + 2
        close([here(x)], [there(torch.tensor(x)).detach().numpy()], 1e-12)
    close([here.mean, here.var], [there.running_mean.numpy(), there.running_var.numpy()], 1e-12)
    agree(here.eval(), there.eval(), RNG.normal(size=shape))
    assert list(nn.named_parameters(here)) == ["gain", "bias"]


def test_batch_norm_of_one_number_each():
    norm = nn.BatchNorm(3)
    assert (norm(np.ones((1, 3), np.float32)) == 0).all()
    close([norm.mean, norm.var], [np.full(3, 0.1), np.full(3, 0.9)], 1e-7)


def test_batch_norm_in_a_compiled_step():
    """Buffers that the forward pass assigns are carried by the step without a gradient, and equal the eager ones."""
    x, y = RNG.normal(size=(8, 3)).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32)

    def model():
        return nn.Sequential(nn.Linear(3, 4, key=0), nn.BatchNorm(4), nn.relu, nn.Linear(4, 2, key=1))

    def loss(model, batch):
        return np.mean((model(batch["x"]) - batch["y"]) ** 2)

    step = ws.compile(loss, model(), optimizer=ws.optim.sgd(0.1), batch={"x": x, "y": y})
    eager, losses = model(), []
    for _ in range(3):
        losses.append(step({"x": x, "y": y}).loss)
        gradient = ws.grad(loss)(eager, {"x": x, "y": y})
        eager(x)
        for name, part in enumerate(gradient.layers):
            for field in nn.named_parameters(part) if isinstance(part, nn.Module) else ():
                setattr(eager[name], field, getattr(eager[name], field) - 0.1 * getattr(part, field))
    assert losses[2] < losses[0]
    close(
        [step.model[1].mean, step.model[1].var, step.model[0].weight],
        [eager[1].mean, eager[1].var, eager[0].weight],
        1e-5,
    )


def test_layers_are_those_of_torch():
    for here, there in [
        (nn.LayerNorm((5, 6), dtype="float64"), torch.nn.LayerNorm((5, 6), dtype=torch.float64)),
        (nn.LayerNorm(6, bias=False, dtype="float64"), torch.nn.LayerNorm(6, bias=False, dtype=torch.float64)),
        (nn.RMSNorm(6, dtype="float64"), torch.nn.RMSNorm(6, eps=1e-5, dtype=torch.float64)),
        (nn.GroupNorm(2, 4, dtype="float64"), torch.nn.GroupNorm(2, 4, dtype=torch.float64)),
        (
            nn.InstanceNorm(4, affine=True, dtype="float64"),
            torch.nn.InstanceNorm2d(4, affine=True, dtype=torch.float64),
        ),
    ]:
        agree(here, there, X)
        assert set(nn.decay_flags(here).values()) == {False}


def test_half_precision_is_computed_in_single():
    x = (RNG.normal(size=(2, 64)) + 300).astype(np.float16)
    close([nn.layer_norm(x).astype(float)], [nn.layer_norm(x.astype(np.float64))], 2e-3)
    assert ws.jit(nn.layer_norm)(x).dtype == nn.layer_norm(x, np.ones(64, np.float16)).dtype == np.float16


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.layer_norm(X, np.ones(5)), ShapeError, r"layer_norm: gain and bias of shapes \[\(5,\)\] for x f64"),
        (lambda: nn.layer_norm(X, np.ones(6), np.ones(5)), ShapeError, "layer_norm: gain and bias"),
        (lambda: nn.layer_norm(X.astype(int)), DtypeError, "layer_norm: x is i64.*not floating"),
        (lambda: nn.layer_norm(X, eps=-1.0), ParameterError, "eps is -1.0"),
        (lambda: nn.batch_norm(X, np.ones(3)), ShapeError, r"batch_norm: gain is f64\[3\].*it must be \[4\]"),
        (lambda: nn.batch_norm(X, mean=np.ones(4)), ParameterError, "one of mean and var without the other"),
        (lambda: nn.group_norm(X, 3), ShapeError, "3 groups do not divide the 4 channels"),
        (lambda: nn.instance_norm(X[:, :, 0, 0]), ShapeError, "it must have 3 axes or more"),
        (lambda: nn.GroupNorm(3, 4), ParameterError, "3 groups do not divide 4 channels"),
        (lambda: nn.BatchNorm(4, momentum=2), ParameterError, "momentum is 2"),
        (lambda: nn.BatchNorm(3)(X), ShapeError, "axis 1 must be the 3 channels"),
        (lambda: nn.LayerNorm(0), ParameterError, "size 0 is 0"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()

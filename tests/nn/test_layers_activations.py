"""Activations, gates and softmax against PyTorch, at points, at kinks and in every dtype."""

import numpy as np
import pytest
from tests.nn.beside_torch import agree, close, torch

import wholestep as ws
from wholestep import nn
from wholestep.errors import DtypeError, ParameterError, ShapeError

F = torch.nn.functional
RNG = np.random.default_rng(1)
X = np.concatenate([RNG.normal(size=40) * 3, [30.0, -30.0, 0.1, -0.1]]).reshape(2, 22)
PAIRS = {
    "relu": (nn.relu, F.relu),
    "relu6": (lambda x: nn.relu6(3 * x), lambda x: F.relu6(3 * x)),
    "leaky_relu": (lambda x: nn.leaky_relu(x, 0.2), lambda x: F.leaky_relu(x, 0.2)),
    "elu": (lambda x: nn.elu(x, 1.5), lambda x: F.elu(x, 1.5)),
    "selu": (nn.selu, F.selu),
    "celu": (lambda x: nn.celu(x, 0.75), lambda x: F.celu(x, 0.75)),
    "gelu": (nn.gelu, F.gelu),
    "gelu tanh": (lambda x: nn.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "silu": (nn.silu, F.silu),
    "mish": (nn.mish, F.mish),
    "softplus": (lambda x: nn.softplus(x, 2.0), lambda x: F.softplus(x, 2.0, threshold=1000)),
    "softsign": (nn.softsign, F.softsign),
    "sigmoid": (nn.sigmoid, torch.sigmoid),
    "tanh": (nn.tanh, torch.tanh),
    "hardsigmoid": (nn.hardsigmoid, lambda x: F.relu6(x + 3) / 6),
    "hardswish": (nn.hardswish, F.hardswish),
    "hardtanh": (lambda x: nn.hardtanh(x, -0.5, 2), lambda x: F.hardtanh(x, -0.5, 2)),
    "tanhshrink": (nn.tanhshrink, F.tanhshrink),
    "softshrink": (lambda x: nn.softshrink(x, 0.3), lambda x: F.softshrink(x, 0.3)),
    "hardshrink": (lambda x: nn.hardshrink(x, 0.3), lambda x: F.hardshrink(x, 0.3)),
    "threshold": (lambda x: nn.threshold(x, 0.4, -7), lambda x: F.threshold(x, 0.4, -7)),
    "glu": (lambda x: nn.glu(x, 0), lambda x: F.glu(x, 0)),
    "geglu": (nn.geglu, lambda x: x[:, :11] * F.gelu(x[:, 11:])),
    "swiglu": (nn.swiglu, lambda x: x[:, :11] * F.silu(x[:, 11:])),
    "gated_act": (nn.gated_act, lambda x: torch.tanh(x[:, :11]) * torch.sigmoid(x[:, 11:])),
    "softmax": (lambda x: nn.softmax(x, 0), lambda x: F.softmax(x, 0)),
    "log_softmax": (nn.log_softmax, lambda x: F.log_softmax(x, -1)),
    "logsumexp": (lambda x: nn.logsumexp(x, (0, 1), keepdims=True), lambda x: torch.logsumexp(x, (0, 1), keepdim=True)),
    "logmeanexp": (lambda x: nn.logmeanexp(x, 0), lambda x: torch.logsumexp(x, 0) - np.log(2)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_gradients_are_those_of_torch(name):
    agree(*PAIRS[name], X)


def test_all_of_them_in_one_compiled_program():
    ours, theirs = zip(*PAIRS.values(), strict=True)
    agree(lambda x: [f(x) for f in ours], lambda x: [f(x) for f in theirs], X, compiled=True)


@pytest.mark.parametrize("shape", [(1,), (3,)])
def test_prelu(shape):
    agree(nn.prelu, F.prelu, RNG.normal(size=(2, 3, 4)), RNG.normal(size=shape))
    with pytest.raises(ShapeError, match=r"prelu: slopes of shape \(4,\) for x of shape \(2, 3\)"):
        nn.prelu(np.ones((2, 3)), np.ones(4))


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "softshrink", "hardshrink", "leaky_relu", "elu", "selu"])
def test_derivatives_at_kinks_are_those_of_torch(name):
    ours, theirs = PAIRS[name]
    agree(ours, theirs, np.array([0.0, -0.0, 2.0, -0.5, 0.3, -0.3]))


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "elu", "softplus", "silu", "hardshrink", "threshold"])
def test_nan_stays_nan(name):
    with np.errstate(invalid="ignore"):
        assert np.isnan(PAIRS[name][0](np.array([np.nan]))).all()


def test_nothing_overflows():
    x = np.array([-1e4, 1e4], np.float32)
    for name in ("elu", "selu", "celu", "mish", "silu", "softplus", "sigmoid", "gelu", "softmax", "log_softmax"):
        value, gradient = PAIRS[name][0](x), ws.grad(lambda x, f=PAIRS[name][0]: np.sum(f(x)))(x)
        assert np.isfinite(value).all() and np.isfinite(gradient).all(), name


@pytest.mark.parametrize("compiled", [False, True])
def test_probabilities_that_are_all_zero_have_a_slope(compiled):
    slope = ws.value_and_grad(lambda x: np.sum(nn.logsumexp(x)[1:]) + 2 * np.exp(nn.logsumexp(x))[0])
    value, found = (ws.jit(slope) if compiled else slope)(np.array([[-np.inf, -np.inf], [0.0, -np.inf]]))
    assert value == 0
    np.testing.assert_array_equal(found, [[0, 0], [1, 0]])


@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_logmeanexp_is_the_logarithm_of_the_mean(axis):
    for keepdims in (False, True):
        found, expected = nn.logmeanexp(X, axis, keepdims=keepdims), np.log(np.mean(np.exp(X), axis, keepdims=keepdims))
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert nn.logmeanexp(np.array([1e4, 1e4])) == 1e4 and nn.logmeanexp(np.array([-np.inf, -np.inf])) == -np.inf


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("traced", [False, True])
def test_the_dtype_stays(dtype, traced):
    x = X[:, :20].astype(ws.dtypes.check(dtype))

    def everything(x):
        return {name: f(x) for name, (f, _) in PAIRS.items()}

    found = (ws.jit(everything) if traced else everything)(x)
    assert {name: y.dtype.name for name, y in found.items()} == dict.fromkeys(PAIRS, dtype)


def test_one_hot():
    ids = np.array([[0, 2], [-1, 1]])
    assert (nn.one_hot(ids, 3) == np.eye(3)[ids]).all() and nn.one_hot(ids, 3, "int32").dtype == np.int32
    for f in (lambda i: nn.one_hot(i, 3), ws.jit(lambda i: nn.one_hot(i, 3))):
        with pytest.raises(IndexError):
            f(np.array([3]))
    with pytest.raises(DtypeError, match="one_hot: ids are of dtype float64"):
        nn.one_hot(np.ones(2), 3)


def test_safe_roots_and_logarithms_have_finite_derivatives():
    x = np.array([-1.0, 0.0, 1e-320, 4.0])
    close([nn.safe_sqrt(x), nn.safe_log(x)[3:]], [np.sqrt(np.maximum(x, 0)), np.log(x[3:])], 1e-12)
    assert ws.grad(lambda x: np.sum(nn.safe_sqrt(x)))(x)[[0, 1, 3]].tolist() == [0, 0, 0.25]
    assert ws.grad(lambda x: np.sum(nn.safe_log(x)))(x).tolist() == [0, 0, 0, 0.25]
    assert np.isnan(nn.safe_sqrt(np.nan)) and np.isnan(nn.safe_log(np.nan))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.gelu(X, "erf"), ParameterError, "gelu: approximate is 'erf'"),
        (lambda: nn.hardtanh(X, 1, 1), ParameterError, "hardtanh: the bounds 1 and 1 are equal"),
        (lambda: nn.softplus(X, 0), ParameterError, "softplus: beta is 0"),
        (lambda: nn.celu(X, 0), ParameterError, "celu: alpha is 0"),
        (lambda: nn.glu(X[:, :3]), ShapeError, "glu: axis -1 of shape .2, 3. has no two halves"),
        (lambda: nn.swiglu(X, 2), ShapeError, "swiglu: axis 2"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()

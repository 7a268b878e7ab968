"""Weights of PyTorch's layers become ours and come back, name by name and bit by bit."""

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy as outside

from wholestep import nn
from wholestep.errors import CheckpointError, ParameterError

RNG = np.random.default_rng(5)


def block(key):
    return nn.TransformerBlock(8, 2, hidden=12, key=key)


LAYERS = {
    "Linear": lambda k: nn.Linear(3, 2, key=k),
    "LoRA": lambda k: nn.LoRA(nn.Linear(3, 4, key=k), 2, key=k + 1),
    "Int8Linear": lambda k: nn.Int8Linear(nn.Linear(3, 4, key=k)),
    "Linear without bias": lambda k: nn.Linear(3, 3, key=k, bias=False),
    "Embedding": lambda k: nn.Embedding(5, 3, key=k),
    "EmbeddingBag": lambda k: nn.EmbeddingBag(5, 3, key=k),
    "Bilinear": lambda k: nn.Bilinear(2, 3, 4, key=k),
    "WeightNorm": lambda k: nn.WeightNorm(nn.Conv1d(2, 3, 2, key=k)),
    "Orthogonal": lambda k: nn.Orthogonal(nn.Linear(2, 3, key=k)),
    "SpectralNorm": lambda k: nn.SpectralNorm(nn.Linear(2, 3, key=k), key=k),
    "Conv1d": lambda k: nn.Conv1d(4, 2, 3, key=k, groups=2),
    "Conv2d": lambda k: nn.Conv2d(4, 2, 3, key=k),
    "Conv3d": lambda k: nn.Conv3d(2, 2, 2, key=k),
    "ConvTranspose1d": lambda k: nn.ConvTranspose1d(2, 3, 2, key=k),
    "ConvTranspose2d": lambda k: nn.ConvTranspose2d(2, 3, 2, key=k),
    "ConvTranspose3d": lambda k: nn.ConvTranspose3d(2, 3, 2, key=k),
    "AdaptiveLogSoftmax": lambda k: nn.AdaptiveLogSoftmax(8, 20, [5, 12], key=k, shrink=2.0, head_bias=True),
    "LayerNorm": lambda k: nn.LayerNorm(4),
    "RMSNorm": lambda k: nn.RMSNorm(4),
    "BatchNorm": lambda k: nn.BatchNorm(4),
    "GroupNorm": lambda k: nn.GroupNorm(2, 4),
    "InstanceNorm": lambda k: nn.InstanceNorm(4, affine=True),
    "MultiHeadAttention": lambda k: nn.MultiHeadAttention(8, 2, key=k),
    "attention to a context": lambda k: nn.MultiHeadAttention(8, 2, key=k, context=8),
    "RNNCell": lambda k: nn.RNNCell(3, 4, key=k),
    "GRUCell": lambda k: nn.GRUCell(3, 4, key=k),
    "LSTMCell": lambda k: nn.LSTMCell(3, 4, key=k),
    "RNN": lambda k: nn.RNN(3, 4, key=k, layers=2, bidirectional=True),
    "GRU": lambda k: nn.GRU(3, 4, key=k, layers=2),
    "LSTM": lambda k: nn.LSTM(3, 4, key=k, bidirectional=True),
    "FeedForward": lambda k: nn.FeedForward(8, 12, key=k),
    "TransformerBlock": block,
    "TransformerDecoderBlock": lambda k: nn.TransformerDecoderBlock(8, 2, key=k),
    "Transformer": lambda k: nn.Transformer(8, 2, key=k, encoder_layers=2, decoder_layers=3),
    "MLP": lambda k: nn.MLP([3, 4, 2], key=k),
    "Sequential": lambda k: nn.Sequential(nn.Linear(3, 4, key=k), nn.relu, nn.BatchNorm(4), nn.Linear(4, 1, key=k + 1)),
    "Stack": lambda k: nn.Stack(lambda key: block(key), 3, key=k),
    "Stack of stacks": lambda k: nn.Stack(
        lambda key: nn.Stack(lambda key: nn.Linear(3, 3, key=key), 2, key=key), 3, key=k
    ),
}


def filled(model):
    """The model with noise in every array, norms and statistics among them."""
    parts = nn.split(model)
    return nn.join(model, *[{p: RNG.normal(size=x.shape).astype(x.dtype) for p, x in part.items()} for part in parts])


def same(a, b):
    for x, y in zip(nn.split(a), nn.split(b), strict=True):
        assert x.keys() == y.keys()
        for path in x:
            assert x[path].dtype == y[path].dtype and x[path].tobytes() == y[path].tobytes(), path


def test_every_layer_with_arrays_is_tried():
    made = {type(make(0)).__name__ for make in LAYERS.values()}
    public = {name for name, x in vars(nn.public).items() if isinstance(x, type) and issubclass(x, nn.Module)}
    assert not {name for name in public - made if nn.split(bare(name))[0]}


def bare(name):
    """A layer made with the fewest arguments that its class takes."""
    more = ((2, 2), {}) if name.startswith("LpPool") else ((2,), {"key": 0})
    for args, named in (((), {}), ((2,), {}), ((nn.relu,), {}), more):
        try:
            return getattr(nn, name)(*args, **named)
        except (TypeError, ParameterError):
            continue
    raise AssertionError(name)


@pytest.mark.parametrize("kind", LAYERS)
def test_what_goes_to_torch_comes_back(kind, tmp_path):
    model = filled(LAYERS[kind](0))
    weights = nn.to_torch(model)
    same(nn.from_torch(LAYERS[kind](7), weights), model)
    outside.save_file(weights, tmp_path / "a.safetensors")
    same(nn.from_torch(lambda: LAYERS[kind](7), tmp_path / "a.safetensors"), model)


NAMES = {
    "Linear": ["weight", "bias"],
    "BatchNorm": ["weight", "bias", "running_mean", "running_var"],
    "MultiHeadAttention": ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"],
    "attention to a context": ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"],
    "GRU": [f"{x}_l{i}" for i in range(2) for x in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")],
    "Sequential": ["0.weight", "0.bias", "2.weight", "2.running_var", "3.weight", "3.bias"],
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_and_layouts_are_those_of_torch(kind):
    weights = nn.to_torch(LAYERS[kind](0))
    assert set(NAMES[kind]) <= set(weights)
    assert nn.to_torch(LAYERS["Linear"](0))["weight"].shape == (2, 3)
    assert nn.to_torch(LAYERS["attention to a context"](0))["in_proj_weight"].shape == (24, 8)
    assert "2.self_attn.in_proj_weight" in nn.to_torch(LAYERS["Stack"](0))


class Tied(nn.Module):
    def __init__(self, key):
        self.embedding = nn.Embedding(5, 3, key=key)
        self.head = nn.tied(self.embedding.weight)
        self.steps = {"a.b": nn.Linear(3, 3, key=key), "{}": [nn.Linear(2, 3, key=key)]}
        self.mask = nn.frozen(np.arange(3))


def test_tied_arrays_have_every_name_and_need_one():
    model = filled_but(Tied(0))
    weights = nn.to_torch(model)
    assert weights["head"].tobytes() == weights["embedding.weight"].tobytes()
    assert {"steps.a.b.weight", "steps.{}.0.bias", "mask"} <= weights.keys()
    same(nn.from_torch(Tied(1), weights), model)
    del weights["embedding.weight"]
    same(nn.from_torch(Tied(1), weights), model)


def filled_but(model):
    return nn.join(model, {p: RNG.normal(size=x.shape).astype(x.dtype) for p, x in nn.split(model)[0].items()})


def test_what_does_not_fit_is_listed_parameters_first():
    model = LAYERS["Sequential"](0)
    weights = nn.to_torch(model)
    del weights["3.bias"], weights["2.running_var"]
    weights |= {"0.weight": np.zeros((4, 5), np.float32), "more": np.zeros(1, np.float32), "2.num_batches_tracked": 3}
    with pytest.raises(CheckpointError) as found:
        nn.from_torch(model, weights)
    message = str(found.value).splitlines()[0]
    assert message == (
        "from_torch: missing 3.bias, 2.running_var; of another type: 0.weight becomes f32[5, 4], and layers[0].weight "
        "is f32[3, 4]; unexpected more"
    )
    weights["0.weight"] = np.zeros((4, 3), np.float32)
    made = nn.from_torch(model, weights, strict=False)
    assert not made.layers[0].weight.any() and made.layers[3].bias.tobytes() == model.layers[3].bias.tobytes()


@pytest.mark.parametrize(
    "wrong", [np.float32(0), np.zeros((), np.float32), np.zeros((24, 8, 1), np.float32), np.zeros(0)]
)
def test_tensors_of_any_shape_are_compared(wrong):
    for kind in ("MultiHeadAttention", "attention to a context", "Stack"):
        weights = nn.to_torch(LAYERS[kind](0))
        name = next(name for name in weights if name.endswith("in_proj_weight"))
        with pytest.raises(CheckpointError, match="of another type"):
            nn.from_torch(LAYERS[kind](0), weights | {name: wrong})


def test_names_and_dtypes_are_changed_when_asked():
    model = filled(nn.Linear(3, 2, key=0))
    weights = {f"module.{name}": x for name, x in nn.to_torch(model).items()}
    same(nn.from_torch(nn.Linear(3, 2, key=1), weights, rename=lambda name: name.removeprefix("module.")), model)
    weights = {name: x.astype(np.float64) for name, x in nn.to_torch(model).items()}
    with pytest.raises(CheckpointError, match=r"weight becomes f64\[3, 2\].*f32\[3, 2\](.|\n)*cast=True"):
        nn.from_torch(model, weights)
    same(nn.from_torch(nn.Linear(3, 2, key=1), weights, cast=True), model)


class Tensor:
    """A stand-in for a tensor of PyTorch: it must be detached, and half precision cannot become an array."""

    def __init__(self, x, detached=False):
        self.x, self.detached = x, detached

    def detach(self):
        return Tensor(self.x, True)

    def float(self):
        return Tensor(self.x.astype(np.float32), self.detached)

    def __array__(self, dtype=None, copy=None):
        assert self.detached
        if self.x.dtype == ml_dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.x


def test_tensors_need_not_be_arrays():
    model = filled(nn.Linear(3, 2, key=0))
    weights = {name: Tensor(x) for name, x in nn.to_torch(model).items()}
    same(nn.from_torch(nn.Linear(3, 2, key=1), weights), model)
    half = {name: Tensor(x.astype(ml_dtypes.bfloat16)) for name, x in nn.to_torch(model).items()}
    rounded = model.weight.astype(ml_dtypes.bfloat16)
    made = nn.from_torch(nn.Linear(3, 2, key=1, dtype="bfloat16"), half, cast=True)
    assert made.weight.tobytes() == rounded.tobytes()


def test_what_holds_no_weights_is_refused(tmp_path):
    model = nn.Linear(3, 2, key=0)
    with pytest.raises(ParameterError, match="weights are a list"):
        nn.from_torch(model, [1, 2])
    with pytest.raises(ParameterError, match="weight is a str, which holds no numbers"):
        nn.from_torch(model, {"weight": "x"})
    with pytest.raises(CheckpointError, match="is a pickle, which can run anything"):
        nn.from_torch(model, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="No such file"):
        nn.from_torch(model, tmp_path / "model.safetensors")


def pairs(torch):
    """Pairs of one layer here and in PyTorch, with an argument for both."""
    t, x = torch.nn, RNG.normal
    yield nn.Linear(3, 2, key=0), t.Linear(3, 2), x(size=(4, 3))
    yield nn.Embedding(5, 3, key=0), t.Embedding(5, 3), np.arange(5)
    yield nn.Conv2d(4, 2, 3, key=0, groups=2), t.Conv2d(4, 2, 3, groups=2), x(size=(2, 4, 5, 5))
    yield nn.ConvTranspose2d(2, 3, 2, key=0, stride=2), t.ConvTranspose2d(2, 3, 2, stride=2), x(size=(2, 2, 4, 4))
    yield nn.LayerNorm(4), t.LayerNorm(4), x(size=(3, 4))
    yield nn.RMSNorm(4, eps=1e-6), t.RMSNorm(4, eps=1e-6), x(size=(3, 4))
    yield nn.BatchNorm(4).eval(), t.BatchNorm2d(4), x(size=(3, 4, 2, 2))
    yield nn.GroupNorm(2, 4), t.GroupNorm(2, 4), x(size=(3, 4, 5))
    yield (
        nn.GRU(3, 4, key=0, layers=2, bidirectional=True),
        t.GRU(3, 4, 2, batch_first=True, bidirectional=True),
        x(size=(2, 5, 3)),
    )
    yield nn.LSTM(3, 4, key=0), t.LSTM(3, 4, batch_first=True), x(size=(2, 5, 3))
    yield (
        nn.TransformerBlock(8, 2, hidden=12, key=0, norm_first=True),
        t.TransformerEncoderLayer(8, 2, 12, 0.0, activation="gelu", batch_first=True, norm_first=True),
        x(size=(2, 5, 8)),
    )
    layers = [
        t.TransformerEncoderLayer(8, 2, 12, 0.0, activation="gelu", batch_first=True, norm_first=True) for _ in range(3)
    ]
    yield (
        nn.Stack(lambda key: nn.TransformerBlock(8, 2, hidden=12, key=key), 3, key=0),
        t.Sequential(*layers),
        x(size=(2, 5, 8)),
    )
    yield (
        nn.Sequential(
            nn.Conv2d(1, 3, 3, key=0), nn.BatchNorm(3), nn.relu, nn.Flatten(), nn.Linear(27, 2, key=1)
        ).eval(),
        t.Sequential(t.Conv2d(1, 3, 3), t.BatchNorm2d(3), t.ReLU(), t.Flatten(), t.Linear(27, 2)),
        x(size=(2, 1, 5, 5)),
    )


def test_models_of_torch_give_the_same_values():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    for ours, there, x in pairs(torch):
        x = x if x.dtype == np.int64 else x.astype(np.float32)
        with torch.no_grad():
            for name, tensor in there.state_dict().items():
                if tensor.dtype == torch.float32:
                    tensor.copy_(torch.rand(tensor.shape) + ("var" in name))
            there.eval()
            made = nn.from_torch(ours, there)
            wanted = there(torch.from_numpy(x))
            state = {name: torch.from_numpy(a) for name, a in nn.to_torch(made).items()}
            assert all(torch.equal(state[name], y) for name, y in there.state_dict().items() if name in state)
            there.load_state_dict(state)
        found = made(x)
        found, wanted = [y[0] if isinstance(y, tuple) else y for y in (found, wanted)]
        np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-5, atol=2e-5, err_msg=type(ours).__name__)


def test_names_are_turned_by_a_function_or_a_dictionary():
    weights = {"weight": np.ones((2, 3), np.float32), "bias": np.ones(2, np.float32)}
    with pytest.raises(CheckpointError, match="rename is an int, not a function of names"):
        nn.from_torch(nn.Linear(3, 2, key=1), weights, rename=3)

"""Weights in int8: the stated rounding, blocks that give the same numbers, memory, files, and LoRA on top."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.nn import int8

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("bias", [True, False])
def test_each_weight_is_rounded_to_a_127th_of_the_largest_of_its_output(bias):
    layer = nn.Linear(6, 4, key=0, bias=bias)
    layer.weight[:, 2] = 0
    small = nn.Int8Linear(layer)
    dense = small.dense()
    step = np.abs(layer.weight).max(axis=0) / 127
    assert np.all(np.abs(dense.weight - layer.weight) <= step / 2 + 1e-7)
    assert np.array_equal(np.abs(small.weight).max(axis=1), [127, 127, 0, 127])
    np.testing.assert_allclose(dense.weight.T, small.weight * small.scale[:, None], rtol=1e-7)
    x = drawn(5, 6)
    bound = np.abs(x).sum(axis=1, keepdims=True) * step / 2
    assert np.all(np.abs(small(x) - layer(x)) <= bound + 1e-6)
    np.testing.assert_allclose(small(x), dense(x), atol=1e-6)


@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 5, 6)])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7])
def test_blocks_of_outputs_do_not_show(shape, rows, monkeypatch):
    small, x = nn.Int8Linear(nn.Linear(6, 7, key=0)), drawn(*shape)
    weight = small.weight * small.scale[:, None]
    monkeypatch.setattr(int8, "BLOCK", 6 * rows)
    for f in (small, ws.jit(small)):
        np.testing.assert_allclose(f(x), x @ weight.T + small.bias, atol=1e-5)
    got = ws.grad(lambda x: np.sum(np.sin(small(x))))(x)
    np.testing.assert_allclose(got, np.cos(x @ weight.T + small.bias) @ weight, atol=1e-5)


def test_results_are_those_of_pytorch_by_the_same_formula():
    torch = pytest.importorskip("torch")
    layer, x = nn.Linear(64, 32, key=0), drawn(9, 64)
    weight = torch.from_numpy(np.ascontiguousarray(layer.weight.T))
    scale = weight.abs().amax(1) / 127
    rounded = (weight / scale[:, None]).round().to(torch.int8)
    wanted = torch.nn.functional.linear(
        torch.from_numpy(x), rounded.float() * scale[:, None], torch.from_numpy(np.asarray(layer.bias))
    )
    small = nn.Int8Linear(layer)
    assert np.array_equal(small.weight, rounded.numpy())
    np.testing.assert_allclose(small(x), wanted.numpy(), atol=1e-5)


def test_a_step_holds_a_quarter_of_the_weights_and_never_all_of_them_wide():
    model = nn.to_int8(nn.Sequential(nn.Linear(1024, 1024, key=0), nn.Linear(1024, 1024, key=1)))
    adapted = nn.Sequential(*[nn.LoRA(layer, 2, key=i) for i, layer in enumerate(model.layers)])
    x = drawn(4, 1024)
    step = ws.compile(lambda m, x: np.mean(m(x) ** 2), adapted, optimizer=ws.optim.sgd(0.1), batch=x)
    assert step.memory.state < 1.1 * 2 * 1024 * 1024
    assert step.memory.arena < 4 * 1024 * 1024 / 2


def test_adaptation_trains_and_leaves_the_integers_as_they_are():
    layer, x = nn.Int8Linear(nn.Linear(6, 4, key=0)), drawn(32, 6)
    wanted = x @ (layer.dense().weight + np.outer(drawn(6), drawn(4)))
    model = nn.LoRA(layer, 2, key=1)
    assert sorted(nn.named_parameters(model)) == ["down", "up"]
    step = ws.compile(lambda m, x: nn.mse(m(x), wanted), model, optimizer=ws.optim.adamw(3e-2), batch=x)
    losses = [float(step(x).loss) for _ in range(200)]
    assert losses[-1] < 0.3 * losses[0]
    assert np.array_equal(step.model.layer.weight, layer.weight)
    np.testing.assert_allclose(step.model.merged()(x), step.model(x), atol=1e-5)


def test_a_model_in_int8_goes_through_a_file(tmp_path):
    model = nn.models.GPT2(50, 16, 8, 2, 2, key=0)
    small = nn.to_int8(model)
    nn.save(small, tmp_path / "small.safetensors")
    again = nn.load(nn.to_int8(nn.models.GPT2(50, 16, 8, 2, 2, key=1)), tmp_path / "small.safetensors")
    tokens = np.array([[1, 2, 3]])
    assert again.blocks[0].attention.qkv.weight.dtype == np.int8
    assert np.array_equal(again(tokens), small(tokens))
    assert np.abs(small(tokens) - model(tokens)).max() < 0.01 * np.abs(model(tokens)).max()
    assert isinstance(model.blocks[0].attention.qkv, nn.Linear)


def test_a_frozen_bias_stays_frozen_and_a_shared_layer_one_layer():
    layer = nn.Linear(3, 3, key=0)
    model = nn.to_int8(nn.Sequential(layer, layer))
    assert model.layers[0] is model.layers[1]
    assert sorted(nn.named_parameters(nn.to_int8(nn.LoRA(layer, 1, key=0)))) == ["down", "up"]


def test_what_cannot_be_rounded_is_refused():
    with pytest.raises(ParameterError, match=r"layer is LayerNorm.*must be a Linear"):
        nn.Int8Linear(nn.LayerNorm(3))
    with pytest.raises(ParameterError, match=r"the LayerNorm has no nn\.Linear"):
        nn.to_int8(nn.LayerNorm(3))
    layer = nn.Linear(3, 2, key=0)
    with pytest.raises(ShapeError, match="the last axis of x is in"):
        nn.Int8Linear(layer)(np.ones(2))
    turned = nn.Linear(3, 2, key=0)
    turned.weight = turned.weight * np.complex64(1j)
    with pytest.raises(DtypeError, match="the weight is"):
        nn.Int8Linear(turned)
    layer.weight[0, 0] = np.nan
    with pytest.raises(ParameterError, match="infinite or nan"):
        nn.Int8Linear(layer)
    both = nn.Sequential(nn.Linear(3, 3, key=0))
    both.head = nn.tied("layers[0].weight")
    with pytest.raises(ParameterError, match="are one weight"):
        nn.to_int8(both)

"""The trained model is where users look for it: in step.model, step.predict, and files that need no step."""

import doctest
import gc

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import wholestep as ws
from wholestep import nn
from wholestep.errors import CheckpointError, ParameterError, UnsupportedError
from wholestep.train.checkpoint import models, torch_linear, torch_name

RNG = np.random.default_rng(0)
BATCH = {"x": RNG.normal(size=(6, 3)).astype(np.float32), "y": RNG.normal(size=(6, 1)).astype(np.float32)}


def network(key=0, width=4):
    return nn.Sequential(nn.Linear(3, width, key=key), nn.BatchNorm(width), nn.tanh, nn.Linear(width, 1, key=key + 9))


def loss(model, batch):
    return nn.mse(model(batch["x"]), batch["y"])


def trained(model=None, optimizer=None):
    step = ws.compile(loss, model or network(), optimizer=optimizer or ws.optim.adam(0.1), batch=BATCH)
    for _ in range(3):
        step(BATCH)
    return step


def same(model, other):
    for mine, theirs in zip(nn.split(model), nn.split(other), strict=True):
        assert mine.keys() == theirs.keys() and mine
        for name, x in mine.items():
            np.testing.assert_array_equal(x, theirs[name], strict=True)


def test_predict_is_the_model_as_it_is_now_in_evaluation_mode():
    step = trained()
    before = step.predict(BATCH["x"])
    np.testing.assert_allclose(before, step.model.eval()(BATCH["x"]), rtol=1e-5, atol=1e-6)
    step(BATCH)
    after = step.predict(BATCH["x"][:2])
    np.testing.assert_allclose(after, step.model.eval()(BATCH["x"][:2]), rtol=1e-5, atol=1e-6)
    assert not np.allclose(before[:2], after)
    assert sum("predict" in reason for reason in step.reasons) == 2
    step.replace(params=network(5))
    np.testing.assert_allclose(step.predict(BATCH["x"]), network(5).eval()(BATCH["x"]), rtol=1e-5, atol=1e-6)


class Silent(nn.Module):
    def __init__(self):
        self.w = np.ones(3, np.float32)


@pytest.mark.parametrize("params", [{"w": np.ones(3, np.float32)}, {"a": network()}, Silent()], ids=str)
def test_a_step_that_knows_no_forward_pass_cannot_predict(params):
    step = ws.compile(lambda p, b: np.mean(b["x"]) + sum(np.sum(x) for x in ws.tree.leaves(p)), params, batch=BATCH)
    with pytest.raises(UnsupportedError, match=r"step\.predict: .*\n.*\n  hint: predict = step\.attach\(f\)"):
        step.predict(BATCH["x"])


class Keyed(nn.Module):
    def __init__(self):
        self.w = np.ones(3, np.float32)

    def __call__(self, x, scale=1.0, *, key):
        return scale * x @ self.w


def test_a_model_that_needs_more_than_one_argument_names_it_when_it_is_to_predict():
    def loss(model, batch, *, key):
        return np.mean(model(batch["x"], key=key))

    step = ws.compile(loss, Keyed(), batch={"x": np.ones((2, 3), np.float32)})
    with pytest.raises(
        UnsupportedError, match=r"Keyed needs key too\n.*\n  hint: a default, such as key=None, or step"
    ):
        step.predict(np.ones((2, 3), np.float32))


def test_a_model_that_was_given_to_a_step_says_so_for_as_long_as_there_is_the_step():
    model, other = network(), network()
    shown = repr(model)
    step = trained(model)
    assert repr(model) == f"{shown}\n# as it was given to the step of loss, which trains a copy: step.model"
    assert repr(step.model) == repr(other) == shown
    step.replace(params=other)
    assert repr(other) == repr(model)
    del step
    gc.collect()
    assert repr(model) == repr(other) == shown
    del model
    gc.collect()
    assert repr(network()) == shown


def test_a_model_comes_back_from_its_own_file_and_from_a_checkpoint(tmp_path):
    step = trained()
    nn.save(step.model, tmp_path / "model.safetensors", metadata={"note": 1})
    step.save(tmp_path / "step.safetensors")
    for file in (tmp_path / "model.safetensors", tmp_path / "step.safetensors"):
        fresh = network(3)
        before = {name: x.copy() for name, x in nn.named_parameters(fresh).items()}
        same(nn.load(fresh, file), step.model)
        same(nn.load(network, file), step.model)
        for name, x in nn.named_parameters(fresh).items():
            np.testing.assert_array_equal(x, before[name], "the model that was given stays as it is")
        held = nn.load(file)
        params, kept = nn.split(step.model)
        assert held.keys() == params.keys() | kept.keys()
        same(nn.join(fresh, {name: held[name] for name in params}, {name: held[name] for name in kept}), step.model)
    other = trained(network(7), ws.optim.sgd(0.1))
    assert other.load(tmp_path / "model.safetensors", only=("params", "buffers")).metadata == {"note": 1}
    same(other.model, step.model)
    assert load_file(tmp_path / "model.safetensors").keys() == {
        *[f"params.{name}" for name in params],
        *[f"buffers.{name}" for name in kept],
    }


def test_plain_parameters_and_parts_of_a_file(tmp_path):
    params = {"layers": [{"w": np.ones((2, 3)), "c": np.array([1.0 + 2.0j])}], "b": np.zeros(())}
    nn.save(params, tmp_path / "parts", max_shard_bytes=16)
    found = nn.load(ws.tree.map(np.zeros_like, params), tmp_path / "parts")
    assert ws.tree.structure(found) == ws.tree.structure(params)
    for x, y in zip(ws.tree.leaves(found), ws.tree.leaves(params), strict=True):
        np.testing.assert_array_equal(x, y, strict=True)
    nn.save(np.arange(3.0), tmp_path / "alone.safetensors")
    np.testing.assert_array_equal(nn.load(np.zeros(3), tmp_path / "alone.safetensors"), np.arange(3.0))
    with pytest.raises(CheckpointError, match=r"missing params\.d"):
        nn.load({**params, "d": np.ones(1)}, tmp_path / "parts")
    partly = nn.load({"b": np.ones(()), "d": np.ones(1)}, tmp_path / "parts", strict=False)
    assert partly["b"] == 0.0 and partly["d"] == 1.0
    assert nn.load({"b": np.ones((), np.float32)}, tmp_path / "parts", strict=False, cast=True)["b"] == 0.0


def test_arrays_of_the_other_byte_order_come_back_as_the_same_numbers(tmp_path):
    path = tmp_path / "m.safetensors"
    held = {"real": np.arange(3.0).astype(">f4"), "complex": (1j * np.arange(3)).astype(">c16")}
    nn.save(held, path)
    for name, x in nn.load(path).items():
        np.testing.assert_array_equal(x, held[name])
    model = nn.from_torch(nn.Linear(3, 2), {"weight": np.eye(2, 3, dtype=">f4"), "bias": held["real"][:2]})
    model.bias = model.bias.astype(">f4")
    assert all(x.dtype.isnative for x in nn.to_torch(model).values()) and model.bias.tolist() == [0.0, 1.0]


def test_weights_of_another_library_fill_a_model(tmp_path):
    weight, bias = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(2, np.float32)
    save_file({"layers.0.weight": weight, "layers.0.bias": bias}, tmp_path / "torch.safetensors")
    model = nn.Sequential(nn.Linear(3, 2, key=0))
    found = nn.load(model, tmp_path / "torch.safetensors", rename=torch_name, convert={"*.weight": torch_linear})
    np.testing.assert_array_equal(found.layers[0].weight, weight.T)
    assert nn.load(tmp_path / "torch.safetensors").keys() == {"layers.0.weight", "layers.0.bias"}


def test_what_does_not_fit_is_said_with_what_to_do(tmp_path):
    step, file = trained(), tmp_path / "step.safetensors"
    step.save(file)
    with pytest.raises(CheckpointError, match=r'hint: only=\("params", "buffers"\) loads the model alone'):
        trained(optimizer=ws.optim.sgd(0.1)).load(file)
    with pytest.raises(
        CheckpointError, match=r"load: params\.layers\[0\]\.bias is f32\[4\] in the file and f32\[5\] here"
    ):
        trained(network(width=5)).load(file)
    with pytest.raises(CheckpointError, match=r"params\.layers\[0\]\.weight is f32\[3, 4\] in the file"):
        nn.load(network(width=5), file)
    with pytest.raises(CheckpointError, match=r"nothing\.safetensors: it cannot be read"):
        nn.load(tmp_path / "nothing.safetensors")
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    for call in (lambda: nn.load(file), lambda: nn.load(network(), file)):
        with pytest.raises(CheckpointError, match="damaged"):
            call()
    with pytest.raises(ParameterError, match=r"hint: nn\.load\(model, path\), or nn\.load\(path\)"):
        nn.load(network())
    with pytest.raises(ParameterError, match="the model comes first"):
        nn.load(str(file), network())


def test_examples_run():
    assert not doctest.testmod(models).failed

"""nn.unfrozen: frozen arrays become parameters again, with their marks, in steps and optimizers too."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import ParameterError


def test_frozen_models_are_trained_again():
    model = nn.MLP([3, 4, 2], key=0)
    again = nn.unfrozen(nn.frozen(model))
    assert nn.named_parameters(again).keys() == nn.named_parameters(model).keys()
    assert again.layers[0].weight is model.layers[0].weight
    assert ws.tree.structure(again) == ws.tree.structure(model)
    half = nn.unfrozen(nn.frozen(model), "*.bias")
    assert list(nn.named_parameters(half)) == ["layers[0].bias", "layers[1].bias"]
    assert "frozen" in repr(half)
    with pytest.raises(ParameterError, match=r"no frozen array matches 'head'\n(.|\n)*layers\[0\].weight"):
        nn.unfrozen(nn.frozen(model), "head")


class Part(nn.Module):
    def __init__(self):
        self.gain, self.rows = nn.no_decay(np.ones(2)), [np.ones(3), {"x": np.zeros(1)}]
        self.codes, self.seen = nn.frozen(np.arange(3)), nn.buffer(np.zeros(1))
        self.again = self.gain


def test_marks_survive():
    frozen = nn.frozen(Part())
    assert "gain=frozen undecayed f" in repr(frozen)
    made = nn.unfrozen(frozen)
    assert nn.decay_flags(made) == nn.decay_flags(Part()) == {"gain": False, "rows[0]": True, "rows[1].x": True}
    assert list(nn.buffers(made)) == ["codes", "seen"]
    assert made.again is made.gain
    plain = nn.unfrozen({"w": nn.frozen(np.ones(2)), "v": np.zeros(1)})
    assert type(plain["w"]) is np.ndarray
    assert list(nn.named_parameters(plain)) == ["v", "w"]


def test_a_step_trains_what_was_frozen_with_the_state_that_a_file_has(tmp_path):
    rows = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    model = nn.MLP([3, 4, 2], key=0)
    model.layers[0] = nn.frozen(model.layers[0])
    step = ws.compile(lambda m, x: np.mean((m(x) - 1) ** 2), model, optimizer=ws.optim.adam(1e-2), batch=rows)
    for _ in range(3):
        step(rows)
    step.save(tmp_path / "head.safetensors")
    moment = step.state["optimizer"]
    kept = step.model.layers[0].weight.copy()
    np.testing.assert_array_equal(kept, model.layers[0].weight)
    step.replace(params=nn.unfrozen(step.model))
    found = step.load(tmp_path / "head.safetensors", strict=False)
    assert all("layers[0]" in name for name in found.missing)
    flat = dict(zip(ws.tree.paths(step.state["optimizer"]), ws.tree.leaves(step.state["optimizer"]), strict=True))
    for path, value in zip(ws.tree.paths(moment), ws.tree.leaves(moment), strict=True):
        np.testing.assert_array_equal(flat[path], value)
    step(rows)
    assert np.any(step.model.layers[0].weight != kept)

"""LoRA: the layer begins as the given one, trains two thin matrices alone, and merges into one dense layer."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, 6)).astype(np.float32)


@pytest.mark.parametrize("bias", [True, False])
def test_what_is_learned_merges_into_one_layer(bias):
    layer = nn.Linear(6, 4, key=0, bias=bias)
    wanted = X @ (layer.weight + np.outer(RNG.normal(size=6), RNG.normal(size=4)).astype(np.float32))
    model = nn.LoRA(layer, 2, key=1, alpha=4.0)
    assert np.array_equal(model(X), layer(X))
    assert sorted(nn.named_parameters(model)) == ["down", "up"]
    step = ws.compile(lambda m, x: nn.mse(m(x), wanted), model, optimizer=ws.optim.adamw(3e-2), batch=X)
    losses = [float(step(X).loss) for _ in range(200)]
    trained = step.model
    assert losses[-1] < (0.3 if bias else 0.01) * losses[0]
    assert np.array_equal(trained.layer.weight, layer.weight)
    merged = trained.merged()
    assert type(merged) is nn.Linear
    np.testing.assert_allclose(merged(X), trained(X), atol=1e-5)
    np.testing.assert_allclose(merged.weight, layer.weight + 2.0 * trained.down @ trained.up, atol=1e-6)


def test_tensors_have_the_names_and_layouts_of_peft():
    model = nn.LoRA(nn.Linear(6, 4, key=0), 2, key=1)
    shapes = {name: x.shape for name, x in nn.to_torch(model).items()}
    assert shapes == {
        "base_layer.weight": (4, 6),
        "base_layer.bias": (4,),
        "lora_A.default.weight": (2, 6),
        "lora_B.default.weight": (4, 2),
    }


def test_what_cannot_be_adapted_is_refused():
    with pytest.raises(ParameterError, match=r"layer is LayerNorm.*must be a Linear or an Int8Linear"):
        nn.LoRA(nn.LayerNorm(3), 1, key=0)
    with pytest.raises(ParameterError, match="rank is 0"):
        nn.LoRA(nn.Linear(3, 2, key=0), 0, key=0)

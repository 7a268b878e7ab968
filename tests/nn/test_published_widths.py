"""Published models at their own widths, with few layers and small inputs: a compiled gradient is that of the reference.

Kernels, blocks and layouts are chosen by sizes, so that narrow models do not meet those of real ones.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import wholestep as ws
from wholestep.nn import models

RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """A model and an input of it."""

    make: Callable[[], Any]
    x: Any


def images(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


TOKENS = RNG.integers(0, 100, (2, 40))
CASES = {
    "ResNet-18": Case(lambda: models.ResNet((1, 1, 1, 1), classes=10, key=0), images(2, 3, 64, 64)),
    "ResNet-50": Case(lambda: models.ResNet((1, 1, 1), bottleneck=True, classes=10, key=0), images(2, 3, 64, 64)),
    "MobileNetV3": Case(lambda: models.MobileNetV3(classes=10, dropout=0.0, key=0), images(2, 3, 64, 64)),
    "ConvNeXt": Case(lambda: models.ConvNeXt((1, 1, 1), (96, 192, 384), classes=10, key=0), images(2, 3, 64, 64)),
    "ViT": Case(lambda: models.ViT(size=96, depth=1, classes=10, key=0), images(2, 3, 96, 96)),
    "MLPMixer": Case(lambda: models.MLPMixer(size=112, depth=1, classes=10, key=0), images(2, 3, 112, 112)),
    "Whisper": Case(lambda: models.WhisperEncoder(places=100, depth=1, key=0), images(2, 80, 200)),
    "BERT": Case(lambda: models.BERT(100, 64, 768, 12, 1, pooler=False, key=0), TOKENS),
    "GPT-2": Case(lambda: models.GPT2(vocabulary=100, places=64, depth=1, key=0), TOKENS),
    "Llama": Case(lambda: models.Llama(100, 64, 768, 12, 1, hidden=2048, kv_heads=4, key=0), TOKENS),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_gradients_are_those_of_the_reference(name: str) -> None:
    model, x = CASES[name].make(), CASES[name].x
    weights = np.random.default_rng(1).normal(size=ws.eval_shape(lambda m, x: m(x), model, x).shape).astype(np.float32)

    def loss(model: Any, x: Any) -> Any:
        return np.mean(model(x) * weights) + 1

    found, expected = [
        ws.tree.leaves(ws.jit(ws.value_and_grad(loss), device=device)(model, x)) for device in ("cpu", "reference")
    ]
    largest = max(np.abs(g).max() for g in expected[1:])
    for a, b in zip(found, expected, strict=True):
        scale = max(np.abs(b).max(), 1e-2 * largest)
        assert np.abs(a - b).max() <= 2e-3 * scale

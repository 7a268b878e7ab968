"""The models of real size by name: those that are trained, and those that answer for one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.real.convolutional import MobileNet, ResNet18, UNet, WaveNet
from wholestep_tools.bench.real.operations import Operations
from wholestep_tools.bench.real.others import GaussianProcess, LogisticRegression, RecurrentLanguageModel, WideLayers
from wholestep_tools.bench.real.tables import Clicks
from wholestep_tools.bench.real.transformers import LanguageModel, LongBlock, VisionTransformer


class Model(Protocol):
    """A model: its random parameters and batch, and its computation in any library's operations."""

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """The parameters by name."""

    def batch(self, rng: np.random.Generator) -> Arrays:
        """The batch: x, and for most models y."""

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """The result for x."""

    def loss(self, on: Operations, p: Any, batch: Any) -> Any:
        """The loss of a batch, without axes."""


class Real(NamedTuple):
    """A model under its title; trained, or run forward."""

    title: str
    model: Model
    trained: bool = True
    lazy: tuple[str, ...] = ()
    """The tables of which Adam updates no rows but those that the batch reads."""
    without: tuple[str, ...] = ()
    """The peers that are left out: they have no such update, or would need more memory than there is."""
    half: bool = False
    """True for a model whose operations are in bfloat16, beside parameters in float32."""

    def draw(self, rng: np.random.Generator) -> tuple[Arrays, Arrays]:
        """Parameters and batch."""
        return self.model.parameters(rng), self.model.batch(rng)

    def answer(self, on: Operations) -> Callable[[Any, Any], Any]:
        """The model run forward: a function of parameters and batch, whose results are a tuple of one."""
        return lambda params, batch: (self.model.forward(on, params, batch["x"]),)


FLOAT32_PEERS = ("jax", "torch.compile")
"""The peers whose models here have no half precision."""

REAL: dict[str, Real] = {
    "mlp-4096": Real("MLP of 3 layers of 4096, batch 128", WideLayers()),
    "gpt-768": Real("GPT, width 768, 4 layers, 4 sequences of 256, vocabulary 8192", LanguageModel()),
    "gpt-50257": Real(
        "GPT, width 768, 2 layers, 2 sequences of 256, vocabulary 50257, head tied",
        LanguageModel(layers=2, vocabulary=50257, rows=2, tied=True),
    ),
    "attention-2048": Real("one block of width 512 over a sequence of 2048", LongBlock()),
    "attention-16384": Real("one block of width 512 over a sequence of 16384", LongBlock(time=16384), without=("jax",)),
    "mlp-4096-bf16": Real("the MLP in bfloat16", WideLayers(), without=FLOAT32_PEERS, half=True),
    "gpt-768-bf16": Real("the GPT of vocabulary 8192 in bfloat16", LanguageModel(), without=FLOAT32_PEERS, half=True),
    "resnet18-224-bf16": Real(
        "ResNet-18, 4 images of 224x224, in bfloat16", ResNet18(224, 4, 1000), without=FLOAT32_PEERS, half=True
    ),
    "vit-tiny": Real("ViT-tiny, 8 images of 224x224", VisionTransformer()),
    "resnet18-32": Real("ResNet-18, 32 images of 32x32", ResNet18(32, 32, 10)),
    "resnet18-224": Real("ResNet-18, 4 images of 224x224", ResNet18(224, 4, 1000)),
    "mobilenet": Real("MobileNet, 16 images of 64x64", MobileNet()),
    "unet": Real("U-Net, 2 images of 128x128", UNet()),
    "wavenet": Real("WaveNet of 10 layers, 4 signals of 4096", WaveNet()),
    "lstm-512": Real("LSTM language model, width 512, 32 sequences of 64", RecurrentLanguageModel()),
    "logistic": Real("logistic regression, 1,000,000 x 100", LogisticRegression()),
    "gp-1000": Real("Gaussian process by Cholesky, 1000 points, float64", GaussianProcess()),
    "tables": Real("four tables of 1,000,000 x 16, batch 512", Clicks()),
    "tables-lazy": Real(
        "the same, the rows that are read updated alone", Clicks(), lazy=Clicks().names, without=("jax",)
    ),
    "one-mlp": Real("MLP of 3 layers of 4096, one row", WideLayers(rows=1), trained=False),
    "one-gpt": Real("GPT, width 768, 2 layers, one sequence of 256", LanguageModel(layers=2, rows=1), trained=False),
    "one-vit": Real("ViT-tiny, one image of 224x224", VisionTransformer(rows=1), trained=False),
    "one-resnet18": Real("ResNet-18, one image of 224x224", ResNet18(224, 1, 1000), trained=False),
    "one-mobilenet": Real("MobileNet, one image of 224x224", MobileNet(224, 1), trained=False),
    "one-lstm": Real("LSTM language model, one sequence of 64", RecurrentLanguageModel(rows=1), trained=False),
}

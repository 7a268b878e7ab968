"""The workloads: nine small ones and the models of real size, with their data and how their numbers are compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import numpy as np

from wholestep.errors import CommandError
from wholestep.ir.graph import NDArray
from wholestep_tools.bench.draws import Arrays, dense, labels, normal
from wholestep_tools.bench.real.catalog import REAL

# A seed at which no ReLU unit trains along its kink: there rounding alone moves the twentieth loss by 4e-5.
SEED = 7
B1, B2, EPS = 0.9, 0.999, 1e-8
VOCABULARY, WIDTH, HEADS, LAYERS, TIME = 256, 128, 4, 4, 128
CHANNELS, SIGNS, ROPE = 32, 96, 10000.0


class Workload(NamedTuple):
    """One workload: its title, the work of one step, the learning rate of Adam, and the step whose loss is compared.

    `most` caps the steps of one process: after some 800 steps the moments of dead units underflow, and a peer that does
    not flush denormals is no longer measured but punished. `tolerance` is the largest relative difference between two
    peers' numbers.
    """

    title: str
    does: str
    draw: Callable[[np.random.Generator], tuple[Arrays, Arrays]]
    rate: float = 0.0
    checked: int = 1
    most: int = 1_000_000
    tolerance: float = 1e-5
    without: tuple[str, ...] = ()
    """The peers that do not run it."""

    def data(self) -> tuple[Arrays, Arrays]:
        """Parameters and batch, float32 and int32, by name; the same in every process."""
        params, batch = self.draw(np.random.default_rng(SEED))
        return dict(sorted(params.items())), dict(sorted(batch.items()))


def draw_mlp(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """784-256-128-10 and 128 samples."""
    params = dense(rng, (784, 256, 128, 10), 2.0)
    return params, {"x": rng.random((128, 784), np.float32), "y": labels(rng, 10, (128,))}


def draw_cnn(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """Kernels as [out, in, height, width] and 64 images as [n, channel, height, width]."""
    params = {
        "k0": normal(rng, (16, 1, 3, 3), (2 / 9) ** 0.5),
        "b0": normal(rng, (16,), 0.01),
        "k1": normal(rng, (32, 16, 3, 3), (2 / 144) ** 0.5),
        "b1": normal(rng, (32,), 0.01),
        "w2": normal(rng, (32 * 7 * 7, 10), (1 / 1568) ** 0.5),
        "b2": normal(rng, (10,), 0.01),
    }
    return params, {"x": normal(rng, (64, 1, 28, 28)), "y": labels(rng, 10, (64,))}


def draw_gpt(rng: np.random.Generator, d: int = WIDTH, layers: int = LAYERS, time: int = TIME) -> tuple[Arrays, Arrays]:
    """Width 128, 4 layers, 8 sequences of 128 tokens out of 256, unless others are asked for."""
    scale = 0.02
    params = {"wte": normal(rng, (VOCABULARY, d), scale), "wpe": normal(rng, (time, d), scale)}
    for i in range(layers):
        for norm in ("a", "f"):
            params |= {f"gain_{norm}{i}": np.ones(d, np.float32), f"bias_{norm}{i}": np.zeros(d, np.float32)}
        params |= {"qkv" + str(i): normal(rng, (d, 3 * d), scale), f"proj{i}": normal(rng, (d, d), scale)}
        params |= {f"up{i}": normal(rng, (d, 4 * d), scale), f"down{i}": normal(rng, (4 * d, d), scale)}
    params |= {"gain": np.ones(d, np.float32), "bias": np.zeros(d, np.float32)}
    params["head"] = normal(rng, (d, VOCABULARY), scale)
    return params, {"x": labels(rng, VOCABULARY, (8, time)), "y": labels(rng, VOCABULARY, (8, time))}


def draw_digits(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """The network of `wholestep train digits` by the paths of its parameters, and 32 images of 64 pixels."""
    params = {"first.weight": normal(rng, (CHANNELS, 1, 3, 3), (2 / 9) ** 0.5)}
    params["second.weight"] = normal(rng, (2 * CHANNELS, CHANNELS, 3, 3), (2 / (9 * CHANNELS)) ** 0.5)
    params["hidden.weight"] = normal(rng, (32 * CHANNELS, 128), (2 / (32 * CHANNELS)) ** 0.5)
    params["last.weight"] = normal(rng, (128, 10), (1 / 128) ** 0.5)
    sizes = {"first": CHANNELS, "second": 2 * CHANNELS, "hidden": 128, "last": 10}
    params |= {f"{layer}.bias": normal(rng, (size,), 0.01) for layer, size in sizes.items()}
    return params, {"x": rng.random((32, 64), np.float32), "y": labels(rng, 10, (32,))}


def draw_text(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """The model of `wholestep train text` by the paths of its parameters, and 4 pieces of 128 characters."""
    d = WIDTH
    params = {"embedding.weight": normal(rng, (SIGNS, d)), "head.weight": normal(rng, (d, SIGNS), d**-0.5)}
    for i in range(LAYERS):
        for name, shape in (
            ("attention.qkv", (d, 3 * d)),
            ("attention.out", (d, d)),
            ("feed_forward.up", (d, 4 * d)),
            ("feed_forward.down", (4 * d, d)),
        ):
            params[f"blocks[{i}].{name}.weight"] = normal(rng, shape, (3 * shape[0]) ** -0.5)
        params |= {f"blocks[{i}].{name}_norm.gain": np.ones(d, np.float32) for name in ("attention", "feed_forward")}
    params["norm.gain"] = np.ones(d, np.float32)
    return params, {"x": labels(rng, SIGNS, (4, TIME)), "y": labels(rng, SIGNS, (4, TIME))}


def draw_tiny(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """2-16-16-1 and 32 samples."""
    return dense(rng, (2, 16, 16, 1), 1.0), {"x": normal(rng, (32, 2)), "y": normal(rng, (32, 1))}


def draw_chain(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """4096 rows of 1024 numbers, a scale and a shift."""
    return {"x": normal(rng, (4096, 1024)), "w": normal(rng, (1024,)), "b": normal(rng, (1024,))}, {}


def draw_direction(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """As draw_mlp, with a direction `v_…` for each parameter in the batch."""
    params, batch = draw_mlp(rng)
    return params, batch | {f"v_{name}": normal(rng, value.shape) for name, value in params.items()}


def digest(leaves: Iterable[NDArray]) -> list[float]:
    """Large results in few numbers: for each array the weighted energies of its positive and of its negative entries.

    Nothing cancels in these sums, so that rounding stays rounding; a wrong sign or a wrong order shows.

    >>> digest([np.array([2.0, -1.0])])
    [4.0, 2.0]
    """
    found = []
    for leaf in leaves:
        flat = leaf.reshape(-1)
        for bound in (np.maximum, np.minimum):
            energy = 0.0
            for start in range(0, flat.size, 1 << 20):
                part = bound(flat[start : start + (1 << 20)], 0).astype(np.float64)
                places = np.arange(start, start + part.size) / max(flat.size - 1, 1)
                energy += float(((1 + places) * part) @ part)
            found.append(energy)
    return found


STEP = "forward, backward, Adam"
WORKLOADS = {
    "W1": Workload("MLP 784-256-128-10, batch 128", STEP, draw_mlp, 1e-4, 20, 420),
    "W2": Workload("CNN on 28x28, batch 64", STEP, draw_cnn, 1e-4, 20, 420),
    "W3": Workload("GPT, width 128, 4 layers, 8 sequences of 128", STEP, draw_gpt, 3e-4, 20, 420),
    "W4": Workload("MLP 2-16-16-1, batch 32", STEP, draw_tiny, 1e-4, 20),
    "W5": Workload("elementwise chain over 4096x1024", "value and gradients", draw_chain),
    "W6": Workload("gradients of W1 for each of 128 samples", "120 MB of gradients", draw_mlp),
    "W7": Workload("W1's Hessian times a direction", "forward over reverse", draw_direction),
    "digits": Workload("CNN of `train digits`, batch 32", STEP, draw_digits, 1e-4, 20, 420),
    "text": Workload("GPT of `train text`, 4 pieces of 128", STEP, draw_text, 3e-4, 20, 420),
}
SMALL = tuple(WORKLOADS)
"""The workloads of `wholestep bench`; the others are those of `wholestep bench models`."""
REAL_RATE = 1e-5
"""The rate of the models of real size: at 1e-4 a ResNet's loss falls to a fiftieth in six steps, and rounding alone
moves it by 4e-4."""
WORKLOADS |= {
    name: Workload(real.title, STEP, real.draw, REAL_RATE, 6, 1_000_000, 2e-2 if real.half else 1e-4, real.without)
    if real.trained
    else Workload(real.title, "forward", real.draw)
    for name, real in REAL.items()
}


def named(names: str, among: Collection[str] = WORKLOADS) -> list[str]:
    """The workloads that `names`, separated by commas, asks for; raises CommandError for one that there is not.

    >>> named("W4, W1")
    ['W4', 'W1']
    """
    asked = [name.strip() for name in names.split(",")]
    unknown = [name for name in asked if name not in among]
    if unknown:
        raise CommandError(f"there is no workload {unknown[0]!r}", hint=f"choose from {', '.join(among)}")
    return asked

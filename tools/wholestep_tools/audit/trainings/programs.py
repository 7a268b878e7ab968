"""Random trainings: a loss of layers drawn one after another, its parameters and data, an optimizer, and options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.errors import BudgetError
from wholestep.train.step.step import Step

SIGNS = 11
"""The number of embeddings to look up."""


class Hand:
    """A drawer of one loss: the same numbers at each trace, and parameters that are made at the first one."""

    def __init__(self, seed: Sequence[int], params: dict[str, Any], batch: Mapping[str, Any]) -> None:
        self.seed, self.params, self.batch = seed, params, batch
        self.rng = np.random.default_rng([*seed, 1])
        self.filled = bool(params)
        self.used = 0

    def below(self, n: int) -> int:
        """An integer from 0 to n - 1."""
        return int(self.rng.integers(n))

    def weight(self, *shape: int) -> Any:
        """The next parameter."""
        name = f"w{self.used:02}"
        self.used += 1
        if not self.filled:
            drawn = np.random.default_rng([*self.seed, 2, self.used])
            scale = shape[0] ** -0.5 if len(shape) > 1 else 0.1
            self.params[name] = np.asarray(drawn.normal(0, scale, shape), np.float32)
        return self.params[name]


Layer = Callable[[Hand, Any], Any]


def dense(hand: Hand, x: Any) -> Any:
    """A dense layer to another width, with an activation."""
    width = (8, 17, 24, 40)[hand.below(4)]
    activation = (np.tanh, nn.relu, nn.gelu, nn.sigmoid, np.sin)[hand.below(5)]
    return activation(x @ hand.weight(x.shape[-1], width) + hand.weight(width))


def feed_forward(hand: Hand, x: Any) -> Any:
    """Two dense layers with a way around."""
    width = x.shape[-1]
    h = nn.layer_norm(x, hand.weight(width) + 1, hand.weight(width))
    return x + nn.gelu(h @ hand.weight(width, 3 * width)) @ hand.weight(3 * width, width)


def attention(hand: Hand, x: Any) -> Any:
    """Attention of every place to those before it, with a way around."""
    width = x.shape[-1]
    q, k, v = (x @ hand.weight(width, width) for _ in range(3))
    scores = q @ np.swapaxes(k, -1, -2) * width**-0.5
    seen = np.tril(np.ones(scores.shape[-2:], bool))
    return x + nn.softmax(np.where(seen, scores, -np.inf)) @ v


def recurrent(hand: Hand, x: Any) -> Any:
    """A loop along time."""
    width = x.shape[-1]
    own, given = hand.weight(width, width), hand.weight(width, width)

    def step(h: Any, row: Any) -> Any:
        h = np.tanh(h @ own + row @ given)
        return h, h

    body = ws.checkpoint(step) if hand.below(2) else step
    start = np.zeros_like(x[:, 0])
    return np.swapaxes(ws.scan(body, start, np.swapaxes(x, 0, 1))[1], 0, 1)


def repeated(hand: Hand, x: Any) -> Any:
    """The same layer some times over."""
    width = x.shape[-1]
    weight, times = hand.weight(width, width), 2 + hand.below(3)
    return ws.fori_loop(0, times, lambda i, h: h + np.tanh(h @ weight) / times, x)


def chosen(hand: Hand, x: Any) -> Any:
    """One of two ways, by a value."""
    width = x.shape[-1]
    weight = hand.weight(width, width)
    return ws.cond(np.sum(x) > 0, lambda h: np.tanh(h @ weight), lambda h: h * 0.5, x)


def remade(hand: Hand, x: Any) -> Any:
    """A layer whose inside is computed again on the way back."""
    width = x.shape[-1]
    up, down = hand.weight(width, 2 * width), hand.weight(2 * width, width)
    return x + ws.checkpoint(lambda h: np.tanh(h @ up) @ down)(x)


def written(hand: Hand, x: Any) -> Any:
    """Some places written over."""
    y = x.copy()
    y[:, 1:] += 0.5 * x[:, :-1]
    y[:, 0] = y[:, -1] * 2.0
    return y


def ordered(hand: Hand, x: Any) -> Any:
    """Sorted, or added up, along time."""
    return np.sort(x, axis=1) if hand.below(2) else np.cumsum(x, axis=1) / x.shape[1]


def looked_up(hand: Hand, x: Any) -> Any:
    """Embeddings of the labels added."""
    return x + hand.weight(SIGNS, x.shape[-1])[hand.batch["y"]]


def narrowed(hand: Hand, x: Any) -> Any:
    """Places side by side, half of them, and back to where there is an even number."""
    n, time, width = x.shape
    pairs = x[:, : time - time % 2].reshape(n, -1, 2, width)
    return np.concatenate([pairs.max(axis=2), pairs.mean(axis=2), x[:, time - time % 2 :]], axis=1)


LAYERS: tuple[Layer, ...] = (
    dense,
    dense,
    feed_forward,
    feed_forward,
    attention,
    recurrent,
    repeated,
    chosen,
    remade,
    written,
    ordered,
    looked_up,
    narrowed,
)


@dataclass(frozen=True)
class Loss:
    """The loss of a seed: it draws its layers as it runs."""

    seed: tuple[int, ...]
    depth: int

    def __call__(self, params: dict[str, Any], batch: Mapping[str, Any]) -> Any:
        hand = Hand(self.seed, params, batch)
        x = batch["x"]
        for _ in range(self.depth):
            x = LAYERS[hand.below(len(LAYERS))](hand, x)
        scores = x @ hand.weight(x.shape[-1], SIGNS)
        loss = nn.cross_entropy(scores.reshape(-1, SIGNS), batch["y"].reshape(-1))
        return loss + 0.01 * np.mean(np.square(x)) if hand.below(2) else loss


class Training(NamedTuple):
    """A loss with parameters, the rows of a step, an optimizer and how many steps a call takes."""

    loss: Loss
    params: dict[str, Any]
    rows: dict[str, Any]
    optimizer: Any
    steps: int

    @property
    def batch(self) -> dict[str, Any]:
        """The batch of the first call."""
        return self.batches(0)

    def batches(self, first: int) -> dict[str, Any]:
        """The batch of a call whose first step has this number: the rows, which step by step move on by one."""
        rolled = [{name: np.roll(x, first + k, 0) for name, x in self.rows.items()} for k in range(self.steps)]
        return rolled[0] if self.steps == 1 else {name: np.stack([row[name] for row in rolled]) for name in self.rows}

    @property
    def given(self) -> dict[str, Any]:
        """The options for `ws.compile` and `ws.estimate`."""
        return {"optimizer": self.optimizer, "batch": self.batch, "steps_per_call": self.steps}

    def step(self, **more: Any) -> Step:
        """The compiled step."""
        made: Step = self.asked(ws.compile, more)
        return made

    def estimate(self, **more: Any) -> Any:
        """The estimate of the step's memory."""
        return self.asked(ws.estimate, more)

    def asked(self, call: Callable[..., Any], more: dict[str, Any]) -> Any:
        """The result of a call on the training; reports of both name this line."""
        return call(self.loss, self.params, **self.given, **more)


Limit = str | int
"""A budget, as it is given to `ws.compile`."""


def within(make: Callable[..., Step], limit: Limit) -> tuple[Step, Limit]:
    """A step within a budget, or else within the one that its refusal names; and that budget."""
    try:
        return make(memory_budget=limit), limit
    except BudgetError as error:
        works = offered(str(error))
        return make(memory_budget=works), works


WORKS = re.compile(r'memory_budget="?([0-9.]+%?)"? works')


def offered(message: str) -> Limit:
    """The budget that a refusal says would work.

    >>> offered('hint: memory_budget="12.50%" works'), offered("hint: memory_budget=4096 works; or")
    ('12.50%', 4096)
    """
    found = WORKS.search(message)
    if found is None:
        raise BudgetError(f"the refusal names no budget that works: {message}")
    return found[1] if found[1].endswith("%") else int(found[1])


def training(*seed: int) -> Training:
    """The training of a seed.

    >>> made = training(0, 1)
    >>> made.loss(made.params, made.batch).shape
    ()
    """
    rng = np.random.default_rng([*seed, 0])
    n, time, width = (int(rng.choice(sizes)) for sizes in ((2, 5, 8, 16), (2, 3, 8, 12), (4, 9, 16, 32)))
    x = np.asarray(rng.normal(size=(n, time, width)), np.float32)
    one = {"x": x, "y": rng.integers(0, SIGNS, (n, time)).astype(np.int32)}
    loss = Loss(seed, int(rng.integers(1, 9)))
    params: dict[str, Any] = {}
    loss(params, one)
    optimizers = (
        ws.optim.sgd(0.01, momentum=0.9),
        ws.optim.adam(1e-3),
        ws.optim.chain(ws.optim.clip_by_global_norm(1.0), ws.optim.adamw(1e-3)),
    )
    count = int(rng.choice((1, 1, 3)))
    return Training(loss, params, one, optimizers[int(rng.integers(3))], count)

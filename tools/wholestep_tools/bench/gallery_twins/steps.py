"""Training steps in JAX, one jitted function each with its state donated: Adam, its relatives and descent by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from wholestep_tools.bench.gallery_twins import Call, Twin
from wholestep_tools.bench.gallery_twins.caught import training
from wholestep_tools.bench.spec import B1, B2, EPS

Rate = Callable[[Any], Any]
CHECKED = 3
"""Steps whose losses have to agree, so that the optimizers are compared too."""


def cosine(peak: float, steps: int) -> Rate:
    """Half a cosine from the peak to zero."""
    return lambda t: 0.5 * peak * (1 + jnp.cos(jnp.pi * jnp.minimum(t / steps, 1.0)))


def constant(rate: float) -> Rate:
    """The same rate always."""
    return lambda t: rate


def clipped(g: Any, most: float) -> Any:
    """Gradients scaled down to a norm."""
    norm = jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree.leaves(g)))
    return jax.tree.map(lambda x: x * jnp.minimum(1.0, most / norm).astype(x.dtype), g)


def adam(
    loss: Callable[..., Any], rate: Rate, decay: float = 0.0, most: float | None = None, has_aux: bool = False
) -> Any:
    """A step of Adam, or of AdamW with `decay`, after gradients are clipped to a norm, and how its state begins."""

    def step(state: Any, *given: Any) -> Any:
        p, m, v, t = state
        value, g = jax.value_and_grad(loss, has_aux=has_aux)(p, *given)
        g = g if most is None else clipped(g, most)
        size, count = rate(t), t + 1
        m = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, m, g)
        v = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, v, g)
        a, s = size / (1 - B1**count), lax.rsqrt(1 - B2**count)

        def moved(p: Any, m: Any, v: Any) -> Any:
            kept = p * (1 - size * decay) if decay else p
            return kept - a.astype(p.dtype) * m / (jnp.sqrt(v) * s.astype(p.dtype) + EPS)

        return (jax.tree.map(moved, p, m, v), m, v, count), value

    def begin(params: Any) -> Any:
        p = jax.tree.map(jnp.array, params)
        return p, jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), jnp.zeros((), jnp.float64)

    return jax.jit(step, donate_argnums=0), begin


def descent(loss: Callable[..., Any], rate: float) -> Any:
    """A step of gradient descent, and how its state begins."""

    def step(p: Any, *given: Any) -> Any:
        value, g = jax.value_and_grad(loss)(p, *given)
        return jax.tree.map(lambda p, g: p - rate * g, p, g), value

    return jax.jit(step, donate_argnums=0), partial(jax.tree.map, jnp.array)


def stepping(optimizer: Any, params: Any, *given: Any) -> Call:
    """Steps one after the other on the same data, which lies in JAX's arrays; the loss is waited for."""
    step, begin = optimizer
    state, held = begin(params), jax.tree.map(jnp.asarray, given)

    def call() -> Any:
        nonlocal state
        state, value = step(state, *held)
        return jax.block_until_ready(value)

    return call


def first(value: Any) -> Any:
    """The loss of a value that has more with it."""
    return value[0] if isinstance(value, tuple) else value


def twin_of(ours: Call, theirs: Call) -> Twin:
    """The twin of steps without random numbers: the first losses have to agree."""
    losses = [float(ours().loss) for _ in range(CHECKED)], [float(first(theirs())) for _ in range(CHECKED)]
    return Twin(ours, theirs, losses)


def trained(example: Any, optimizer: Any) -> Twin:
    """The twin of a training that is given its example's parameters and batch as they are."""
    found = training(example)
    return twin_of(partial(found.steps[0], found.batch), stepping(optimizer, found.params[0], found.batch))


def drawn(example: Any, loss: Callable[..., Any], rate: Rate, draws: Callable[[Any], Any], same: Any) -> Twin:
    """The twin of a training with random numbers: `draws` makes JAX's inside the step, `same` those of our first."""
    found = training(example)

    plain, plain_begin = adam(lambda p, batch, key: loss(p, batch, draws(key)), rate)

    def drawing(state: Any, batch: Any, key: Any) -> Any:
        inner, count = state
        inner, value = plain(inner, batch, jax.random.fold_in(key, count))
        return (inner, count + 1), value

    def begin(params: Any) -> Any:
        return plain_begin(params), jnp.zeros((), jnp.uint32)

    both = jax.jit(drawing, donate_argnums=0), begin
    ours = partial(found.steps[0], found.batch)
    theirs = stepping(both, found.params[0], found.batch, jax.random.key(0))
    value = jax.jit(loss)(found.params[0], found.batch, same)
    return Twin(ours, theirs, ([float(ours().loss)], [float(value)]))


def dense(p: Any, path: str, x: Any) -> Any:
    """A linear layer by the path of its module."""
    return x @ p[f"{path}weight"] + p[f"{path}bias"]


def perceptron(p: Any, path: str, x: Any, count: int, activation: Callable[[Any], Any]) -> Any:
    """A multilayer perceptron of so many layers by the path of its module."""
    for i in range(count - 1):
        x = activation(dense(p, f"{path}layers[{i}].", x))
    return dense(p, f"{path}layers[{count - 1}].", x)


def cross_entropy(scores: Any, labels: Any) -> Any:
    """By one-hot labels, whose products XLA runs faster on a CPU than a gather and its scatter."""
    right = jax.nn.one_hot(labels, scores.shape[-1], dtype=scores.dtype) * jax.nn.log_softmax(scores)
    return -jnp.mean(right.sum(axis=-1))

"""Examples of the gallery that train networks on rows, pictures and text, by hand in JAX."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from wholestep_tools.bench.gallery_twins import Twin
from wholestep_tools.bench.gallery_twins.caught import training
from wholestep_tools.bench.gallery_twins.steps import (
    adam,
    constant,
    cosine,
    cross_entropy,
    dense,
    perceptron,
    stepping,
    trained,
    twin_of,
)


def contrastive(example: Any) -> Twin:
    """Two views of each row, told apart from those of others by products of normalized features."""

    def features(p: Any, x: Any) -> Any:
        h = dense(p, "", x)
        return h / jnp.sqrt(jnp.sum(h**2, axis=1, keepdims=True) + 1e-6)

    def loss(p: Any, batch: Any) -> Any:
        alike = features(p, batch["first"]) @ features(p, batch["second"]).T / 0.2
        own = jnp.arange(len(alike))
        return 0.5 * (cross_entropy(alike, own) + cross_entropy(alike.T, own))

    return trained(example, adam(loss, constant(1e-2)))


def dqn(example: Any) -> Twin:
    """The worth of the way that was taken, against its target."""

    def loss(p: Any, batch: Any) -> Any:
        worth = jnp.take_along_axis(perceptron(p, "", batch["room"], 2, jax.nn.relu), batch["way"][:, None], axis=1)
        return jnp.mean((worth[:, 0] - batch["target"]) ** 2)

    return trained(example, adam(loss, constant(5e-3)))


def flow(example: Any) -> Twin:
    """Four coupling layers and their volume."""

    def loss(p: Any, x: Any) -> Any:
        volume = jnp.zeros(len(x), x.dtype)
        for number in range(4):
            fixed, moved = x[:, number % 2], x[:, 1 - number % 2]
            log_scale, shift = perceptron(p, f"[{number}].", fixed[:, None], 2, jnp.tanh).T
            moved = (moved - shift) * jnp.exp(-log_scale)
            x = jnp.stack([fixed, moved] if number % 2 == 0 else [moved, fixed], axis=1)
            volume = volume - log_scale
        return jnp.mean(0.5 * jnp.sum(x**2, axis=1) - volume) + jnp.log(2 * jnp.pi).astype(x.dtype)

    return trained(example, adam(loss, cosine(1e-2, 600)))


def graphs(example: Any) -> Twin:
    """Two layers that mix a node with its neighbours, judged at the nodes with a label; the scores come too."""

    def layer(p: Any, number: int, x: Any, mixing: Any) -> Any:
        return dense(p, f"[{number}].own.", x) / 10 + dense(p, f"[{number}].others.", mixing @ x)

    def loss(p: Any, batch: Any) -> Any:
        h = jax.nn.relu(layer(p, 0, batch["x"], batch["mixing"]))
        scores = layer(p, 1, h, batch["mixing"])
        return cross_entropy(scores[batch["labelled"]], batch["label"]), scores

    return trained(example, adam(loss, constant(0.01), decay=0.1, has_aux=True))


def linear_memory(example: Any) -> Twin:
    """A matrix that fades and is added to in a scan; tables are read by one-hot products, as in cross_entropy."""
    letters, numbers, width = example.LETTERS, example.NUMBERS, example.WIDTH

    def loss(p: Any, batch: Any) -> Any:
        def key(letter: Any) -> Any:
            return jax.nn.softmax(dense(p, "keys.", letter))

        first = jax.nn.one_hot(batch["pairs"][..., 0], letters, dtype=jnp.float32) @ p["letters.weight"]
        second = jax.nn.one_hot(batch["pairs"][..., 1], numbers, dtype=jnp.float32) @ p["numbers.weight"]

        def meet(state: Any, pair: Any) -> Any:
            share, number = pair
            kept = jnp.exp(-jnp.exp(p["fading"]) * share)
            return kept[:, :, None] * state + share[:, :, None] * number[:, None], None

        start = jnp.zeros((len(batch["asked"]), width, width), jnp.float32)
        state = lax.scan(meet, start, (key(first), second))[0]
        letter = jax.nn.one_hot(batch["asked"], letters, dtype=jnp.float32) @ p["letters.weight"]
        read = jnp.sum(key(letter)[:, :, None] * state, axis=1)
        return cross_entropy(dense(p, "head.", jax.nn.silu(dense(p, "gate.", letter)) * read), batch["answers"])

    return trained(example, adam(loss, cosine(2e-2, 800)))


def lora(example: Any) -> Twin:
    """A frozen layer with a correction of rank one."""
    found = training(example)

    def loss(p: Any, batch: Any) -> Any:
        y = batch["x"] @ batch["weight"] + (batch["x"] @ p["down"]) @ p["up"]
        return jnp.mean((y - batch["y"]) ** 2)

    batch = {**found.batch, "weight": found.steps[0].model.weight}
    return twin_of(
        partial(found.steps[0], found.batch), stepping(adam(loss, cosine(0.02, 500)), found.params[0], batch)
    )


def lstm_language(example: Any) -> Twin:
    """Long short-term memory over letters, embedded by one-hot products, for the reason in cross_entropy."""
    letters, width = example.LETTERS, 32

    def memory(p: Any, x: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(z + h @ p["memory.cells[0].weight_hh"] + p["memory.cells[0].bias_hh"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((len(x), width), x.dtype)
        from_x = x @ p["memory.cells[0].weight_ih"] + p["memory.cells[0].bias_ih"]
        return lax.scan(step, (start, start), from_x.transpose(1, 0, 2))[1].transpose(1, 0, 2)

    def loss(p: Any, text: Any) -> Any:
        x = jax.nn.one_hot(text[:, :-1], letters, dtype=jnp.float32) @ p["table.weight"]
        scores = dense(p, "head.", memory(p, x))
        return cross_entropy(scores.reshape(-1, letters), text[:, 1:].reshape(-1))

    return trained(example, adam(loss, cosine(1e-2, 100)))


def meta_learning(example: Any) -> Twin:
    """Five steps of descent for each of sixteen tasks, and the gradient through them."""

    def misfit(p: Any, x: Any, y: Any) -> Any:
        return jnp.mean((perceptron(p, "", x, 3, jnp.tanh) - y) ** 2)

    def after_steps(p: Any, task: Any) -> Any:
        for _ in range(example.STEPS):
            gradient = jax.grad(misfit)(p, task["x"][:10], task["y"][:10])
            p = jax.tree.map(lambda w, g: w - example.RATE * g, p, gradient)
        return misfit(p, task["x"][10:], task["y"][10:])

    def loss(p: Any, tasks: Any) -> Any:
        return jnp.mean(jax.vmap(after_steps, in_axes=(None, 0))(p, tasks))

    return trained(example, adam(loss, cosine(1e-2, 500), most=1.0))


def pole(example: Any) -> Twin:
    """Two networks, of moves and of the worth of a place, on a thousand steps of a game."""

    def loss(p: Any, batch: Any) -> Any:
        logs = jax.nn.log_softmax(perceptron(p, "moves.", batch["states"], 3, jnp.tanh))
        worth = 30 * perceptron(p, "worth.", batch["states"], 3, jnp.tanh)[:, 0]
        ratio = jnp.exp(jnp.sum(logs * batch["moves"], axis=1) - batch["logs"])
        gain = jnp.minimum(ratio * batch["gains"], jnp.clip(ratio, 0.8, 1.2) * batch["gains"])
        routine = jnp.sum(jnp.exp(logs) * logs, axis=1)
        return jnp.mean(-gain + 0.5 * (worth - batch["worth"]) ** 2 / 900 + 0.01 * routine)

    return trained(example, adam(loss, cosine(3e-3, 480), most=0.5))


def ppo(example: Any) -> Twin:
    """A clipped ratio of a bell-shaped policy's probabilities."""

    def loss(p: Any, batch: Any) -> Any:
        mean, spread = perceptron(p, "mean.", batch["state"], 2, jnp.tanh)[:, 0], p["log_spread"]
        ratio = jnp.exp(-0.5 * ((batch["move"] - mean) / jnp.exp(spread)) ** 2 - spread - batch["before"])
        near = jnp.clip(ratio, 1 - example.CLIP, 1 + example.CLIP)
        return -jnp.mean(jnp.minimum(ratio * batch["gain"], near * batch["gain"]))

    return trained(example, adam(loss, cosine(1e-2, 600)))


def recommender(example: Any) -> Twin:
    """Products of rows of two tables."""

    def loss(p: Any, batch: Any) -> Any:
        people, films = p["people.weight"][batch["pairs"][:, 0]], p["films.weight"][batch["pairs"][:, 1]]
        return jnp.mean((jnp.sum(people * films, axis=1) - batch["ratings"]) ** 2)

    return trained(example, adam(loss, cosine(0.03, 1000)))


def unet(example: Any) -> Twin:
    """Convolutions down and up with the channels last, pooled by a reshape, as XLA runs them fastest."""

    def convolved(p: Any, path: str, x: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        made = lax.conv_general_dilated(x, p[f"{path}.weight"], (1, 1), "SAME", dimension_numbers=layout)
        return made + p[f"{path}.bias"]

    def loss(p: Any, batch: Any) -> Any:
        near = jax.nn.relu(convolved(p, "down", batch["x"]))
        n, height, width, c = near.shape
        pooled = near.reshape(n, height // 2, 2, width // 2, 2, c).max((2, 4))
        deep = jax.nn.relu(convolved(p, "deep", pooled))
        parts = jnp.einsum("nhwc,cdab->nhawbd", deep, p["up.weight"])
        far = parts.reshape(n, height, width, -1) + p["up.bias"]
        scores = convolved(p, "head", jax.nn.relu(convolved(p, "last", jnp.concatenate([near, far], axis=-1))))
        return jnp.mean(jax.nn.softplus(scores) - scores * batch["y"])

    found = training(example)
    kernels = {f"{name}.weight" for name in ("down", "deep", "last", "head")}
    params = {name: x.transpose(2, 3, 1, 0) if name in kernels else x for name, x in found.params[0].items()}
    batch = {name: x.transpose(0, 2, 3, 1) for name, x in found.batch.items()}
    return twin_of(partial(found.steps[0], found.batch), stepping(adam(loss, cosine(1e-2, 160)), params, batch))


def recurrent(example: Any) -> Twin:
    """A gated recurrent unit over numbers with marks."""

    def loss(p: Any, batch: Any) -> Any:
        def step(h: Any, from_x: Any) -> Any:
            from_h = h @ p["memory.cells[0].weight_hh"] + p["memory.cells[0].bias_hh"]
            (xr, xz, xn), (hr, hz, hn) = jnp.split(from_x, 3, axis=-1), jnp.split(from_h, 3, axis=-1)
            z = jax.nn.sigmoid(xz + hz)
            return (1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * h, None

        from_x = batch["x"] @ p["memory.cells[0].weight_ih"] + p["memory.cells[0].bias_ih"]
        h = lax.scan(step, jnp.zeros((len(from_x), 32), jnp.float32), from_x.transpose(1, 0, 2))[0]
        return jnp.mean((dense(p, "head.", h)[:, 0] - batch["y"]) ** 2)

    return trained(example, adam(loss, cosine(1e-2, 1000)))


def word_vectors(example: Any) -> Twin:
    """Products of words with companions and with others."""

    def loss(p: Any, batch: Any) -> Any:
        scores = jnp.sum(p["words.weight"][batch["words"]][:, None] * p["company.weight"][batch["others"]], axis=-1)
        return jnp.mean(jax.nn.softplus(-scores[:, 0]) + jnp.sum(jax.nn.softplus(scores[:, 1:]), axis=1))

    return trained(example, adam(loss, cosine(2e-2, 800)))

"""Examples of the gallery that draw random numbers, by hand in JAX, which draws its own where it is timed.

Both libraries are compared on the same numbers: those that Wholestep draws in the first step.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

import wholestep as ws
from wholestep_tools.bench.gallery_twins import Twin
from wholestep_tools.bench.gallery_twins.caught import Watched, first_call, jitted, training
from wholestep_tools.bench.gallery_twins.functions import calling
from wholestep_tools.bench.gallery_twins.steps import CHECKED, constant, cosine, dense, descent, drawn, perceptron


def first_key(seed: int) -> Any:
    """The key that a step made with this seed hands to its loss first."""
    return ws.random.fold_in(ws.random.key(seed), 0)


def bayes(example: Any) -> Twin:
    """Sixteen draws of the weights."""

    def loss(p: Any, batch: Any, draws: Any) -> Any:
        weights = p["mean"] + jnp.exp(p["log_width"]) * draws
        misfit = 0.5 * jnp.sum((batch["x"] @ weights.T - batch["y"][:, None]) ** 2, axis=0) / example.NOISE**2
        divergence = 0.5 * jnp.sum(p["mean"] ** 2 + jnp.exp(2 * p["log_width"]) - 1) - jnp.sum(p["log_width"])
        return jnp.mean(misfit) + divergence

    same = ws.random.normal(first_key(1), (16, 5))
    return drawn(example, loss, cosine(0.05, 2000), lambda key: jax.random.normal(key, (16, 5), "float32"), same)


def diffusion(example: Any) -> Twin:
    """Levels and noise for each point."""
    kept_at = example.KEPT

    def loss(p: Any, batch: Any, draws: Any) -> Any:
        level, noise = draws
        kept = jnp.asarray(kept_at)[level][:, None]
        noisy = jnp.sqrt(kept) * batch + jnp.sqrt(1 - kept) * noise
        angle = level.astype(jnp.float32)[:, None] * np.array([0.1, 0.3, 1.0], np.float32)
        x = jnp.concatenate([noisy, jnp.sin(angle), jnp.cos(angle)], axis=1)
        return jnp.mean((perceptron(p, "", x, 3, jax.nn.silu) - noise) ** 2)

    def draws(key: Any) -> Any:
        first, second = jax.random.split(key)
        level = jax.random.randint(first, (200,), 0, example.LEVELS)
        return level, jax.random.normal(second, (200, 2), "float32")

    first, second = ws.random.split(first_key(0), 2)
    same = ws.random.randint(first, (200,), 0, example.LEVELS), ws.random.normal(second, (200, 2))
    return drawn(example, loss, cosine(1e-2, 1200), draws, same)


def gan(example: Any) -> Twin:
    """A step of the discriminator and one of the generator, each with the parameters of the other."""
    found = training(example)
    (judging, making), noise = found.steps, found.batch["noise"]

    def ours() -> Any:
        judged = judging({"noise": noise, "real": found.batch["real"], "maker": making.params})
        made = making({"noise": noise, "judge": judging.params})
        return judged.loss, made.loss

    def score(judge: Any, x: Any) -> Any:
        return judge["offset"] + judge["slope"] * x + judge["curve"] * x**2 / 2

    def samples(maker: Any, noise: Any) -> Any:
        return maker["shift"] + jnp.exp(maker["log_width"]) * noise

    def judge_loss(judge: Any, maker: Any, noise: Any, real: Any) -> Any:
        true, false = score(judge, real), score(judge, samples(maker, noise))
        slope = jax.grad(lambda x: jnp.sum(score(judge, x)))(real)
        return jnp.mean(jax.nn.softplus(-true) + jax.nn.softplus(false)) + 0.3 * jnp.mean(slope**2)

    def maker_loss(maker: Any, judge: Any, noise: Any) -> Any:
        return jnp.mean(jax.nn.softplus(-score(judge, samples(maker, noise))))

    (judge_step, begin), (maker_step, _) = descent(judge_loss, 0.2), descent(maker_loss, 0.2)
    judge, maker = begin(found.params[0]), begin(found.params[1])
    held = jnp.asarray(noise), jnp.asarray(found.batch["real"])

    def theirs() -> Any:
        nonlocal judge, maker
        judge, judged = judge_step(judge, maker, *held)
        maker, made = maker_step(maker, judge, held[0])
        return jax.block_until_ready((judged, made))

    return Twin(ours, theirs, ([ours() for _ in range(CHECKED)], [theirs() for _ in range(CHECKED)]))


def hmc(example: Any) -> Twin:
    """Twelve hundred draws after twenty leapfrog steps each, one scan."""

    def chain(momenta: Any, chances: Any, x: Any, y: Any) -> Any:
        def energy(w: Any) -> Any:
            return 0.5 * jnp.sum((y - x @ w) ** 2) / 0.3**2 + 0.5 * jnp.sum(w**2)

        def leapfrog(_: Any, state: Any) -> Any:
            w, momentum = state
            momentum = momentum - 0.01 * jax.grad(energy)(w)
            w = w + 0.02 * momentum
            return w, momentum - 0.01 * jax.grad(energy)(w)

        def draw(w: Any, given: Any) -> Any:
            momentum, chance = given
            moved, after = lax.fori_loop(0, 20, leapfrog, (w, momentum))
            change = energy(moved) + 0.5 * jnp.sum(after**2) - energy(w) - 0.5 * jnp.sum(momentum**2)
            taken = jnp.log(chance) < -change
            w = jnp.where(taken, moved, w)
            return w, (w, taken)

        return lax.scan(draw, jnp.zeros(3), (momenta, chances))[1]

    def whole(key: Any, x: Any, y: Any) -> Any:
        first, second = jax.random.split(key)
        return chain(jax.random.normal(first, (1200, 3)), jax.random.uniform(second, (1200,)), x, y)

    found = jitted(example)
    key, x, y = found.args
    keys = [ws.random.split(each, 2) for each in ws.random.split(key, 1200)]
    momenta = np.stack([ws.random.normal(first, (3,), "float64") for first, _ in keys])
    chances = np.stack([ws.random.uniform(second, (), "float64") for _, second in keys])
    ours = partial(found.called, *found.args)
    numbers = ours()[0], jax.jit(chain)(momenta, chances, x, y)[0]
    return Twin(ours, calling(whole, jax.random.key(0), x, y), numbers)


def private(example: Any) -> Twin:
    """A step of descent by clipped gradients of samples, with noise."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        return jax.nn.softplus(-y * (x @ w["weight"] + w["bias"]))

    def step(w: Any, batch: Any, noise: Any) -> Any:
        each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(w, batch["x"], batch["y"])
        scale = jnp.minimum(1.0, example.CLIP / jnp.sqrt(jnp.sum(each["weight"] ** 2, axis=1) + each["bias"] ** 2))
        clipped = {"weight": scale @ each["weight"], "bias": jnp.sum(scale * each["bias"])}
        strength, rate = example.NOISE * example.CLIP, example.RATE
        return {name: w[name] - rate * (clipped[name] + strength * noise[name]) / len(batch["y"]) for name in w}

    def drawing(w: Any, batch: Any, key: Any) -> Any:
        first, second = jax.random.split(key)
        noise = {"weight": jax.random.normal(first, (5,), "float32"), "bias": jax.random.normal(second, (), "float32")}
        return step(w, batch, noise)

    found = first_call(example.main, example, "private_step", Watched(example.private_step))
    w, batch, key = found.args
    keys = dict(zip(w, ws.random.split(key, 2), strict=True))
    noise = {name: ws.random.normal(keys[name], np.shape(w[name])) for name in w}
    ours = partial(found.called, *found.args)
    return Twin(ours, calling(drawing, w, batch, jax.random.key(0)), (ours(), jax.jit(step)(w, batch, noise)))


def reinforce(example: Any) -> Twin:
    """Episodes in a scan, and the score function's gradient."""
    places, limit, count = example.PLACES, example.LIMIT, example.EPISODES

    def loss(p: Any, _: Any, draws: Any) -> Any:
        logits = p[""]

        def move(state: Any, chance: Any) -> Any:
            place, done = state
            chances = jax.nn.log_softmax(logits[place])
            right = chance < jnp.exp(chances[:, 1])
            chosen = jnp.where(done, 0.0, jnp.where(right, chances[:, 1], chances[:, 0]))
            place = jnp.where(done, place, jnp.clip(place + 2 * right - 1, 0, places - 1))
            return (place, done | (place == places - 1)), (chosen, jnp.where(done, 0.0, 1.0))

        start = jnp.zeros(count, int), jnp.zeros(count, bool)
        _, (chosen, costs) = lax.scan(move, start, draws)
        left = jnp.cumsum(costs[::-1], axis=0)[::-1]
        taken = jnp.sum(costs, axis=1, keepdims=True)
        baseline = jnp.sum(left, axis=1, keepdims=True) / jnp.maximum(taken, 1.0)
        return jnp.mean(jnp.sum(chosen * lax.stop_gradient(left - baseline), axis=0)) / limit

    same = np.stack([ws.random.uniform(key, (count,)) for key in ws.random.split(first_key(0), limit)])
    return drawn(example, loss, constant(0.1), lambda key: jax.random.uniform(key, (limit, count), "float32"), same)


def two_hills(example: Any) -> Twin:
    """The divergence of a mixture of four bell curves from one of two, over draws of each."""

    def log_density(law: Any, points: Any) -> Any:
        white = (points[..., None, :] - law["means"]) / jnp.exp(law["logs"])
        shares = law["shares"] - logsumexp(law["shares"]) - jnp.sum(law["logs"], axis=1) - np.log(2 * np.pi)
        return logsumexp(shares - 0.5 * jnp.sum(white**2, axis=-1), axis=-1)

    def loss(p: Any, hills: Any, draws: Any) -> Any:
        points = p["means"] + jnp.exp(p["logs"]) * draws
        far = log_density(p, points) - log_density(hills, points)
        return jnp.sum(jax.nn.softmax(p["shares"]) * jnp.mean(far, axis=0))

    same = ws.random.normal(first_key(0), (64, 4, 2), "float64")
    return drawn(example, loss, cosine(0.05, 1500), lambda key: jax.random.normal(key, (64, 4, 2)), same)


def vae(example: Any) -> Twin:
    """A linear encoder and decoder, and one draw for each row."""

    def loss(p: Any, batch: Any, draws: Any) -> Any:
        mean, log_std = jnp.split(dense(p, "encoder.", batch), 2, axis=1)
        z = mean + jnp.exp(log_std) * draws
        spread = p["log_noise"]
        misfit = 0.5 * ((batch - dense(p, "decoder.", z)) / jnp.exp(spread)) ** 2 + spread + 0.5 * np.log(2 * np.pi)
        divergence = 0.5 * (mean**2 + jnp.exp(2 * log_std) - 1) - log_std
        return jnp.mean(jnp.sum(misfit, axis=1) + jnp.sum(divergence, axis=1))

    same = ws.random.normal(first_key(0), (100, 2))
    return drawn(example, loss, cosine(2e-2, 600), lambda key: jax.random.normal(key, (100, 2), "float32"), same)

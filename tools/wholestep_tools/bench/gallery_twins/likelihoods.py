"""Examples of the gallery that climb a likelihood or a bound of one by its gradient, by hand in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import erf, gammaln, logsumexp

from wholestep_tools.bench.gallery_twins import Twin
from wholestep_tools.bench.gallery_twins.caught import jitted
from wholestep_tools.bench.gallery_twins.functions import called, calling, minimized


def bayesian_optimisation(example: Any) -> Twin:
    """The expected improvement at twelve points and its gradient."""

    def promise(at: Any, x: Any, y: Any) -> Any:
        near = jnp.exp(-0.5 * ((x[:, None] - x) / example.WIDTH) ** 2) + example.JITTER * jnp.eye(len(x))
        across = jnp.exp(-0.5 * ((at[:, None] - x) / example.WIDTH) ** 2)
        factor = jnp.linalg.cholesky(near)
        white = solve_triangular(factor, across.T, lower=True)
        mean = white.T @ solve_triangular(factor, y, lower=True)
        width = jnp.sqrt(jnp.maximum(1 - jnp.sum(white**2, axis=0), 1e-10))
        z = (jnp.min(y) - mean) / width
        bell, share = jnp.exp(-0.5 * z**2) / np.sqrt(2 * np.pi), 0.5 * (1 + erf(z / np.sqrt(2)))
        return -jnp.sum(width * (z * share + bell))

    found = minimized(example)
    return called(found, calling(jax.value_and_grad(promise), *found.args))


def counts(example: Any) -> Twin:
    """The likelihood of a negative binomial law and its gradient."""

    def surprise(logs: Any, counts: Any) -> Any:
        mean, size = jnp.exp(logs[0]), jnp.exp(logs[1])
        log_chance = gammaln(counts + size) - gammaln(size) - gammaln(counts + 1)
        return -jnp.sum(log_chance + size * jnp.log(size / (size + mean)) + counts * jnp.log(mean / (size + mean)))

    found = minimized(example)
    return called(found, calling(jax.value_and_grad(surprise), *found.args))


def deep_gaussian_process(example: Any) -> Twin:
    """Both layers' likelihoods and their gradient."""
    pseudo = example.PSEUDO

    def kernel(a: Any, b: Any, width: Any) -> Any:
        return jnp.exp(-0.5 * ((a[:, None] - b) / width) ** 2)

    def surprise(x: Any, y: Any, width: Any, noise: Any) -> Any:
        near = kernel(x, x, width) + noise * jnp.eye(len(x))
        return 0.5 * y @ jnp.linalg.solve(near, y) + 0.5 * jnp.linalg.slogdet(near)[1]

    def loss(flat: Any, x: Any, y: Any, places: Any) -> Any:
        width = jnp.exp(flat[pseudo])
        near = kernel(places, places, width) + 1e-4 * jnp.eye(pseudo)
        warped = kernel(x, places, width) @ jnp.linalg.solve(near, flat[:pseudo])
        first = surprise(places, flat[:pseudo], width, 1e-4) + 0.5 * jnp.sum((flat[pseudo : pseudo + 2] / 0.3) ** 2)
        return first + surprise(warped, y, jnp.exp(flat[pseudo + 1]), jnp.exp(flat[pseudo + 2]))

    found = minimized(example)
    return called(found, calling(jax.value_and_grad(loss), *found.args))


def hidden_markov(example: Any) -> Twin:
    """The likelihood of six thousand signs in a scan, and the expected counts."""

    def likelihood(logs: Any, signs: Any) -> Any:
        def advance(state: Any, sign: Any) -> Any:
            return logsumexp(state[:, None] + logs["moves"], axis=0) + logs["signs"][:, sign], None

        return logsumexp(lax.scan(advance, logs["start"] + logs["signs"][:, signs[0]], signs[1:])[0])

    found = jitted(example)
    return called(found, calling(jax.value_and_grad(likelihood), *found.args))


def independent(example: Any) -> Twin:
    """The likelihood of mixtures of sounds and its gradient."""

    def surprise(flat: Any, mixed: Any) -> Any:
        apart = flat.reshape(example.SOURCES, example.SOURCES)
        sources = apart @ mixed
        log_cosh = jnp.logaddexp(sources, -sources) - np.log(2)
        return jnp.mean(jnp.sum(log_cosh, axis=0)) - jnp.linalg.slogdet(apart)[1]

    found = minimized(example)
    return called(found, calling(jax.value_and_grad(surprise), *found.args))


def latent_curve(example: Any) -> Twin:
    """The likelihood of six functions of one process and its gradient in the places."""
    rows = example.ROWS

    def surprise(flat: Any, table: Any) -> Any:
        places, width, noise = flat[:rows], jnp.exp(flat[rows]), jnp.exp(flat[rows + 1])
        near = jnp.exp(-0.5 * ((places[:, None] - places) / width) ** 2) + noise * jnp.eye(rows)
        factor = jnp.linalg.cholesky(near)
        white = solve_triangular(factor, table, lower=True)
        logs = table.shape[1] * jnp.sum(jnp.log(jnp.diag(factor)))
        return 0.5 * jnp.sum(white**2) + logs + 0.5 * jnp.sum(places**2)

    found = minimized(example)
    return called(found, calling(jax.value_and_grad(surprise), *found.args))


def mixture(example: Any) -> Twin:
    """The likelihood of a mixture of three bell curves and its gradient."""

    def loss(flat: Any, points: Any) -> Any:
        shares, means, lower = flat[:3], flat[3:9].reshape(3, 2), flat[9:].reshape(3, 3)
        far = points[:, None] - means
        first = jnp.exp(lower[:, 0]) * far[..., 0]
        second = lower[:, 2] * far[..., 0] + jnp.exp(lower[:, 1]) * far[..., 1]
        logs = shares - logsumexp(shares) + lower[:, 0] + lower[:, 1]
        return -jnp.mean(logsumexp(logs - 0.5 * (first**2 + second**2), axis=1)) + np.log(2 * np.pi)

    found = minimized(example)
    return called(found, calling(jax.value_and_grad(loss), *found.args))


def natural_gradient(example: Any) -> Twin:
    """The divergence from a bell curve over sixty-four draws, and its gradient."""
    precision, mean = example.PRECISION, example.MEAN

    def loss(law: Any, draws: Any) -> Any:
        points = law["mean"] + jnp.exp(law["log_width"]) * draws - mean
        return 0.5 * jnp.mean(jnp.sum(points @ precision * points, axis=1)) - jnp.sum(law["log_width"])

    found = jitted(example)
    return called(found, calling(jax.value_and_grad(loss), *found.args))

"""Examples of the gallery that compile a function and train nothing, by hand in JAX."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular

from wholestep_tools.bench.gallery_twins import Call, Twin
from wholestep_tools.bench.gallery_twins.caught import Given, Watched, first_call, jitted


def calling(f: Any, *given: Any) -> Call:
    """Calls of a jitted function on JAX's arrays; its results are waited for."""
    compiled, held = jax.jit(f), jax.tree.map(jnp.asarray, given)
    return lambda: jax.block_until_ready(compiled(*held))


def called(found: Given, theirs: Call) -> Twin:
    """The twin of a function without random numbers: their results must agree."""
    ours = partial(found.called, *found.args, **found.kwargs)
    return Twin(ours, theirs, (ours(), theirs()))


def minimized(example: Any) -> Given:
    """The function with its gradient that an example gives to SciPy's minimizer, at its start."""
    found = first_call(example.main, example, "minimize", Watched(example.minimize))
    value_and_grad, start = found.args
    return Given(value_and_grad, (start, *found.kwargs.get("args", ())), {})


def derivatives(example: Any) -> Twin:
    """Six derivatives of a function, one derived from the other."""

    def derived(f: Any) -> Any:
        return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]

    def tower(x: Any) -> Any:
        f, found = jnp.tanh, []
        for _ in range(example.ORDER + 1):
            found.append(f(x))
            f = derived(f)
        return jnp.stack(found)

    found = jitted(example)
    return called(found, calling(tower, *found.args))


def finite_elements(example: Any) -> Twin:
    """The Hessian of a membrane's energy."""
    cells, points, weights = example.CELLS, example.POINTS, example.WEIGHTS
    left = np.arange(cells) / cells

    def energy(inside: Any) -> Any:
        u = jnp.zeros((cells + 1, cells + 1)).at[1:-1, 1:-1].set(inside.reshape(cells - 1, cells - 1))
        first, second, third, fourth = u[:-1, :-1], u[1:, :-1], u[:-1, 1:], u[1:, 1:]
        total = 0.0
        for s, across in zip(points, weights, strict=True):
            for t, along in zip(points, weights, strict=True):
                a, b = (1 + s) / 2, (1 + t) / 2
                value = (1 - a) * (1 - b) * first + a * (1 - b) * second + (1 - a) * b * third + a * b * fourth
                dx = cells * ((1 - b) * (second - first) + b * (fourth - third))
                dy = cells * ((1 - a) * (third - first) + a * (fourth - second))
                rows, columns = np.sin(np.pi * (left[:, None] + a / cells)), np.sin(np.pi * (left + b / cells))
                inner = 0.5 * (dx**2 + dy**2) - 2 * np.pi**2 * rows * columns * value
                total = total + across * along / 4 / cells**2 * jnp.sum(inner)
        return total

    found = jitted(example)
    return called(found, calling(jax.hessian(energy), *found.args))


def function_space(example: Any) -> Twin:
    """Five thousand steps down in a space of functions, in a loop."""

    def descended(near: Any, y: Any, steps: int, rate: Any) -> Any:
        def loss(values: Any) -> Any:
            return 0.5 * jnp.sum((values - y) ** 2)

        def down(_: Any, bumps: Any) -> Any:
            return bumps - rate * (jax.grad(loss)(bumps @ near) + example.SHRINK * bumps)

        return lax.fori_loop(0, steps, down, jnp.zeros(len(y)))

    found = jitted(example)
    near, y, steps, rate = found.args
    return called(found, calling(lambda near, y, rate: descended(near, y, steps, rate), near, y, rate))


def gaussian_process(example: Any) -> Twin:
    """The marginal likelihood and its gradient, as SciPy's minimizer calls them."""

    def surprise(p: Any, x: Any, y: Any) -> Any:
        near = jnp.exp(p[0]) * jnp.exp(-0.5 * ((x[:, None] - x) / jnp.exp(p[1])) ** 2)
        factor = jnp.linalg.cholesky(near + jnp.exp(p[2]) * jnp.eye(len(x)))
        white = solve_triangular(factor, y, lower=True)
        return 0.5 * white @ white + jnp.sum(jnp.log(jnp.diag(factor)))

    found = minimized(example)
    return called(found, calling(jax.value_and_grad(surprise), *found.args))


def logistic(example: Any) -> Twin:
    """The gradient and the Hessian of a logistic regression."""

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return jnp.mean(jax.nn.softplus(-y * (x @ weights))) + 0.5e-2 * jnp.sum(weights**2)

    found = jitted(example)
    return called(found, calling(lambda *given: (jax.grad(loss)(*given), jax.hessian(loss)(*given)), *found.args))


def molecules(example: Any) -> Twin:
    """A thousand steps of sixteen particles, in a scan."""
    step = example.STEP

    def potential(places: Any) -> Any:
        squares = jnp.sum((places[example.FIRST] - places[example.SECOND]) ** 2, axis=1)
        inverse = 1 / squares**3
        return jnp.sum(4 * (inverse**2 - inverse))

    def trajectory(places: Any, speeds: Any) -> Any:
        def advance(state: Any, _: Any) -> Any:
            places, speeds, force = state
            speeds = speeds + 0.5 * step * force
            places = places + step * speeds
            force = -jax.grad(potential)(places)
            speeds = speeds + 0.5 * step * force
            return (places, speeds, force), potential(places) + 0.5 * jnp.sum(speeds**2)

        return lax.scan(advance, (places, speeds, -jax.grad(potential)(places)), length=1000)[1]

    found = first_call(example.main, example, "trajectory", Watched(example.trajectory))
    return called(found, calling(trajectory, *found.args))


def rosenbrock(example: Any) -> Twin:
    """The height in a curved valley and its gradient."""

    def height(x: Any) -> Any:
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    found = minimized(example)
    return called(found, calling(jax.value_and_grad(height), *found.args))

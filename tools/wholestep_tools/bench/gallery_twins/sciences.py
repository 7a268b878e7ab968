"""Examples of the gallery that train simulations, circuits and fits to an equation, by hand in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

from wholestep_tools.bench.gallery_twins import Twin
from wholestep_tools.bench.gallery_twins.steps import adam, constant, cosine, perceptron, trained


def fluid(example: Any) -> Twin:
    """Advection and a pressure solve by Fourier transforms."""
    size, waves, squares = example.SIZE, example.WAVES, example.SQUARES

    def without_divergence(u: Any, v: Any) -> Any:
        a, b = jnp.fft.fft2(u), jnp.fft.fft2(v)
        along = (a * waves[:, None] + b * waves) / squares
        return jnp.fft.ifft2(a - along * waves[:, None]).real, jnp.fft.ifft2(b - along * waves).real

    def carried(field: Any, u: Any, v: Any) -> Any:
        rows, columns = jnp.indices((size, size)).astype(u.dtype)
        x, y = rows - u, columns - v
        i, j = jnp.floor(lax.stop_gradient(x)), jnp.floor(lax.stop_gradient(y))
        s, t = x - i, y - j
        i, j = i.astype(int) % size, j.astype(int) % size
        below, right = (i + 1) % size, (j + 1) % size
        low, high = (1 - t) * field[i, j] + t * field[i, right], (1 - t) * field[below, j] + t * field[below, right]
        return (1 - s) * low + s * high

    def advance(_: Any, state: Any) -> Any:
        u, v, smoke = state
        u, v = without_divergence(carried(u, u, v), carried(v, u, v))
        return u, v, carried(smoke, u, v)

    def loss(p: Any, batch: Any) -> Any:
        u, v = without_divergence(*p[""])
        ended = lax.fori_loop(0, example.STEPS, advance, (u, v, batch["start"]))[2]
        return jnp.mean((ended - batch["end"]) ** 2)

    return trained(example, adam(loss, constant(0.05)))


def hypergradient(example: Any) -> Twin:
    """Thirty steps of descent with momentum in a scan, and the gradient through them."""

    def misfit(w: Any) -> Any:
        return 0.5 * jnp.sum(example.CURVATURE * w**2)

    def loss(p: Any, batches: Any) -> Any:
        rate, momentum = jnp.exp(p[""][0]), jax.nn.sigmoid(p[""][1])

        def descend(state: Any, _: Any) -> Any:
            w, speed = state
            speed = momentum * speed + jax.grad(misfit)(w)
            return (w - rate * speed, speed), None

        (w, _), _ = lax.scan(descend, (jnp.ones(3), jnp.zeros(3)), batches)
        return jnp.log(misfit(w))

    return trained(example, adam(loss, cosine(0.1, 400)))


def neural_ode(example: Any) -> Twin:
    """Runge and Kutta's steps in a scan."""
    step = example.STEP

    def loss(p: Any, batch: Any) -> Any:
        def f(x: Any) -> Any:
            return perceptron(p, "", x**3, 2, jnp.tanh)

        def advance(x: Any, _: Any) -> Any:
            a = f(x)
            b = f(x + 0.5 * step * a)
            c = f(x + 0.5 * step * b)
            d = f(x + step * c)
            x = x + step / 6 * (a + 2 * b + 2 * c + d)
            return x, x

        return jnp.mean((lax.scan(advance, batch["start"], length=10)[1] - batch["path"]) ** 2)

    return trained(example, adam(loss, cosine(1e-2, 1200)))


def optics(example: Any) -> Twin:
    """Characteristic matrices of three films."""
    indices, glass = example.INDICES, example.GLASS

    def loss(p: Any, colours: Any) -> Any:
        rows = [jnp.ones(len(colours), complex), jnp.full(len(colours), glass + 0j)]
        for number in (2, 1, 0):
            phase = 2 * jnp.pi * indices[number] * p[""][number] / colours
            cos, sin = jnp.cos(phase), jnp.sin(phase)
            rows = [
                cos * rows[0] + 1j * sin / indices[number] * rows[1],
                1j * indices[number] * sin * rows[0] + cos * rows[1],
            ]
        return jnp.mean(jnp.abs((rows[0] - rows[1]) / (rows[0] + rows[1])) ** 2)

    return trained(example, adam(loss, cosine(1.0, 1000)))


def orbit(example: Any) -> Twin:
    """Kepler's equation by Newton's method for each day, differentiated as the equation."""

    def anomaly(mean: Any, eccentricity: Any) -> Any:
        def kepler(angle: Any) -> Any:
            return angle - eccentricity * jnp.sin(angle) - mean

        def newton(f: Any, angle: Any) -> Any:
            return lax.while_loop(lambda x: jnp.abs(f(x)) > 1e-12, lambda x: x - f(x) / jax.grad(f)(x), angle)

        return lax.custom_root(kepler, jnp.pi, newton, lambda g, y: y / g(1.0))

    def loss(p: Any, seen: Any) -> Any:
        axis, eccentricity, turn, start = p[""]
        angle = jax.vmap(anomaly, (0, None))(jnp.mod(seen["days"] - start, 2 * jnp.pi), eccentricity)
        x, y = jnp.cos(angle) - eccentricity, jnp.sqrt(1 - eccentricity**2) * jnp.sin(angle)
        found = axis * jnp.stack([jnp.cos(turn) * x - jnp.sin(turn) * y, jnp.sin(turn) * x + jnp.cos(turn) * y])
        return jnp.mean((found - seen["places"]) ** 2)

    return trained(example, adam(loss, cosine(0.03, 600)))


def pendulum(example: Any) -> Twin:
    """Two hundred steps of a motion in a scan."""
    step = example.STEP

    def loss(p: Any, _: Any) -> Any:
        def advance(state: Any, torque: Any) -> Any:
            angle, speed = state
            speed = speed + step * (-9.81 * jnp.sin(angle) + 5 * jnp.tanh(torque) - 0.05 * speed)
            return (angle + step * speed, speed), angle

        start = jnp.zeros((), p[""].dtype)
        (angle, speed), angles = lax.scan(advance, (start, start), p[""])
        return 20 * (1 + jnp.cos(angle)) + speed**2 + jnp.mean(1 + jnp.cos(angles))

    return trained(example, adam(loss, cosine(0.1, 500)))


def pinn(example: Any) -> Twin:
    """The second derivative of a network, mapped over points."""

    def solution(p: Any, x: Any) -> Any:
        return x / 2 + x * (2 - x) * perceptron(p, "", jnp.stack([x]), 3, jnp.tanh)[0]

    def loss(p: Any, x: Any) -> Any:
        second = jax.vmap(jax.grad(jax.grad(solution, argnums=1), argnums=1), in_axes=(None, 0))(p, x)
        value = jax.vmap(solution, in_axes=(None, 0))(p, x)
        return jnp.mean((second + value - x) ** 2)

    return trained(example, adam(loss, cosine(1e-2, 400)))


def quantum(example: Any) -> Twin:
    """A circuit of three qubits, gate by gate."""
    qubits = example.QUBITS

    def turned(state: Any, angle: Any, qubit: int) -> Any:
        cosine_, sine = jnp.cos(angle / 2), jnp.sin(angle / 2)
        gate = jnp.array([[cosine_, -sine], [sine, cosine_]])
        return jnp.moveaxis(jnp.tensordot(gate, state, (1, qubit)), 0, qubit)

    def entangled(state: Any, first: int, second: int) -> Any:
        shape = [1] * qubits
        shape[first] = shape[second] = 2
        return state * np.array([1.0, 1.0, 1.0, -1.0]).reshape(shape)

    def loss(p: Any, matrix: Any) -> Any:
        state = jnp.zeros((2,) * qubits).at[(0,) * qubits].set(1.0)
        for number in range(len(p[""])):
            for qubit in range(qubits):
                state = turned(state, p[""][number, qubit], qubit)
            for qubit in range(number % 2, qubits - 1, 2):
                state = entangled(state, qubit, qubit + 1)
        state = state.reshape(-1)
        return state @ matrix @ state

    return trained(example, adam(loss, cosine(0.1, 300)))


def tensor_network(example: Any) -> Twin:
    """Environments that grow along a chain of tensors, in a scan."""
    bond = example.BOND

    def over(edge: Any, tensor: Any, operator: Any) -> Any:
        above = jnp.einsum("ab,asc->bsc", edge, tensor)
        return jnp.einsum("btc,btd->cd", jnp.einsum("bsc,st->btc", above, operator), tensor)

    def grow(edges: Any, tensor: Any) -> Any:
        plain, total, pending = edges
        one = jnp.eye(2)
        total = over(total, tensor, one) - over(plain, tensor, example.X) - over(pending, tensor, example.Z)
        return (over(plain, tensor, one), total, over(plain, tensor, example.Z)), None

    def loss(p: Any, _: Any) -> Any:
        corner, nothing = jnp.zeros((bond, bond)).at[0, 0].set(1.0), jnp.zeros((bond, bond))
        (plain, total, _), _ = lax.scan(grow, (corner, nothing, nothing), p[""])
        return total[0, 0] / plain[0, 0]

    return trained(example, adam(loss, cosine(0.03, 600)))


def time_series(example: Any) -> Twin:
    """A Kalman filter of two thousand readings, in a scan."""

    def loss(p: Any, series: Any) -> Any:
        level, reading = jnp.exp(2 * p["level"]), jnp.exp(2 * p["reading"])

        def observe(state: Any, y: Any) -> Any:
            mean, spread = state
            spread = spread + level
            total = spread + reading
            share, error = spread / total, y - mean
            return (mean + share * error, (1 - share) * spread), 0.5 * (jnp.log(total) + error**2 / total)

        return jnp.mean(lax.scan(observe, (series[0], reading), series[1:])[1])

    return trained(example, adam(loss, cosine(0.05, 200)))


def transport(example: Any) -> Twin:
    """Fifty rounds of scaling in logarithms, for three pairs of clouds."""
    blur = example.BLUR

    def cost(points: Any, target: Any) -> Any:
        squares = jnp.sum((points[:, None] - target[None]) ** 2, axis=2)
        weight = -np.log(len(points))

        def scaled(_: Any, both: Any) -> Any:
            _, g = both
            f = -blur * logsumexp(weight + (g[None] - squares) / blur, axis=1)
            return f, -blur * logsumexp(weight + (f[:, None] - squares) / blur, axis=0)

        f, g = lax.fori_loop(0, 50, scaled, (jnp.zeros(len(points)), jnp.zeros(len(target))))
        return jnp.mean(f) + jnp.mean(g)

    def loss(p: Any, target: Any) -> Any:
        return cost(p[""], target) - 0.5 * cost(p[""], p[""]) - 0.5 * cost(target, target)

    return trained(example, adam(loss, cosine(0.1, 120)))


def wing(example: Any) -> Twin:
    """Wind that is carried by itself, held by solid and kept from gathering, and its lift and drag."""
    down_waves, across_waves, squares = example.DOWN, example.ACROSS, example.SQUARES
    rows, columns, places = example.ROWS, example.COLUMNS, example.PLACES

    def incompressible(down: Any, across: Any) -> Any:
        a, b = jnp.fft.rfft2(down), jnp.fft.rfft2(across)
        along = (a * down_waves + b * across_waves) / squares
        return jnp.fft.irfft2(a - along * down_waves), jnp.fft.irfft2(b - along * across_waves)

    def carried(field: Any, down: Any, across: Any) -> Any:
        x, y = places[0] - down, places[1] - across
        i, j = jnp.floor(lax.stop_gradient(x)), jnp.floor(lax.stop_gradient(y))
        s, t = x - i, y - j
        i, j = i.astype(int) % rows, j.astype(int) % columns
        below, right = (i + 1) % rows, (j + 1) % columns
        low, high = (1 - t) * field[i, j] + t * field[i, right], (1 - t) * field[below, j] + t * field[below, right]
        return (1 - s) * low + s * high

    def loss(p: Any, least: Any) -> Any:
        solid = example.ROOM * jax.nn.sigmoid(p[""])

        def advance(_: Any, state: Any) -> Any:
            down, across = incompressible((1 - solid) * state[0], (1 - solid) * state[1])
            return carried(down, down, across), carried(across, down, across)

        start = jnp.zeros((rows, columns)), jnp.ones((rows, columns))
        down, across = lax.fori_loop(0, example.STEPS, advance, start)
        lift, drag = jnp.mean(down), jnp.mean(1 - across)
        price = 5 * jnp.maximum(least - jnp.sum(solid), 0.0) / least
        return jnp.log(drag) - jnp.log(jax.nn.softplus(200 * lift) / 200) + price

    return trained(example, adam(loss, constant(0.1)))

"""The operations that the layers of a random step do in a loop: a table of small functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wholestep as ws


@dataclass
class Pool:
    """The values that a layer may read: earlier values, its parameters, shared ones, its number, its part of the
    data."""

    values: list[Any]
    own: dict[str, Any]
    shared: dict[str, Any]
    number: int
    data: Any
    tables: Any
    matrix: Any
    """A square matrix that is carried from layer to layer."""


Move = Callable[[Pool, list[int]], Any]


def pick(pool: Pool, places: list[int], which: int = 0) -> Any:
    return pool.values[places[which] % len(pool.values)]


MOVES: dict[str, Move] = {
    "product": lambda p, i: pick(p, i) @ p.own["w"],
    "turned": lambda p, i: pick(p, i) @ p.own["w"].T,
    "bias": lambda p, i: pick(p, i) + p.own["b"],
    "gain": lambda p, i: pick(p, i) * p.own["b"],
    "shared": lambda p, i: pick(p, i) @ p.shared["w"],
    "tanh": lambda p, i: np.tanh(pick(p, i)),
    "sine": lambda p, i: np.sin(pick(p, i)),
    "sum": lambda p, i: pick(p, i) + pick(p, i, 1),
    "times": lambda p, i: pick(p, i) * pick(p, i, 1),
    "centred": lambda p, i: pick(p, i) - np.mean(pick(p, i), axis=-1, keepdims=True),
    "leaky": lambda p, i: np.where(pick(p, i) > 0, pick(p, i), 0.1 * pick(p, i)),
    "reversed": lambda p, i: pick(p, i)[:, ::-1],
    "numbered": lambda p, i: pick(p, i) * (1.0 / (p.number + 2)),
    "table": lambda p, i: pick(p, i) + p.tables[p.number],
    "part": lambda p, i: pick(p, i) + p.data[:, p.number],
    "row": lambda p, i: pick(p, i) + p.data[0, p.number],
    "still": lambda p, i: pick(p, i) + ws.stop_gradient(pick(p, i, 1)),
    "checkpoint": lambda p, i: ws.checkpoint(lambda x, w: np.tanh(x @ w))(pick(p, i), p.own["w"]),
    "heads": lambda p, i: np.concatenate([np.tanh(pick(p, i)[:, k : k + 1]) for k in range(4)], axis=1),
    "marked": lambda p, i: ws.capture("x", pick(p, i)),
    "largest": lambda p, i: pick(p, i) - np.max(pick(p, i), axis=0),
}

CHEAP = ("bias", "gain", "tanh", "sine", "sum", "centred", "leaky", "reversed", "numbered", "row")
"""Those of which hundreds may follow each other."""


def eye(x: Any, scale: float = 1.0) -> Any:
    """A diagonal matrix that goes with the columns of a value."""
    return scale * np.eye(x.shape[1], dtype=x.dtype)


def definite(x: Any) -> Any:
    """A symmetric matrix with eigenvalues of 2 or more, made of a value."""
    return eye(x, 2.0) + np.tanh(x).T @ np.tanh(x)


def apart(x: Any) -> Any:
    """One whose eigenvalues are some way from each other."""
    return 0.3 * definite(x) + np.diag(3 * np.arange(x.shape[1], dtype=x.dtype))


def regular(p: Pool, x: Any) -> Any:
    """A matrix of the layer's own that is far from singular, with a carried value on its diagonal."""
    return eye(x, 4.0) + 0.3 * np.tanh(p.own["w"]) + np.diag(np.tanh(x[0]))


def inverse(p: Pool, i: list[int]) -> Any:
    return pick(p, i, 1) @ np.linalg.inv(regular(p, pick(p, i)))


def determinant(p: Pool, i: list[int]) -> Any:
    return pick(p, i, 1) * np.linalg.det(0.3 * regular(p, pick(p, i)))


def projected(p: Pool, i: list[int]) -> Any:
    values, vectors = np.linalg.eigh(apart(pick(p, i)))
    return pick(p, i, 1) @ (vectors * np.tanh(values)) @ vectors.T


def remembered(p: Pool, i: list[int]) -> Any:
    """Take a value into the matrix that is carried."""
    x = np.tanh(pick(p, i))
    p.matrix = 0.5 * p.matrix + 0.1 * x.T @ x
    return pick(p, i)


def filtered(p: Pool, i: list[int]) -> Any:
    """An update of a covariance, as a Kalman filter has it."""
    x, h = pick(p, i), np.tanh(p.shared["w"])
    seen = h @ p.matrix @ h.T + eye(x)
    gain = np.linalg.solve(seen, h @ p.matrix).T
    p.matrix = (eye(x) - gain @ h) @ p.matrix + eye(x, 0.1)
    return x @ gain


def assigned(p: Pool, i: list[int]) -> Any:
    y = pick(p, i).copy()
    y[1] = y[0] * 0.5
    y[:, ::2] += pick(p, i, 1)[:, ::2]
    return y


def masked(p: Pool, i: list[int]) -> Any:
    y = pick(p, i).copy()
    y[y > 0.3] *= 0.5
    y[y < 0] = np.tanh(y[y < 0])
    return y


def chosen(p: Pool, i: list[int]) -> Any:
    x = pick(p, i)
    return pick(p, i, 1) + 0.1 * np.sqrt(x[x > 0.1]).sum()


def slope(p: Pool, i: list[int]) -> Any:
    return pick(p, i) - 0.1 * ws.grad(lambda v: np.sum(np.tanh(v @ p.own["w"]) ** 2))(pick(p, i))


def pulled_back(p: Pool, i: list[int]) -> Any:
    _, back = ws.vjp(lambda v: np.tanh(v @ p.own["w"]), pick(p, i))
    return pick(p, i) + 0.1 * back(pick(p, i, 1))[0]


def pushed_forward(p: Pool, i: list[int]) -> Any:
    return ws.jvp(lambda v: np.sin(v @ p.own["w"]), (pick(p, i),), (pick(p, i, 1),))[1]


def curvature(p: Pool, i: list[int]) -> Any:
    return 0.1 * ws.hvp(lambda v: np.sum(np.cos(v @ p.own["w"])), (pick(p, i),), (pick(p, i, 1),))


def newton(p: Pool, i: list[int]) -> Any:
    """A step towards the minimum of a function of one row."""
    x = pick(p, i)

    def f(v: Any) -> Any:
        return np.sum(np.logaddexp(0, p.own["w"] @ v)) + v @ v

    return x - 0.1 * np.linalg.solve(ws.hessian(f)(x[0]), ws.grad(f)(x[0]))


def looped(p: Pool, i: list[int]) -> Any:
    return ws.scan(lambda c, row: (np.tanh(c + row), c), pick(p, i)[0], pick(p, i, 1))[1]


def branched(p: Pool, i: list[int]) -> Any:
    x = pick(p, i)
    return ws.cond(x[0, 0] > 0.05, lambda v: np.sin(v), lambda v: 0.5 * v, x)


def spectrum(p: Pool, i: list[int]) -> Any:
    n = pick(p, i).shape[1]
    return np.fft.irfft(0.5 * np.fft.rfft(pick(p, i), axis=1), n=n, axis=1).astype(pick(p, i).dtype)


WIDE: dict[str, Move] = {
    "solve": lambda p, i: np.linalg.solve(definite(pick(p, i)), pick(p, i, 1).T).T,
    "solve own": lambda p, i: np.linalg.solve(regular(p, pick(p, i)), pick(p, i, 1).T).T,
    "solve shared": lambda p, i: np.linalg.solve(eye(pick(p, i), 4.0) + np.tanh(p.shared["w"]), pick(p, i).T).T,
    "inverse": inverse,
    "determinant": determinant,
    "logarithm": lambda p, i: pick(p, i, 1) + 0.1 * np.linalg.slogdet(definite(pick(p, i)))[1],
    "triangle": lambda p, i: 0.3 * pick(p, i, 1) @ np.linalg.cholesky(definite(pick(p, i))),
    "eigenvalues": lambda p, i: pick(p, i, 1) * np.tanh(0.1 * np.linalg.eigvalsh(apart(pick(p, i)))),
    "projected": projected,
    "singular": lambda p, i: pick(p, i, 1) * np.tanh(0.1 * np.linalg.svd(apart(pick(p, i)), compute_uv=False)),
    "orthogonal": lambda p, i: pick(p, i, 1) @ np.linalg.qr(regular(p, pick(p, i)))[0],
    "power": lambda p, i: pick(p, i, 1) @ np.linalg.matrix_power(0.2 * regular(p, pick(p, i)), 3),
    "diagonal": lambda p, i: pick(p, i) @ (0.5 * p.shared["w"] + np.diag(np.tanh(pick(p, i, 1)[0]))),
    "outer": lambda p, i: 0.3 * np.einsum("ij,kj->ik", pick(p, i), pick(p, i, 1)) @ pick(p, i),
    "remembered": remembered,
    "recalled": lambda p, i: pick(p, i) @ p.matrix,
    "recalled and solved": lambda p, i: np.linalg.solve(eye(pick(p, i), 4.0) + p.matrix, pick(p, i).T).T,
    "filtered": filtered,
    "rows": lambda p, i: pick(p, i)[[2, 0, 1]],
    "columns": lambda p, i: pick(p, i)[:, [3, 1, 0, 2]],
    "sorted": lambda p, i: np.sort(pick(p, i), axis=1),
    "running": lambda p, i: 0.3 * np.cumsum(pick(p, i), axis=1),
    "assigned": assigned,
    "masked": masked,
    "chosen": chosen,
    "larger": lambda p, i: np.where(pick(p, i) > pick(p, i, 1), pick(p, i), 0.5 * pick(p, i, 1)),
    "slope": slope,
    "pulled back": pulled_back,
    "pushed forward": pushed_forward,
    "curvature": curvature,
    "newton": newton,
    "mapped": lambda p, i: ws.vmap(lambda row: np.tanh(row @ p.own["w"]))(pick(p, i)),
    "looped": looped,
    "branched": branched,
    "spectrum": spectrum,
}
"""Further moves: typical operations of Python loops in numerical programs."""

"""scipy.stats: densities estimated from samples by a normal density around each of them."""

from __future__ import annotations

import math
from typing import Any

import scipy.stats

from wholestep.dims import Dim
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import EVALUATED, REPLACED
from wholestep.random.discrete import choice
from wholestep.random.keys import split
from wholestep.random.parametric import multivariate_normal
from wholestep.scipy.linalg import solve_triangular
from wholestep.scipy.outside import doubles, np, special
from wholestep.scipy.special import logsumexp
from wholestep.scipy.stats.boxes import box_probability


class gaussian_kde:
    """A density estimated from samples: the weighted mean of normal densities around them, differentiable in all.

    `bw_method` is 'scott', 'silverman', a number that scales the samples' deviation, or a function of this object.
    In functions that are traced `scipy.stats.gaussian_kde` is this class; `resample` takes a key in place of a seed.

    Shapes: dataset [n] or [d, n], real numbers, worked out in float64; weights [n].
    Raises: ParameterError for fewer than two samples, ShapeError for weights or points that do not fit, and
    numpy.linalg.LinAlgError for samples in fewer than d directions.
    Source: Silverman, "Density estimation for statistics and data analysis", 1986; Scott, "Multivariate density
    estimation", 1992.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy import stats
    >>> kde = stats.gaussian_kde(np.array([-1.0, 0.0, 2.0]))
    >>> round(float(kde.integrate_box_1d(-np.inf, np.inf)), 6)
    1.0
    >>> ws.grad(lambda x: stats.gaussian_kde(x).logpdf(0.5)[0])(np.array([-1.0, 0.0, 2.0])).shape
    (3,)
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        self.dataset: Any = np.atleast_2d(doubles(dataset))
        self.d, self.n = self.dataset.shape
        if not isinstance(self.n, Dim) and self.n < 2:
            raise ParameterError("gaussian_kde: the dataset has fewer than two elements")
        given = np.ones(self.n) if weights is None else np.atleast_1d(doubles(weights))
        if given.shape != (self.n,):
            raise ShapeError(f"gaussian_kde: weights of shape {given.shape} for {self.n} samples")
        self.weights: Any = given / np.sum(given)
        self.neff: Any = 1 / np.sum(self.weights * self.weights)
        self.set_bandwidth("scott" if bw_method is None else bw_method)

    def scotts_factor(self) -> Any:
        """The factor of Scott's rule."""
        return self.neff ** (-1 / (self.d + 4))

    def silverman_factor(self) -> Any:
        """The factor of Silverman's rule."""
        return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Choose the factor by which the samples' deviation is scaled; None keeps it."""
        if bw_method is None:
            return
        rules = {"scott": self.scotts_factor, "silverman": self.silverman_factor}
        if not isinstance(bw_method, str):
            self.factor: Any = bw_method(self) if callable(bw_method) else bw_method
        elif bw_method in rules:
            self.factor = rules[bw_method]()
        else:
            raise ParameterError(f"gaussian_kde: bw_method is {bw_method!r}; it is 'scott', 'silverman' or a number")
        away = self.dataset - (self.dataset @ self.weights)[:, None]
        shared = (away * self.weights) @ away.T / (1 - np.sum(self.weights * self.weights))
        self.covariance: Any = shared * self.factor**2
        self.cho_cov: Any = np.linalg.cholesky(shared) * self.factor

    @property
    def inv_cov(self) -> Any:
        """The inverse of the covariance of each normal density."""
        return np.linalg.inv(self.covariance)

    def points_of(self, points: Any) -> Any:
        """Points as columns [d, m]; one point may be a vector."""
        found = np.atleast_2d(doubles(points))
        if found.shape[0] != self.d and found.shape == (1, self.d):
            found = found.reshape((self.d, 1))
        if found.ndim != 2 or found.shape[0] != self.d:
            raise ShapeError(f"gaussian_kde: points of shape {found.shape} for samples of {self.d} components")
        return found

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at points [d, m]: [m]."""
        points = solve_triangular(self.cho_cov, self.points_of(x), lower=True)
        centres = solve_triangular(self.cho_cov, self.dataset, lower=True)
        off = points[:, :, None] - centres[:, None, :]
        size = self.d / 2 * math.log(2 * math.pi) + np.sum(np.log(np.diagonal(self.cho_cov)))
        return logsumexp(-0.5 * np.sum(off * off, axis=0), axis=-1, b=self.weights) - size

    def evaluate(self, points: Any) -> Any:
        """The density at points [d, m]: [m]."""
        return np.exp(self.logpdf(points))

    __call__ = evaluate
    pdf = evaluate

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times a normal one of this mean and covariance."""
        middle, spread = np.atleast_1d(doubles(mean)), np.atleast_2d(doubles(cov))
        if middle.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise ShapeError(f"integrate_gaussian: mean {middle.shape} and cov {spread.shape} for {self.d} components")
        return self.overlap(middle[:, None], np.ones(1), spread)

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The integral of the density of one component from low to high."""
        if self.d != 1:
            raise ShapeError(f"integrate_box_1d: the samples have {self.d} components, not one")
        deviation = self.cho_cov[0, 0]
        low, high = [(doubles(x) - self.dataset[0]) / deviation for x in (low, high)]
        return np.sum(self.weights * (special.ndtr(high) - special.ndtr(low)))

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None, *, rng: Any = None) -> Any:
        """The integral of the density over a box; in three dimensions or more a mean over `maxpts` fixed points."""
        if rng is not None:
            raise UnsupportedError("integrate_box: rng is not covered, since the points are the same in each call")
        given = [np.broadcast_to(doubles(x), (self.d,)) for x in (low_bounds, high_bounds)]
        low, high = [x[None, :] - np.swapaxes(self.dataset, 0, 1) for x in given]
        return np.sum(self.weights * box_probability("integrate_box", low, high, self.covariance, maxpts))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product with another such density."""
        if other.d != self.d:
            raise ShapeError(f"integrate_kde: densities of {self.d} and {other.d} components")
        return self.overlap(other.dataset, other.weights, other.covariance)

    def overlap(self, centres: Any, weights: Any, spread: Any) -> Any:
        """The integral of the product with normal densities around these centres."""
        factor = np.linalg.cholesky(self.covariance + spread)
        mine, others = [solve_triangular(factor, x, lower=True) for x in (self.dataset, centres)]
        off = mine[:, :, None] - others[:, None, :]
        powers = np.exp(-0.5 * np.sum(off * off, axis=0))
        return self.weights @ powers @ weights / np.prod(np.diagonal(factor) * math.sqrt(2 * math.pi))

    def marginal(self, dimensions: Any) -> gaussian_kde:
        """The density of some of the components."""
        return gaussian_kde(self.dataset[np.atleast_1d(dimensions)], self.factor, self.weights)

    def resample(self, key: Any, size: int = 1) -> Any:
        """Draw points [d, size] from the density by a key of `ws.random`; differentiable in the samples."""
        first, second = split(key, 2)
        chosen = choice(first, self.n, (size,), p=self.weights)
        moved = multivariate_normal(second, np.zeros(self.d), self.covariance, (size,), np.float64)
        return self.dataset[:, chosen] + moved.T


REPLACED[scipy.stats.gaussian_kde] = gaussian_kde
EVALUATED[scipy.stats.gaussian_kde] = lambda made: gaussian_kde(made.dataset, made.factor, made.weights)

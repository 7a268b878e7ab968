"""Distributions: parameters by position or name, loc and scale, supports, and SciPy for plain arguments."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import scipy.stats

from wholestep.frontend.dispatch import covers, is_traced, unsupported
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import lift, wrap
from wholestep.scipy.outside import doubles, np
from wholestep.scipy.stats.powers import Power, density_at, log_of_powers, product_of_powers


def operand_of(method: Any) -> str:
    """The name of a method's first parameter: x, k or q."""
    return next(iter(inspect.signature(method).parameters))


Rule = Callable[..., Any]


class Family:
    """A distribution under SciPy's name; `parts` are functions and numbers that override its class's attributes."""

    moments_only = ("entropy", "mean", "var", "std")
    location: tuple[str, ...] = ("loc",)
    below: Rule
    """The probability of less than z of a continuous one, of k or less of a discrete one, inside the support."""
    above: Rule
    """The probability of more."""

    def __init__(self, name: str, doc: str, **parts: Any) -> None:
        self.name, self.__doc__ = name, doc
        vars(self).update(parts)
        self.outside: Any = getattr(scipy.stats, name)
        shapes = self.outside.shapes
        self.signature = [*([s.strip() for s in shapes.split(",")] if shapes else []), *self.location]
        self.calls: dict[str, Callable[..., Any]] = {}
        for method, rule in self.rules().items():
            cover = covers(getattr(self.outside, method), f"scipy.stats.{name}.{method}")
            self.calls[method] = cover(self.entered(method, rule))

    def powers(self, z: Any, *shapes: Any) -> list[Power]:
        """The factors of the density that vanish, or have a pole, at an end of the support or of a parameter."""
        return []

    def log_below(self, z: Any, *shapes: Any) -> Any:
        """The logarithm of `below`."""
        return log_of(self.below(z, *shapes), lambda: self.above(z, *shapes))

    def log_above(self, z: Any, *shapes: Any) -> Any:
        """The logarithm of `above`."""
        return log_of(self.above(z, *shapes), lambda: self.below(z, *shapes))

    def rules(self) -> dict[str, Callable[..., Any]]:
        """Method name -> a function of the operand, where there is one, then the shapes, loc and scale."""
        raise NotImplementedError(self.name)

    def _probability(self, rule: Rule, at_low: float, at_high: float, x: Any, *params: Any) -> Any:
        """The value of a rule of standard form at x, and these two below and above the support."""
        raise NotImplementedError(self.name)

    def probabilities(self) -> dict[str, Rule]:
        """The rules of the probabilities below x and above it, and of their logarithms."""
        return {
            "cdf": lambda *args: self._probability(self.below, 0.0, 1.0, *args),
            "sf": lambda *args: self._probability(self.above, 1.0, 0.0, *args),
            "logcdf": lambda *args: self._probability(self.log_below, -math.inf, 0.0, *args),
            "logsf": lambda *args: self._probability(self.log_above, 0.0, -math.inf, *args),
        }

    def stated(self, parts: dict[str, dict[str, Callable[..., Any]]]) -> dict[str, Callable[..., Any]]:
        """The rules of the parts that this distribution has; SciPy computes the others, of plain numbers alone."""
        has = [name for name in parts if name in vars(self) or hasattr(type(self), name)]
        return {method: rule for name in has for method, rule in parts[name].items()}

    def entered(self, method: str, rule: Callable[..., Any]) -> Callable[..., Any]:
        """A rule that takes its parameters as SciPy does."""
        operand = [] if method in self.moments_only else [operand_of(getattr(self.outside, method))]
        names = [*operand, *self.signature]

        def call(*args: Any, **kwargs: Any) -> Any:
            given = dict(zip(names, args, strict=False))
            double = set(given) & set(kwargs)
            strange = set(kwargs) - set(names)
            missing = [s for s in names if s not in given and s not in kwargs and s not in ("loc", "scale")]
            if double or strange or missing or len(args) > len(names):
                raise TypeError(f"{self.name}.{method} takes {', '.join(names)}")
            filled = {"loc": 0.0, "scale": 1.0} | given | kwargs
            made = rule(*[doubles(filled[s]) for s in names])
            return wrap(lift(made).value)

        return call

    def __call__(self, *args: Any, **kwargs: Any) -> FrozenDistribution:
        return FrozenDistribution(self, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.calls:
            return self.calls[name]
        found = getattr(self.outside, name)
        if not callable(found):
            return found
        return refuse_traced(found, f"{self.name}.{name}")


class FrozenDistribution:
    """A distribution with fixed parameters."""

    def __init__(self, family: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.family, self.args, self.kwds = family, args, kwargs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(self.family, name)
        return lambda *x, **kwargs: method(*x, *self.args, **self.kwds, **kwargs)


METHODS = {
    "rvs": "ws.random draws from a key, by parameters that may be traced: mean + std * ws.random.normal(key, shape)",
    "fit": "the largest logpdf(x, ...).sum() is found with its gradient, by scipy.optimize.minimize or ws.optim",
    "median": "ppf(0.5, ...) is the median where ppf is covered",
    "interval": "ppf((1 - level) / 2, ...) and ppf((1 + level) / 2, ...) are its ends where ppf is covered",
}
"""The replacements for methods of SciPy's that take no traced arrays."""


def refuse_traced(found: Any, name: str) -> Any:
    """A method of SciPy's that takes no traced arrays."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args) or is_traced(kwargs):
            raise unsupported(f"scipy.stats.{name}", METHODS.get(name.rpartition(".")[2], ""))
        return found(*args, **kwargs)

    return call


def log_of(share: Any, rest: Callable[[], Any]) -> Any:
    """The logarithm of a probability, from the complement where that is the smaller one."""
    most = share > 0.5
    return np.where(most, np.log1p(-np.where(most, rest(), 0.0)), np.log(np.where(most, 1.0, share)))


class Continuous(Family):
    """A density on an interval, in standard form; loc and scale are added here."""

    location = ("loc", "scale")
    low, high, middle = -math.inf, math.inf, 0.0
    """The support, and a point inside it."""
    open_low = False
    """True if the density is 0 at the lower end by definition."""
    log_density: Rule
    """The logarithm of the density without its `powers`."""
    quantile: Rule
    """The inverse of `below`."""
    standard_entropy: Rule
    """The entropy at scale 1."""
    moments: Rule
    """The mean and the variance in standard form."""

    def valid(self, *shapes: Any) -> Any:
        """A mask, true where the shape parameters have a meaning."""
        return functools.reduce(operator.and_, [s > 0 for s in shapes], np.True_)

    def above(self, z: Any, *shapes: Any) -> Any:
        """The probability of more than z."""
        return 1 - self.below(z, *shapes)

    def upper_quantile(self, q: Any, *shapes: Any) -> Any:
        """The inverse of `above`."""
        return self.quantile(1 - q, *shapes)

    def ends(self, *shapes: Any) -> tuple[Any, Any, Any]:
        """The lower and the upper end, and a point between them."""
        return self.low, self.high, self.middle

    def rules(self) -> dict[str, Callable[..., Any]]:
        parts: dict[str, dict[str, Callable[..., Any]]] = {
            "log_density": {
                "pdf": lambda *args: self._density(density_at, 0.0, *args),
                "logpdf": lambda *args: self._density(lambda parts, z, _: log_of_powers(*parts(z)), -math.inf, *args),
            },
            "below": self.probabilities(),
            "quantile": {
                "ppf": lambda *args: self._quantile(self.quantile, self.low, self.high, *args),
                "isf": lambda *args: self._quantile(self.upper_quantile, self.high, self.low, *args),
            },
            "standard_entropy": {"entropy": self._entropy},
            "moments": {
                "mean": lambda *args: self._moment(lambda m, v, loc, scale: m * scale + loc, *args),
                "var": lambda *args: self._moment(lambda m, v, loc, scale: v * scale * scale, *args),
                "std": lambda *args: self._moment(lambda m, v, loc, scale: np.sqrt(v) * scale, *args),
            },
        }
        return self.stated(parts)

    def _known(self, made: Any, scale: Any, shapes: Any) -> Any:
        return np.where(self.valid(*shapes) & (scale > 0), made, math.nan)

    def _density(self, made_of: Rule, outside: float, x: Any, *params: Any) -> Any:
        *shapes, loc, scale = params
        z = (x - loc) / scale
        low, high, middle = self.ends(*shapes)
        inside = ((z > low) if self.open_low else (z >= low)) & (z <= high) & np.isfinite(z)
        point = np.where(inside, z, middle)

        def parts(z: Any) -> tuple[list[Power], Any]:
            return self.powers(z, *shapes), self.log_density(z, *shapes) - np.log(scale)

        made = made_of(parts, point, middle)
        return self._known(np.where(inside, made, np.where(np.isnan(z), z, outside)), scale, shapes)

    def _probability(self, rule: Any, at_low: float, at_high: float, x: Any, *params: Any) -> Any:
        *shapes, loc, scale = params
        z = (x - loc) / scale
        low, high, middle = self.ends(*shapes)
        inside = (z > low) & (z < high)
        made = rule(np.where(inside, z, middle), *shapes)
        outside = np.where(np.isnan(z), z, np.where(z <= low, at_low, at_high))
        return self._known(np.where(inside, made, outside), scale, shapes)

    def _quantile(self, rule: Any, at_zero: float, at_one: float, q: Any, *params: Any) -> Any:
        *shapes, loc, scale = params
        inside = (q > 0) & (q < 1)
        made = rule(np.where(inside, q, 0.5), *shapes)
        edge = np.where(q == 0, at_zero, np.where(q == 1, at_one, math.nan))
        return self._known(np.where(inside, made, edge) * scale + loc, scale, shapes)

    def _entropy(self, *params: Any) -> Any:
        *shapes, _, scale = params
        return self._known(self.standard_entropy(*shapes) + np.log(scale), scale, shapes)

    def _moment(self, rule: Any, *params: Any) -> Any:
        *shapes, loc, scale = params
        return self._known(rule(*self.moments(*shapes), loc, scale), scale, shapes)


class Symmetric(Continuous):
    """A density that is the same on both sides of 0, so that its upper half follows from the lower one."""

    def above(self, z: Any, *shapes: Any) -> Any:
        return self.below(-z, *shapes)

    def log_above(self, z: Any, *shapes: Any) -> Any:
        return self.log_below(-z, *shapes)

    def upper_quantile(self, q: Any, *shapes: Any) -> Any:
        return -self.quantile(q, *shapes)


class Discrete(Family):
    """Probabilities of whole numbers; loc is added here."""

    first = 0
    """The smallest number that can occur."""
    valid: Rule
    """A mask, true where the shape parameters have a meaning."""
    log_mass: Rule
    """The logarithm of the probability of k without its `powers`."""
    moments: Rule
    """The mean and the variance."""
    standard_entropy: Rule
    """The entropy of one with a single shape parameter."""

    def last(self, *shapes: Any) -> Any:
        """The largest number that can occur."""
        return math.inf

    def above(self, k: Any, *shapes: Any) -> Any:
        """The probability of more than k, for k from the first to before the last."""
        return 1 - self.below(k, *shapes)

    def rules(self) -> dict[str, Callable[..., Any]]:
        parts: dict[str, dict[str, Callable[..., Any]]] = {
            "standard_entropy": {"entropy": lambda p, loc: self._known(self.standard_entropy(p), (p,))},
            "log_mass": {
                "pmf": lambda *args: self._mass(product_of_powers, 0.0, *args),
                "logpmf": lambda *args: self._mass(log_of_powers, -math.inf, *args),
            },
            "below": self.probabilities(),
            "moments": {
                "mean": lambda *args: self._known(self.moments(*args[:-1])[0] + args[-1], args[:-1]),
                "var": lambda *args: self._known(self.moments(*args[:-1])[1], args[:-1]),
                "std": lambda *args: self._known(np.sqrt(self.moments(*args[:-1])[1]), args[:-1]),
            },
        }
        return self.stated(parts)

    def _known(self, made: Any, shapes: Any) -> Any:
        return np.where(self.valid(*shapes), made, math.nan)

    def _mass(self, made_of: Rule, outside: float, x: Any, *params: Any) -> Any:
        *shapes, loc = params
        k = stop_gradient(x - loc)
        inside = (k >= self.first) & (k <= self.last(*shapes)) & (np.floor(k) == k)
        point = np.where(inside, k, float(self.first))
        made = made_of(self.powers(point, *shapes), self.log_mass(point, *shapes))
        return self._known(np.where(inside, made, np.where(np.isnan(k), k, outside)), shapes)

    def _probability(self, rule: Any, before: float, after: float, x: Any, *params: Any) -> Any:
        *shapes, loc = params
        k = np.floor(stop_gradient(x - loc))
        inside = (k >= self.first) & (k < self.last(*shapes))
        made = rule(np.where(inside, k, float(self.first)), *shapes)
        outside = np.where(k < self.first, before, after)
        return self._known(np.where(inside, made, np.where(np.isnan(k), k, outside)), shapes)

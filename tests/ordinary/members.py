"""Classes with properties and operators, and functions that functools wraps, as users write them."""

import functools
import math
import operator

import numpy as np

from wholestep import nn


class Vector:
    def __init__(self, *parts):
        self.parts = list(parts)

    def __add__(self, other):
        return Vector(*np.array([a + b for a, b in zip(self.parts, other.parts, strict=True)]))

    def __mul__(self, scale):
        if isinstance(scale, Vector):
            return NotImplemented
        return Vector(*[math.sqrt(p * p) * scale for p in self.parts])

    __rmul__ = __mul__

    def __matmul__(self, other):
        out = np.zeros(1)
        out[0] = sum(a * b for a, b in zip(self.parts, other.parts, strict=True))
        return out[0]

    def __neg__(self):
        return Vector(*np.array([-p for p in self.parts]))

    def __getitem__(self, i):
        return np.array(self.parts)[i]

    def __setitem__(self, i, value):
        new = np.array(self.parts)
        new[i] = value
        self.parts = list(new)

    def __iadd__(self, other):
        self.parts = list(np.array([a + b for a, b in zip(self.parts, other.parts, strict=True)]))
        return self

    def __abs__(self):
        return math.hypot(*self.parts)

    def __lt__(self, other):
        return np.array(self.parts).sum() < np.array(other.parts).sum()

    @property
    def norm(self):
        return math.sqrt(np.array([p * p for p in self.parts]).sum())

    @functools.cached_property
    def total(self):
        COUNTED.append(1)
        return np.array(self.parts).sum()


class Shifted(Vector):
    def __radd__(self, other):
        return other + Vector(*np.array([p + 1.0 for p in self.parts]))


COUNTED = []
OUTSIDE = Vector(1.0, 2.0)


def adds(x):
    return (Vector(x, 2.0) + Vector(x, x)).parts[0]


def scales(x):
    return (3.0 * Vector(x, 2.0) * x).parts[0]


def multiplies(x):
    return Vector(x, 2.0) @ Vector(x, 1.0)


def reads(x):
    v = -Vector(x, 2.0 * x)
    i = 1
    return v[i] * v[0]


def writes(x):
    v = Vector(1.0, 2.0)
    v[0] = x * x
    v[1] += x
    return v[0] + v[1]


def updates(x):
    v = w = Vector(x, 2.0)
    v += Vector(x, x)
    v *= x
    w.parts[1] *= 2.0
    return v.parts[0] + w.parts[1]


def measures(x):
    return abs(Vector(x, 2.0)) + sum([Vector(x, 2.0), Vector(x, x)], Vector(0.0, 0.0)).parts[1]


def names_operators(x):
    vectors = [Vector(x, 2.0), Vector(x, x), Vector(1.0, 3.0)]
    return functools.reduce(operator.add, vectors).parts[0] + operator.matmul(*vectors[:2])


def compares(x):
    return 2.0 * x if Vector(x, 1.0) < Vector(5.0, 5.0) != 3 else x


def derived_first(x):
    return (Vector(x, x) + Shifted(x, 1.0)).parts[0]


def reads_a_property(x):
    return Vector(x, 2.0).norm


def reads_a_cached_property_twice(x):
    v = Vector(x, x)
    return v.total * v.total


def reads_outside(x):
    return (OUTSIDE * x).total + OUTSIDE.norm + OUTSIDE.total


class Layered(nn.Module):
    def __init__(self):
        self.scale = np.array([2.0, 1.0])

    @property
    def doubled(self):
        return np.array([2 * self.scale[0], self.scale[1]])

    @property
    def missing(self):
        return self.nowhere


def of_a_module(model, x):
    return np.sum(model.doubled * x)


def asks_for_what_is_missing(x):
    return x * Layered().scale[0] + Layered().missing


@functools.lru_cache
def cached(x, n):
    COUNTED.append(1)
    return np.array([x, x * n]).sum()


def calls_a_cached_function(x):
    return cached(x, 2) + cached(x, 2) + cached(1.0, 2)


def caches_an_array(x):
    return cached(np.array([x]), 2)


@functools.lru_cache
def power(x, n):
    return x if n == 0 else math.sqrt(power(x, n - 1) * power(x, n - 1) * np.array([1.0, x])[0])


def remembers(x):
    return power(x, 20)


class Cached:
    def __init__(self, scale):
        self.scale = scale

    @functools.lru_cache  # noqa: B019
    def at(self, n):
        return np.array([self.scale, n]).sum()

    @functools.singledispatchmethod
    def size(self, x):
        return np.array([self.scale * x])[0]

    @size.register
    def _(self, x: str):
        return len(x)


def calls_a_cached_method(x):
    thing = Cached(x)
    return thing.at(2) * thing.at(2)


def calls_a_chosen_method(x):
    return Cached(x).size(x) + Cached(x).size("abc")


@functools.singledispatch
def described(x):
    return math.nan


@described.register
def _(x: float):
    return np.array([x, math.sin(x)]).sum()


@described.register(np.ndarray)
def _(x):
    return np.array([x[0], 1.0]).sum()


def chooses(x):
    return described(x) + described(np.array([x * x]))


@functools.wraps(adds)
def wrapped(x):
    return functools.partial(adds, x)()


FUNCTIONS = [
    adds, scales, multiplies, reads, writes, updates, measures, names_operators, compares, derived_first,
    reads_a_property, reads_a_cached_property_twice, reads_outside, calls_a_cached_function, remembers,
    calls_a_cached_method, calls_a_chosen_method, chooses, wrapped,
]  # fmt: skip

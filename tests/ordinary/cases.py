"""Functions that tests rewrite: each in an ordinary file, without an assertion, as users write them."""

import math
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps

import numpy as np

from wholestep import nn

CALLS = deque(maxlen=100)
TABLE = np.array([1.0, 2.0, 3.0])


def simple(x):
    z = np.zeros(2)
    z[0] = x * 2
    return z.sum()


def failing(x):
    z = np.zeros(2)
    z[0] = math.sin(x)
    raise KeyError(z.shape)


def logged(f):
    @wraps(f)
    def inner(*args, **kwargs):
        CALLS.append(f.__name__)
        return f(*args, **kwargs)

    return inner


@logged
@logged
def decorated(x):
    return np.array([x, 2 * x]).sum()


@lru_cache
def constant_table(n):
    out = np.zeros(n)
    out[0] = 1.0
    return out


def with_a_cached_table(x):
    return np.array([x, x]) @ constant_table(2)


class Base:
    def __init__(self, scale):
        self.scale = np.array([scale])

    def value(self, x):
        return np.array([x * self.scale[0]])[0]


class Caller(Base):
    def __call__(self, x):
        return self.value(x)


class Derived(Base):
    __hidden = 3.0

    def __init__(self, scale):
        super().__init__(scale)
        self.__private = np.zeros(1)

    def value(self, x):
        self.__private[0] = super().value(x) * self.__hidden
        return self.__private[0] + len(__class__.__name__)

    @property
    def area(self):
        return self.scale[0] ** 2


def inherited(x):
    return Derived(x).value(x)


def two_lambdas():
    return (lambda x: np.array([x, 1.0])[0] ** 2), (lambda x: np.array([x, 1.0])[0] ** 3)


first, second = (lambda x: np.array([x])[0] * 2), (lambda x: np.array([x])[0] * 3)


def writes_a_global(x):
    global total
    total = np.array([1.0, 2.0])
    return np.array([x])[0] * total[1]


total = None


def writes_outside(x):
    TABLE[0] = x
    return TABLE.sum()


def adds_outside(x):
    TABLE[0] += x
    return x


def writes_an_argument(x, table):
    table[0] = x
    return table.sum()


def leaks(x, kept):
    table = np.zeros(3)
    table[1] = 4.0
    kept.append(table)
    kept.append(table[1:])
    return np.array([x]).sum() * table[1]


def leaks_a_traced_one(x, kept):
    table = np.zeros(3)
    table[1] = x
    kept.append(table)
    return table.sum()


def returns_tables(x):
    plain, traced = np.zeros(2), np.zeros(2)
    traced[0] = x
    return {"plain": plain, "traced": traced, "both": [plain + 1, (traced * 2,)]}


def many_names(x):
    a, *rest = x, np.array([x, x]), {"k": np.zeros(1)}
    rest[1]["k"][0] += a
    del a
    names = sorted(locals())
    return rest[0].sum() + rest[1]["k"][0] + len(names)


async def asynchronous(x):
    return np.array([x])


def type_of_a_table(x):
    z = np.zeros(2)
    before = isinstance(z, np.ndarray)
    z[0] = x
    return np.array([x])[0] * (before + isinstance(z, np.ndarray) + isinstance(x, float))


def inner_functions(x):
    def total(values=(1.0, 1.0), /, *rest, scale: "np.ndarray" = 2.0, **named) -> "float":
        """A docstring."""
        return np.array([v * scale for v in values]).sum()

    class Local:
        factor = 2

        def __call__(self, v):
            return np.array([v * self.factor])[0]

    return total(np.array([x, 1.0])) + Local()(x) + len(Local.__qualname__) + len(total.__doc__)


def made_within(x):
    def maker(factor):
        def product(v):
            return np.array([v * factor]).sum()

        return product

    return maker(2.0)(x)


class Twisted(nn.Module):
    def __init__(self, scale):
        self.scale = np.array([scale, 1.0])

    def __call__(self, x):
        out = np.zeros(2)
        out[0] = self.scale[0] * x[1]
        return out + np.array([0.0, x[0]])


def twisted(x):
    return np.array([math.sin(x[1]), x[0]])


@contextmanager
def doubled(x):
    yield np.array([x, 2 * x])


def within_a_context(x):
    with doubled(x) as both:
        return both.sum()


@dataclass(frozen=True)
class Pair:
    low: float
    high: float = 2.0

    def __post_init__(self):
        object.__setattr__(self, "ends", np.array([self.low, self.high]))


def made_after(x):
    pair = Pair(x)
    return pair.ends.sum() * len(vars(pair))

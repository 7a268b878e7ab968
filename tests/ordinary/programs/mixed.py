"""Programs that mix constants, indices and traced values, and use more of the language."""

import cmath
import functools
import itertools
import math
import operator
from dataclasses import dataclass

import numpy as np


def permuted_by_constants(x):
    order = np.zeros(len(x), dtype=int)
    for i in range(len(x)):
        order[i] = (2 * i + 1) % len(x)
    return np.sum(x[order] * np.arange(len(x)))


def branch_on_a_constant_table(x):
    table = np.zeros(4)
    table[2] = 1.5
    total = 0.0
    for i in range(4):
        total += x[i] if table[i] > 1 else 0.5 * x[i]
    return total**2


def generator_of_terms(x):
    def terms():
        for i, v in enumerate(x):
            yield math.cos(i * v)

    return sum(terms()) + np.array(list(terms())).prod()


def recursive_sum(x):
    def total(values):
        if len(values) == 1:
            return np.array([values[0] ** 2])
        half = len(values) // 2
        return total(values[:half]) + total(values[half:])

    return total(x)[0]


def counter_in_a_closure(x):
    count = 0

    def step(v):
        nonlocal count
        count += 1
        return np.array([v * count, v])

    return sum(step(v)[0] for v in x) + count


SCALES = np.array([1.0, 2.0, 3.0])


def default_arguments(x, scale=SCALES, *, power=2):
    def shaped(v, by=scale, *rest, extra=power, **named):
        return np.array([a**extra for a in v * by])

    return np.sum(shaped(x))


def tried(x):
    out = np.zeros(2)
    try:
        out[0] = math.sqrt(x[0])
        raise ValueError("stop")
    except ValueError as error:
        out[1] = x[1] * len(str(error))
    finally:
        out *= 2
    return out.sum()


def matched(x):
    total = np.zeros(1)
    for kind, value in [("sin", x[0]), ("cos", x[1]), ("other", 1.0)]:
        match kind:
            case "sin":
                total[0] += math.sin(value)
            case "cos":
                total[0] += math.cos(value)
            case _:
                total[0] += value
    return total[0]


def matched_by_class(x):
    def weight(value):
        match value:
            case bool() | str():
                return 100.0
            case float() | int() as number:
                return np.array([number, 2.0]).sum()
            case np.ndarray(shape=(n,)):
                return n * math.sin(value[0])
            case {"inner": np.floating(), **rest}:
                return math.cos(value["inner"]) * len(rest)
            case [float(first), *_]:
                return math.exp(first)
            case _:
                return 1000.0

    return sum(weight(v) for v in (x, x[0], 3, "text", {"inner": x[1], "more": 1}, [x[0], 2], None))


@dataclass(slots=True, kw_only=True)
class Slotted:
    low: float
    high: float = 2.0
    ends: object = None

    def __post_init__(self):
        assert type(self) is Slotted
        self.ends = np.array([self.low, math.exp(self.high)])


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    low: float

    def __post_init__(self):
        object.__setattr__(self, "low", math.sin(self.low))


def slots_of_a_dataclass(x):
    pair, sine = Slotted(low=x[0], high=x[1]), FrozenSlots(x[0])
    assert type(pair) is Slotted and type(sine) is FrozenSlots
    return pair.ends.sum() * sine.low


@np.vectorize
def vectorized_outside(t, scale=2.0):
    return math.sin(t) * scale


def calls_what_is_vectorized_outside(x):
    return np.sum(vectorized_outside(x)) + vectorized_outside(x[0], 3.0)


def walrus(x):
    return np.array([(y := math.exp(v)), y**2])[1] if (v := x[0]) is not None else 0.0


def with_error_state(x):
    with np.errstate(all="raise"):
        z = np.zeros(2)
        z[:] = x
    return z @ z


def sorted_by_constants(x):
    pairs = sorted(zip([3, 1, 2], x, strict=True), key=lambda pair: pair[0])
    return np.array([v for _, v in pairs]) @ np.array([1.0, 2.0, 3.0])


def operators_as_functions(x):
    return functools.reduce(operator.mul, [math.sin(v) for v in x]) + list(itertools.accumulate(x, operator.add))[1]


def dictionary_of_arrays(x):
    state = {"a": np.zeros(2), "b": np.ones(2)}
    for name in state:
        state[name][0] += x[0]
        state[name][1] *= x[1]
    return sum(v @ v for v in state.values())


def rows_of_a_list(x):
    grid = [np.zeros(2) for _ in range(3)]
    for i, row in enumerate(grid):
        row[i % 2] = x[i]
    return np.sum(np.array(grid) ** 2)


def tuple_assignment(x):
    a = np.zeros(3)
    a[0], (a[1], a[2]) = x[0], (x[1] ** 2, 3.0)
    a[0], a[1] = a[1], a[0]
    return a @ np.arange(1.0, 4.0)


def sliced_assignment(x):
    a = np.zeros((3, 3))
    a[1:, ::2] = x.reshape(2, 2)
    a[..., 1] = a[:, 0]
    a[-1] -= 1
    return np.sum(np.tril(a) ** 2)


def weighted_statistics(x):
    w = np.array([math.exp(-i) for i in range(len(x))])
    average = np.average(x, weights=w)
    return math.sqrt(np.average((x - average) ** 2, weights=w))


def complex_root(x):
    z = cmath.sqrt(x[0] - 2 + 1j * x[1])
    return abs(z) + cmath.exp(1j * x[1]).real


def price_of_an_option(x):
    spot, strike, volatility = x[0] * 100, 90.0, x[1]
    d1 = (math.log(spot / strike) + 0.5 * volatility**2) / volatility
    d2 = d1 - volatility

    def cdf(v):
        return 0.5 * (1 + math.erf(v / math.sqrt(2)))

    return spot * cdf(d1) - strike * cdf(d2)


def great_circle(x):
    a, b = map(math.radians, (x[0] * 50, x[1] * 60))
    h = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(0.3) ** 2
    return 2 * 6371 * math.asin(math.sqrt(h)) / 1000


def kinetic_chain(x):
    place = np.zeros((len(x) + 1, 2))
    angle = 0.0
    for i, joint in enumerate(x):
        angle += joint
        place[i + 1] = place[i] + np.array([math.cos(angle), math.sin(angle)])
    return np.linalg.norm(place[-1] - np.array([1.0, 1.0]))


def spectral_radius(x):
    m = np.array([[2.0, x[0]], [x[0], 1.0]])
    return np.linalg.eigvalsh(m)[-1]


def polynomial_product(x):
    out = np.zeros(5)
    for i in range(3):
        for j in range(3):
            out[i + j] += x[i] * x[j]
    return np.polyval(out, 0.5)


def lagrange(x):
    nodes = [0.0, 0.5, 1.0]
    total = 0.0
    for i, xi in enumerate(nodes):
        basis = 1.0
        for j, xj in enumerate(nodes):
            if j != i:
                basis *= (x[3] - xj) / (xi - xj)
        total += basis * x[i]
    return total


def bezier(x):
    points = x.reshape(4, 2)
    curve = np.array([[math.comb(3, k) * t**k * (1 - t) ** (3 - k) for k in range(4)] for t in (0.2, 0.5, 0.9)])
    return np.sum((curve @ points) ** 2)


def clipped_by_python(x):
    return sum(max(v - 0.5, 0.0) + min(v, 0.4) ** 2 for v in x)


def chosen_beside_scalars_of_numpy(x):
    bounds = np.array([0.5, 0.4])
    return sum(max(v, bounds[0]) * min(bounds[1], v, 1.0) for v in x)


def added_at_pairs_of_places(x):
    table, rank, back = np.zeros((len(x), len(x))), np.argsort(x), np.argsort(-x)
    np.add.at(table, (rank, back), x)
    np.add.at(table, (rank, 0), 0.5)
    np.subtract.at(table, (..., back), 0.25)
    np.add.at(table, [rank[0], back[1]], x)
    return np.sum(table**2 * np.arange(1.0, len(x) + 1))


def global_constants(x):
    out = np.array(OFFSETS)
    out[1] = x[0]
    return out @ np.asarray(OFFSETS) + np.pi * x[1]


OFFSETS = [1.0, 2.0, 3.0]


def isotonic_by_hand(x):
    blocks = [[v, 1] for v in x]
    i = 0
    while i < len(blocks) - 1:
        if blocks[i][0] > blocks[i + 1][0]:
            (a, n), (b, m) = blocks[i], blocks.pop(i + 1)
            blocks[i] = [(a * n + b * m) / (n + m), n + m]
            i = max(i - 1, 0)
        else:
            i += 1
    return np.sum(np.array([v**2 * n for v, n in blocks]))


def rank_correlation(x):
    ranks = np.zeros(len(x))
    ranks[np.argsort(x)] = np.arange(len(x))
    return np.corrcoef(ranks, x)[0, 1]


def bubble_sort(x):
    a = list(x)
    for i in range(len(a)):
        for j in range(len(a) - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return np.array(a) @ np.arange(len(a))


def bisection(x):
    low, high = 0.0, 2.0
    for _ in range(20):
        middle = 0.5 * (low + high)
        if middle**3 < 1.0:
            low = middle
        else:
            high = middle
    return math.sin(low) * x[0]


PROGRAMS = [
    (permuted_by_constants, 5), (branch_on_a_constant_table, 4), (generator_of_terms, 3), (recursive_sum, 5),
    (counter_in_a_closure, 3), (default_arguments, 3), (tried, 2), (matched, 2), (walrus, 1), (with_error_state, 2),
    (matched_by_class, 2), (slots_of_a_dataclass, 2), (calls_what_is_vectorized_outside, 3),
    (sorted_by_constants, 3), (operators_as_functions, 3), (dictionary_of_arrays, 2), (rows_of_a_list, 3),
    (tuple_assignment, 2), (sliced_assignment, 4), (weighted_statistics, 4), (complex_root, 2),
    (price_of_an_option, 2), (great_circle, 2), (kinetic_chain, 3), (spectral_radius, 1), (polynomial_product, 3),
    (lagrange, 4), (bezier, 8), (clipped_by_python, 4), (global_constants, 2), (bisection, 1),
    (chosen_beside_scalars_of_numpy, 4), (added_at_pairs_of_places, 4),
]  # fmt: skip
DECIDED = [(isotonic_by_hand, 4), (rank_correlation, 5), (bubble_sort, 4)]
"""Programs with Python conditions on values, which cannot be compiled."""

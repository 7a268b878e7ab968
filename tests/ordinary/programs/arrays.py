"""Programs that make arrays of lists, join them, and use NumPy's ways to apply functions."""

import math
from collections import deque
from functools import partial, reduce
from math import exp, log

import numpy as np
from numpy import mean, stack


def array_of_scalars(x):
    a = np.array([x[0], 2 * x[1]])
    return np.sum(a**2)


def nested_lists(x):
    m = np.array([[x[0], x[1], 0.0], [1, x[2], x[0] * x[1]], [0, 0, math.sqrt(x[1])]])
    return np.linalg.det(m) + np.trace(m)


def mean_of_list(x):
    return np.mean([x[0] ** 2, x[1], 3.0]) + mean([x[0], x[1]]) + np.max([x[0], x[1] / 2])


def softmax_with_math(x):
    e = [math.exp(v) for v in x]
    total = sum(e)
    p = np.array([v / total for v in e])
    return -math.log(p[0]) + p @ p


def joined_by_r(x):
    padded = np.r_[0.0, x, x[-1], 1:3]
    return np.sum(np.diff(padded) ** 2)


def joined_by_c(x):
    design = np.c_[np.ones(len(x)), x, x**2]
    return np.sum(design.T @ design)


def least_squares(x):
    t = np.arange(len(x))
    a = np.vstack([t, np.ones(len(x))]).T
    slope, offset = np.linalg.solve(a.T @ a, a.T @ x)
    return slope**2 + offset


def block_matrix(x):
    a = np.array([[x[0], x[1]], [x[1], x[0]]])
    m = np.block([[a, np.zeros((2, 1))], [np.ones((1, 2)), np.array([[x[2]]])]])
    return np.sum(m @ m)


def queue_of_the_last(x):
    last = deque([np.zeros(2)], maxlen=3)
    last[0][1] = x[0]
    for v in x[:2]:
        last.append(np.array([v, math.sin(v)]))
    return np.sum(np.array(last) ** 2) + np.mean(deque(x, maxlen=2)) + np.stack(last).prod(axis=1).sum()


def from_iterator(x):
    squares = np.fromiter((v**2 for v in x), dtype=float)
    first = np.fromiter(map(math.sin, x), float, count=2)
    weights = np.fromiter(range(len(x)), dtype=float)
    weights[0] = x[0]
    return squares @ weights + np.prod(first)


def from_function(x):
    m = np.fromfunction(lambda i, j: x[0] * i + x[1] * j**2, (3, 4))
    return np.sum(np.sin(m))


def vectorized_function(x):
    @np.vectorize
    def bump(t):
        return math.exp(-t * t) * x[0]

    return np.sum(bump(x)) + bump(np.array([0.1, 0.2])).prod()


def vectorized_with_condition(x):
    positive = np.vectorize(lambda t: t**2 + 1.0)
    return positive(x - 0.5).sum()


def outer_table(x):
    return np.sum(np.array([[math.cos(a * b) for b in x] for a in x]))


def distances(x):
    points = x.reshape(3, 2)
    d = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            if i != j:
                d[i, j] = np.linalg.norm(points[i] - points[j])
    return np.sum(d)


def einsum_of_list(x):
    frames = np.array([x[:2], x[1:3], x[2:]])
    return np.einsum("ij,kj->ik", frames, frames).sum()


def stacked_list(x):
    rows = []
    for k in range(3):
        rows.append(x * k + np.sin(x))
    return np.sum(stack(rows) ** 2) + np.concatenate(rows)[2]


def linspace_of_traced_ends(x):
    t = np.linspace(x[0], x[1] + 2, 5)
    return np.sum(np.exp(-t) * [1, 2, 3, 2, 1])


def interpolation(x):
    grid = np.linspace(0.0, 1.0, 5)
    return np.sum(np.interp(x, grid, np.array([0.0, x[0], 0.5, x[1], 1.0])))


def selected(x):
    return np.sum(np.select([x < 0.4, x < 0.6], [x**2, np.array([v * 3 for v in x])], default=1.0))


def piecewise(x):
    return np.sum(np.piecewise(x, [x < 0.5, x >= 0.5], [lambda v: v**2, lambda v: np.exp(v)]))


def polynomial_fit(x):
    t = np.linspace(-1, 1, len(x))
    c = np.polyfit(t, x, 2)
    return np.polyval(c, 0.3) + c[0] ** 2


def histogram_free_density(x):
    grid = np.linspace(0, 1, 5)
    density = np.zeros(5)
    for i, g in enumerate(grid):
        density[i] = np.mean([exp(-((g - v) ** 2) / 0.02) for v in x])
    return -np.sum(density * np.log(density + 1e-3))


def reduced(x):
    return reduce(lambda a, b: a * b + math.sin(b), x)


def mapped(x):
    return sum(map(lambda v: math.tanh(v) ** 2, x)) + np.array(list(map(math.exp, x)))[1]


def partially_applied(x):
    power = partial(lambda p, v: np.array([v**p, v]), 3)
    return power(x[0]) @ power(x[1])


def padded_convolution(x):
    kernel = np.array([0.25, 0.5, 0.25])
    padded = np.zeros(len(x) + 2)
    padded[1:-1] = x
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = padded[i : i + 3] @ kernel
    return np.sum(out * x)


def diagonal_written(x):
    m = np.zeros((len(x), len(x)))
    np.fill_diagonal(m, x)
    m[0] += x
    return np.sum(m @ m)


def scattered_adds(x):
    bins = np.zeros(3)
    np.add.at(bins, [0, 2, 0, 1], x)
    return np.sum(bins**2)


def copied_into(x):
    buffer = np.zeros((2, len(x)))
    np.copyto(buffer[0], x)
    buffer[1, ::-1] = buffer[0] ** 2
    return np.sum(buffer[1] * np.arange(len(x)))


def out_arguments(x):
    work = np.empty_like(x)
    np.multiply(x, x, out=work)
    np.sin(work, out=work)
    total = np.zeros(len(x))
    total += work
    total *= 2
    return total.sum()


def matrices_into_a_buffer(x):
    a = x.reshape(2, 2)
    work = np.zeros((2, 2))
    np.matmul(a, a, out=work)
    np.add(work, a, work)
    np.dot(a, work, out=work)
    return work.sum()


def views_of_a_table(x):
    table = np.zeros((3, 4))
    rows = table[1:]
    columns = table.T
    flat = table.ravel()
    rows[0, :] = x
    columns[2, 0] = x[0] * x[1]
    flat[-1] = 5 * x[2]
    return np.sum(table * np.arange(12.0).reshape(3, 4))


def swapped_rows(x):
    m = np.array([x, x**2, np.ones_like(x)])
    m[[0, 1]] = m[[1, 0]]
    return np.sum(m * np.arange(9.0).reshape(3, 3))


def whole_numbers_stored(x):
    counts = np.zeros(3, dtype=int)
    counts[0] = 2
    counts[1] += counts[0]
    weights = counts / counts.sum()
    return weights @ x


def complex_table(x):
    z = np.zeros(2, dtype=complex)
    z[0] = x[0] + 1j * x[1]
    z[1] = z[0] ** 2
    return np.abs(z).sum() + z[1].imag


def discrete_fourier(x):
    n = len(x)
    real, imaginary = np.zeros(n), np.zeros(n)
    for k in range(n):
        for t in range(n):
            real[k] += x[t] * math.cos(2 * math.pi * k * t / n)
            imaginary[k] -= x[t] * math.sin(2 * math.pi * k * t / n)
    return np.sum(np.hypot(real, imaginary)[1:])


def table_lookup(x):
    codes = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    picked = np.array([codes[i] * x[i] for i in (2, 0, 1)])
    return picked.sum() + codes[[0, 2]].sum() * x[0]


def log_sum_exp_by_hand(x):
    top = max(x)
    return top + log(sum(exp(v - top) for v in x))


def hypotenuse(x):
    return math.hypot(*x) + math.dist(x, [0.0, 1.0, 2.0]) + math.fsum(x) + math.prod(x)


def number_conversions(x):
    return float(x[0]) ** 2 + np.float64(x[1]) * round(2.6) + math.pow(x[2], 2) + math.atan2(x[0], x[1])


def special_functions(x):
    return math.erf(x[0]) + math.gamma(x[1] + 1) + math.lgamma(x[2] + 2) + math.erfc(x[0])


def triangle(x):
    m = np.zeros((3, 3))
    m[np.triu_indices(3)] = x
    return np.sum(m @ m.T)


def broadcast_rows(x):
    grid = np.zeros((3, 1)) + x
    grid[1] *= 2
    grid[:, 0] = -x[0]
    return np.sum(grid**2)


def masked(x):
    y = np.zeros_like(x)
    keep = np.array([True, False, True, False])
    y[keep] = x[keep] ** 2
    return y @ np.arange(4.0)


def methods_write_into_arrays(x):
    total, sums, chosen = np.zeros(()), np.zeros(len(x)), np.zeros(2, x.dtype)
    x.sum(out=total)
    y = x.cumsum(out=sums)
    x.take([1, 0], out=chosen)
    y[0] = 7.0
    return total + sums @ x + chosen[0]


def elements_with_their_places(x):
    out = np.zeros((3, 2))
    for (i, j), value in np.ndenumerate(np.outer(x[:2], x)):
        out[j, i] += value * (i + 1)
    return sum(n[0] * value for n, value in np.ndenumerate(np.arange(3.0))) + np.sum(out**2)


def elements_replaced_in_a_loop(x):
    table, doubled = np.arange(4.0).reshape(2, 2).T, np.ones((2, 2))
    for i, value in enumerate(table.flat):
        table.flat[i] = value + x[i]
    for at, value in np.ndenumerate(doubled):
        doubled[at] = 2 * value * x[0]
    return np.sum(table @ x[:2]) + np.sum(doubled**2)


def walked(x):
    table, total = np.arange(6.0).reshape(2, 3), 0.0
    for value in np.nditer(table, op_flags=["readwrite"]):
        table[1] = x
        total = total + value * x[0]
    with np.nditer([np.arange(3.0), None]) as walk:
        for value, scaled in walk:
            scaled[...] = x[2] * value
        total = total + np.sum(walk.operands[1] ** 2)
    for one, other in np.broadcast(fill := np.ones(3), np.ones((2, 1))):
        fill[2] = x[1]
        total = total + one * other
    return total + np.sum(table**2)


def parts_of_complex_numbers(x):
    z = np.full((2, 3), 1 + 2j).T
    imaginary = z.imag
    z.real[1:, 0] = x[:2]
    imaginary[0] += x[2]
    return np.sum(z.real * imaginary) + np.sum(np.abs(z) ** 2)


def products_in_place(x):
    turned, take = np.eye(3), np.zeros(3).take
    turned @= np.outer(x, x)
    return np.sum(turned[0] ** 3) + take([0])[0]


def buffers_and_strides(x):
    z = np.zeros(6)
    again, every_other = np.ndarray((2, 3), buffer=z), np.lib.stride_tricks.as_strided(z, (3,), (16,))
    every_other[1:] = x[:2]
    again[0] *= x
    return np.sum(z**2) + np.sum(again[1])


PROGRAMS = [
    (array_of_scalars, 2), (nested_lists, 3), (mean_of_list, 2), (softmax_with_math, 3), (joined_by_r, 4),
    (joined_by_c, 4), (least_squares, 5), (block_matrix, 3), (from_function, 2), (vectorized_function, 3),
    (vectorized_with_condition, 3), (outer_table, 3), (distances, 6), (einsum_of_list, 4), (stacked_list, 4),
    (linspace_of_traced_ends, 2), (interpolation, 4), (selected, 5), (piecewise, 4), (polynomial_fit, 5),
    (histogram_free_density, 4), (reduced, 4), (mapped, 3), (partially_applied, 2), (padded_convolution, 5),
    (diagonal_written, 3), (scattered_adds, 4), (copied_into, 4), (out_arguments, 4),
    (matrices_into_a_buffer, 4), (views_of_a_table, 4),
    (swapped_rows, 3), (whole_numbers_stored, 3), (complex_table, 2), (discrete_fourier, 4), (table_lookup, 3),
    (log_sum_exp_by_hand, 4), (hypotenuse, 3), (number_conversions, 3), (special_functions, 3), (triangle, 6),
    (broadcast_rows, 3), (masked, 4), (methods_write_into_arrays, 3), (elements_with_their_places, 3),
    (elements_replaced_in_a_loop, 4), (walked, 3), (parts_of_complex_numbers, 3), (products_in_place, 3),
    (buffers_and_strides, 3), (queue_of_the_last, 3), (from_iterator, 3),
]  # fmt: skip

"""Programs of numerical analysis: trajectories, filters, iterations, quadrature, series, linear systems by hand."""

import math
from math import cos, sin, sqrt

import numpy as np
from numpy import array as vector


def euler_trajectory(x):
    steps = 6
    path = np.zeros((steps + 1, 2))
    path[0] = x
    for t in range(steps):
        path[t + 1, 0] = path[t, 0] + 0.1 * path[t, 1]
        path[t + 1, 1] = path[t, 1] - 0.1 * math.sin(path[t, 0])
    return np.sum(path**2)


def lotka_volterra(x):
    def slope(state):
        prey, predator = state
        return np.array([x[0] * prey - x[1] * prey * predator, x[2] * prey * predator - predator])

    y = np.array([1.0, 0.5])
    for _ in range(4):
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        k3 = slope(y + 0.05 * k2)
        k4 = slope(y + 0.1 * k3)
        y = y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y[0] * y[1]


def leapfrog(x):
    q, p = x[0], x[1]
    energies = []
    for _ in range(5):
        p = p - 0.05 * sin(q)
        q = q + 0.1 * p
        p = p - 0.05 * sin(q)
        energies.append(0.5 * p**2 - cos(q))
    return np.std(energies)


def double_pendulum_energy(x):
    a, b, u, v = x
    kinetic = 0.5 * (2 * u**2 + v**2 + 2 * u * v * math.cos(a - b))
    return kinetic - 2 * math.cos(a) - math.cos(b)


def kalman_filter(x):
    mean, cov = np.zeros(2), np.eye(2)
    move = np.array([[1.0, 0.1], [0.0, 1.0]])
    look = np.array([[1.0, 0.0]])
    means = np.zeros((len(x), 2))
    for t, y in enumerate(x):
        mean, cov = move @ mean, move @ cov @ move.T + 0.01 * np.eye(2)
        s = look @ cov @ look.T + 0.1
        gain = cov @ look.T @ np.linalg.inv(s)
        mean = mean + (gain @ (np.array([y]) - look @ mean))
        cov = (np.eye(2) - gain @ look) @ cov
        means[t] = mean
    return np.sum(means**2)


def heat_equation(x):
    u = np.zeros((4, len(x)))
    u[0] = x
    for t in range(3):
        u[t + 1, 1:-1] = u[t, 1:-1] + 0.2 * (u[t, 2:] - 2 * u[t, 1:-1] + u[t, :-2])
        u[t + 1, 0] = u[t, 0]
        u[t + 1, -1] = u[t, -1]
    return np.sum(u[-1] ** 2)


def wave_equation(x):
    old, now = x.copy(), x.copy()
    for _ in range(3):
        new = np.empty_like(now)
        new[0] = new[-1] = 0.0
        new[1:-1] = 2 * now[1:-1] - old[1:-1] + 0.25 * (now[2:] - 2 * now[1:-1] + now[:-2])
        old, now = now, new
    return np.sum(now**2)


def newton_square_root(x):
    guess = np.ones(len(x))
    for _ in range(8):
        for i in range(len(x)):
            guess[i] = 0.5 * (guess[i] + (2 + x[i] ** 2) / guess[i])
    return guess.sum()


def newton_system(x):
    y = np.array([1.0, 1.0])
    for _ in range(5):
        residual = np.array([y[0] ** 2 + y[1] - 2 - x[0] ** 2, y[0] + y[1] ** 3 - 3 - x[1] ** 2])
        jacobian = np.array([[2 * y[0], 1.0], [1.0, 3 * y[1] ** 2]])
        y = y - np.linalg.solve(jacobian, residual)
    return y @ y


def matrix_exponential(x):
    a = x.reshape(2, 2)
    term = np.eye(2)
    total = np.eye(2)
    for k in range(1, 10):
        term = term @ a / k
        total += term
    return np.sum(total)


def taylor_sine(x):
    total = 0.0
    for k in range(6):
        total += (-1) ** k * x[0] ** (2 * k + 1) / math.factorial(2 * k + 1)
    return total


def horner(x):
    out = 0.0
    for c in x:
        out = out * 0.7 + c
    return out**2


def gauss_elimination(x):
    a = np.array([[4.0 + x[0], 1.0, x[1]], [1.0, 3.0, x[2]], [x[1], 0.5, 5.0]])
    b = np.array([1.0, x[0], 2.0])
    for i in range(3):
        for j in range(i + 1, 3):
            factor = a[j, i] / a[i, i]
            a[j] -= factor * a[i]
            b[j] -= factor * b[i]
    solution = np.zeros(3)
    for i in range(2, -1, -1):
        solution[i] = (b[i] - a[i, i + 1 :] @ solution[i + 1 :]) / a[i, i]
    return solution.sum()


def cholesky_by_hand(x):
    m = x.reshape(3, 3)
    a = m @ m.T + 3 * np.eye(3)
    lower = np.zeros((3, 3))
    for i in range(3):
        for j in range(i + 1):
            rest = a[i, j] - sum(lower[i, k] * lower[j, k] for k in range(j))
            lower[i, j] = sqrt(rest) if i == j else rest / lower[j, j]
    return np.log(np.diag(lower)).sum()


def thomas_algorithm(x):
    n = len(x)
    d = x.copy()
    c = np.zeros(n)
    c[0] = 1.0 / 4.0
    d[0] = d[0] / 4.0
    for i in range(1, n):
        m = 4.0 - c[i - 1]
        c[i] = 1.0 / m
        d[i] = (d[i] - d[i - 1]) / m
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    return d @ d


def cubic_spline(x):
    n = len(x)
    a = np.zeros((n, n))
    rhs = np.zeros(n)
    a[0, 0] = a[-1, -1] = 1.0
    for i in range(1, n - 1):
        a[i, i - 1 : i + 2] = [1.0, 4.0, 1.0]
        rhs[i] = 6 * (x[i + 1] - 2 * x[i] + x[i - 1])
    curve = np.linalg.solve(a, rhs)
    return np.sum(curve**2)


def trapezoid_rule(x):
    grid = np.linspace(x[0], x[0] + 1.0 + x[1] ** 2, 7)
    values = np.array([math.exp(-(g**2)) for g in grid])
    return np.sum((values[1:] + values[:-1]) / 2 * np.diff(grid))


def simpson(x):
    n = 6
    h = (x[1] - x[0]) / n
    total = math.sin(x[0]) + math.sin(x[1])
    for i in range(1, n):
        total += (4 if i % 2 else 2) * math.sin(x[0] + i * h)
    return total * h / 3


def gauss_quadrature(x):
    nodes, weights = np.polynomial.legendre.leggauss(4)
    return sum(w * math.exp(x[0] * t) * math.cos(x[1] * t) for t, w in zip(nodes, weights, strict=True))


def finite_differences(x):
    h = 1e-3
    slopes = np.zeros(len(x))
    for i in range(len(x)):
        step = np.zeros(len(x))
        step[i] = h
        slopes[i] = (np.sum((x + step) ** 3) - np.sum((x - step) ** 3)) / (2 * h)
    return slopes.sum()


def jacobi_iteration(x):
    a = np.array([[4.0, 1.0, 0.0], [1.0, 4.0, 1.0], [0.0, 1.0, 4.0]])
    y = np.zeros(3)
    for _ in range(6):
        y = np.array([(x[i] - a[i] @ y + a[i, i] * y[i]) / a[i, i] for i in range(3)])
    return y @ y


def power_iteration(x):
    m = x.reshape(3, 3)
    a = m @ m.T + np.diag([3.0, 1.0, 0.5])
    v = np.ones(3)
    for _ in range(5):
        v = a @ v
        v /= math.sqrt(v @ v)
    return v @ a @ v


def gram_schmidt(x):
    a = x.reshape(3, 3) + 2 * np.eye(3)
    q = np.zeros_like(a)
    for j in range(3):
        v = a[:, j]
        for k in range(j):
            v = v - (q[:, k] @ a[:, j]) * q[:, k]
        q[:, j] = v / np.linalg.norm(v)
    return np.sum(q * np.arange(9.0).reshape(3, 3))


def runge_kutta_vector(x):
    path = [x]
    for _ in range(3):
        y = path[-1]
        k = vector([y[1], -y[0] - 0.1 * y[1]])
        path.append(y + 0.1 * vector([y[1] + 0.05 * k[1], k[1]]))
    return np.sum(np.array(path)[:, 0] ** 2)


def secant_root(x):
    a, b = 1.0, 2.0
    for _ in range(5):
        fa, fb = a**3 - 2 - x[0] ** 2, b**3 - 2 - x[0] ** 2
        a, b = b, b - fb * (b - a) / (fb - fa)
    return b


def rotation(x):
    c, s = math.cos(x[0]), math.sin(x[0])
    turn = np.array([[c, -s], [s, c]])
    return (turn @ np.array([x[1], 2.0]))[0] ** 2


def quaternion(x):
    half = x / 2
    qx = np.array([cos(half[0]), sin(half[0]), 0, 0])
    qz = np.array([cos(half[1]), 0, 0, sin(half[1])])
    w = qx[0] * qz[0] - np.dot(qx[1:], qz[1:])
    v = qx[0] * qz[1:] + qz[0] * qx[1:] + np.cross(qx[1:], qz[1:])
    return np.r_[w, v] @ np.arange(1.0, 5.0)


PROGRAMS = [
    (euler_trajectory, 2), (lotka_volterra, 3), (leapfrog, 2), (double_pendulum_energy, 4), (kalman_filter, 4),
    (heat_equation, 6), (wave_equation, 6), (newton_square_root, 3), (newton_system, 2), (matrix_exponential, 4),
    (taylor_sine, 1), (horner, 5), (gauss_elimination, 3), (cholesky_by_hand, 9), (thomas_algorithm, 5),
    (cubic_spline, 5), (trapezoid_rule, 2), (simpson, 2), (gauss_quadrature, 2), (finite_differences, 3),
    (jacobi_iteration, 3), (power_iteration, 9), (gram_schmidt, 9), (runge_kutta_vector, 2), (secant_root, 1),
    (rotation, 2), (quaternion, 2),
]  # fmt: skip

"""Programs that fill tables in loops: dynamic programming, alignment, paths, recurrences."""

import math

import numpy as np


def running_sum(x):
    out = np.zeros(len(x))
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        out[i] = total
    return np.sum(out**2)


def running_product(x):
    out = np.ones_like(x)
    for i in range(1, len(x)):
        out[i] = out[i - 1] * x[i]
    return out.sum()


def fibonacci_like(x):
    f = np.empty(8)
    f[0], f[1] = x[0], x[1]
    for i in range(2, 8):
        f[i] = 0.5 * f[i - 1] + 0.3 * f[i - 2]
    return f[-1] ** 2 + f[3]


def soft_dtw(x):
    y = np.array([0.1, 0.9, 0.4, -0.3])
    n, m = len(x), len(y)
    cost = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            cost[i, j] = (x[i] - y[j]) ** 2
    table = np.full((n + 1, m + 1), 1e10)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            before = np.array([table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]])
            low = np.min(before)
            table[i, j] = cost[i - 1, j - 1] + low - np.log(np.sum(np.exp(-(before - low))))
    return table[n, m]


def soft_edit_distance(x):
    table = np.zeros((len(x) + 1, 4))
    table[:, 0] = np.arange(len(x) + 1)
    table[0, :] = np.arange(4)
    for i in range(1, len(x) + 1):
        for j in range(1, 4):
            swap = table[i - 1, j - 1] + abs(x[i - 1] - 0.3 * j)
            table[i, j] = -np.log(math.exp(-(table[i - 1, j] + 1.0)) + np.exp(-(table[i, j - 1] + 1)) + np.exp(-swap))
    return table[-1, -1]


def viterbi_in_log_space(x):
    start = np.log(np.array([0.6, 0.4]))
    change = np.log([[0.7, 0.3], [0.4, 0.6]])
    means = np.array([0.0, 1.0])
    best = np.zeros((len(x), 2))
    best[0] = start - 0.5 * (x[0] - means) ** 2
    for t in range(1, len(x)):
        for s in range(2):
            best[t, s] = np.max(best[t - 1] + change[:, s]) - 0.5 * (x[t] - means[s]) ** 2
    return np.max(best[-1])


def forward_algorithm(x):
    change = np.array([[0.7, 0.3], [0.4, 0.6]])
    alpha = np.zeros((len(x), 2))
    alpha[0] = np.array([0.5, 0.5]) * np.exp(-0.5 * (x[0] - np.array([0.0, 1.0])) ** 2)
    for t in range(1, len(x)):
        for s in range(2):
            alpha[t, s] = np.dot(alpha[t - 1], change[:, s]) * math.exp(-0.5 * (x[t] - s) ** 2)
    return np.log(np.sum(alpha[-1]))


def ctc_loss(x):
    logits = x.reshape(4, 3)
    log_p = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    label = [0, 1, 0, 2, 0]
    alpha = np.full((4, 5), -1e9)
    alpha[0, 0] = log_p[0, label[0]]
    alpha[0, 1] = log_p[0, label[1]]
    for t in range(1, 4):
        for s in range(5):
            terms = [alpha[t - 1, s]]
            if s >= 1:
                terms.append(alpha[t - 1, s - 1])
            if s >= 2 and label[s] != 0 and label[s] != label[s - 2]:
                terms.append(alpha[t - 1, s - 2])
            terms = np.array(terms)
            top = terms.max()
            alpha[t, s] = top + np.log(np.exp(terms - top).sum()) + log_p[t, label[s]]
    return -np.logaddexp(alpha[-1, -1], alpha[-1, -2])


def binomial_tree(x):
    rate, volatility = x[0], x[1]
    n = 5
    up = math.exp(volatility * math.sqrt(1 / n))
    p = (math.exp(rate / n) - 1 / up) / (up - 1 / up)
    values = np.zeros(n + 1)
    for i in range(n + 1):
        values[i] = np.maximum(100.0 * up ** (2 * i - n) - 95.0, 0.0)
    for step in range(n, 0, -1):
        for i in range(step):
            values[i] = math.exp(-rate / n) * (p * values[i + 1] + (1 - p) * values[i])
    return values[0]


def shortest_paths(x):
    d = np.full((4, 4), 100.0)
    for i in range(4):
        d[i, i] = 0.0
        d[i, (i + 1) % 4] = x[i]
        d[(i + 2) % 4, i] = x[i] * 1.5
    for k in range(4):
        for i in range(4):
            for j in range(4):
                d[i, j] = np.minimum(d[i, j], d[i, k] + d[k, j])
    return d.sum()


def knapsack_relaxed(x):
    weights = [1, 2, 3]
    best = np.zeros((4, 6))
    for i in range(1, 4):
        for w in range(6):
            best[i, w] = best[i - 1, w]
            if weights[i - 1] <= w:
                best[i, w] = np.logaddexp(best[i, w], best[i - 1, w - weights[i - 1]] + x[i - 1])
    return best[3, 5]


def prefix_table(x):
    image = x.reshape(3, 4)
    table = np.zeros((4, 5))
    for i in range(3):
        for j in range(4):
            table[i + 1, j + 1] = image[i, j] + table[i, j + 1] + table[i + 1, j] - table[i, j]
    return table[3, 4] * table[2, 2] + table[1, 3]


def pascal_weights(x):
    rows = [[1.0]]
    for _ in range(4):
        last = rows[-1]
        rows.append([1.0, *[last[k] * x[0] + last[k + 1] * x[1] for k in range(len(last) - 1)], 1.0])
    return np.array(rows[-1]) @ np.arange(len(rows[-1]))


def cumulative_return(x):
    wealth = np.ones(len(x) + 1)
    for i, r in enumerate(x):
        wealth[i + 1] = wealth[i] * (1 + r)
    peak = np.maximum.accumulate(wealth)
    return np.sum((wealth - peak) / peak) + wealth[-1]


def cky_inside(x):
    score = x.reshape(3, 4)
    inside = np.zeros((4, 5))
    for i in range(4):
        inside[i, i + 1] = np.tanh(score[0, i])
    for width in range(2, 5):
        for i in range(5 - width):
            total = 0.0
            for k in range(i + 1, i + width):
                total = total + np.exp(inside[i, k] + inside[k, i + width])
            inside[i, i + width] = np.log(total) + score[1, i]
    return inside[0, 4]


def beam_scores(x):
    scores = x.reshape(3, 4)
    beams = [(0.0, [])]
    for t in range(3):
        beams = [(s + scores[t, k], [*path, k]) for s, path in beams for k in range(4)]
        beams = sorted(beams, key=lambda beam: -beam[0])[:2]
    return np.sum(np.array([s for s, _ in beams]))


def game_values(x):
    value = np.zeros(5)
    for _ in range(4):
        fresh = value.copy()
        for s in range(1, 4):
            fresh[s] = x[s] + 0.45 * (value[s - 1] + value[s + 1])
        value = fresh
    return value @ value


def moving_average(x):
    window = 3
    out = np.zeros(len(x) - window + 1)
    for i in range(len(out)):
        out[i] = np.mean(x[i : i + window])
    return np.sum(out**3)


def exponential_smoothing(x):
    s = np.zeros_like(x)
    s[0] = x[0]
    for t in range(1, len(x)):
        s[t] = 0.3 * x[t] + 0.7 * s[t - 1]
    return np.sum((x - s) ** 2)


def levinson(x):
    r = np.array([1.0 + x[0] ** 2, 0.5 * x[1], 0.2 * x[2], 0.1])
    a = np.zeros(4)
    a[0] = 1.0
    error = r[0]
    for i in range(1, 4):
        k = -sum(a[j] * r[i - j] for j in range(i)) / error
        before = a.copy()
        for j in range(1, i):
            a[j] = before[j] + k * before[i - j]
        a[i] = k
        error = error * (1 - k * k)
    return error + a.sum()


PROGRAMS = [
    (running_sum, 5), (running_product, 5), (fibonacci_like, 2), (soft_dtw, 5), (soft_edit_distance, 4),
    (viterbi_in_log_space, 5), (forward_algorithm, 4), (ctc_loss, 12), (binomial_tree, 2), (shortest_paths, 4),
    (knapsack_relaxed, 3), (prefix_table, 12), (pascal_weights, 2), (cumulative_return, 5), (cky_inside, 12),
    (game_values, 5), (moving_average, 7), (exponential_smoothing, 6), (levinson, 3),
]  # fmt: skip
DECIDED = [(beam_scores, 12)]
"""Programs with Python conditions on values, which cannot be compiled."""

"""A time series with a hidden level: the likelihood of a Kalman filter is climbed by its gradient through the scan.

The two noises of the series, that of the level and that of the readings, come out near those that made it.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "largest relative error of the two widths of noise"
BOUND = 0.15


def loss(logs, series):
    """The negative log-likelihood of the readings, for a level that walks at random."""
    level, reading = np.exp(2 * logs["level"]), np.exp(2 * logs["reading"])

    def observe(state, y):
        mean, spread = state
        spread = spread + level
        total = spread + reading
        share, error = spread / total, y - mean
        return (mean + share * error, (1 - share) * spread), 0.5 * (np.log(total) + error**2 / total)

    return np.mean(ws.scan(observe, (series[0], reading), series[1:])[1])


def main():
    rng = np.random.default_rng(0)
    series = np.cumsum(0.3 * rng.normal(size=2000)) + 0.5 * rng.normal(size=2000)
    logs = {"level": np.array(0.0), "reading": np.array(0.0)}
    step = ws.compile(loss, logs, optimizer=optim.adam(optim.cosine(0.05, 200)), batch=series)
    for _ in range(200):
        step(series)
    found = step.params
    return float(max(abs(np.exp(found["level"]) / 0.3 - 1), abs(np.exp(found["reading"]) / 0.5 - 1)))


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

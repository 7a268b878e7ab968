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


def run():
    rng = np.random.default_rng(0)
    series = np.cumsum(0.3 * rng.normal(size=2000)) + 0.5 * rng.normal(size=2000)
    logs = {"level": np.array(0.0), "reading": np.array(0.0)}
    step = ws.compile(loss, logs, optimizer=optim.adam(optim.cosine(0.05, 200)), batch=series)
    for _ in range(200):
        step(series)
    return step.params, series


def main():
    found, _ = run()
    return float(max(abs(np.exp(found["level"]) / 0.3 - 1), abs(np.exp(found["reading"]) / 0.5 - 1)))


def picture(figure):
    found, series = run()
    axes, widths = figure.subplots(), np.linspace(0.2, 0.8, 40)
    for i, (name, true) in enumerate({"level": 0.3, "reading": 0.5}.items()):
        curve = [loss({**found, name: np.log(width)}, series) for width in widths]
        axes.plot(widths, curve, f"C{i}", label=f"noise of the {name}")
        axes.plot(np.exp(found[name]), loss(found, series), f"C{i}o", label="found" if i else None)
        axes.axvline(true, color=f"C{i}", linestyle="--", label="true" if i else None)
    axes.set(xlabel="width of the noise", ylabel="negative log-likelihood", title="Two noises of one series")
    axes.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

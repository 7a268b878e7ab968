"""Independent components: three sounds are told apart in three mixtures of them, from their likelihood alone.

The sources have heavy tails; the matrix that takes the mixtures apart is the one under which they are most likely.
"""

import numpy as np
from scipy.optimize import minimize

import wholestep as ws

QUANTITY = "share of other sources that is left in one that was taken apart"
BOUND = 0.05
SOURCES = 3


def surprise(flat, mixed):
    """The mean negative log-likelihood of mixtures, for sources whose density is the inverse of a hyperbolic cosine."""
    apart = flat.reshape(SOURCES, SOURCES)
    sources = apart @ mixed
    log_cosh = np.logaddexp(sources, -sources) - np.log(2)
    return np.mean(np.sum(log_cosh, axis=0)) - np.linalg.slogdet(apart)[1]


def run():
    rng = np.random.default_rng(0)
    t = np.arange(3000) / 3000
    sources = np.stack(
        [rng.laplace(size=3000), rng.laplace(size=3000) * np.sin(9 * t), rng.laplace(size=3000) * (np.sin(60 * t) > 0)]
    )
    sources /= sources.std(axis=1, keepdims=True)
    mixing = np.array([[1.0, 0.5, 0.4], [0.3, 1.0, -0.6], [-0.5, 0.4, 1.0]])
    start = np.eye(SOURCES).ravel()
    found = minimize(ws.jit(ws.value_and_grad(surprise)), start, args=(mixing @ sources,), jac=True, method="BFGS")
    return sources, mixing @ sources, found.x.reshape(SOURCES, SOURCES), mixing


def main():
    _, _, apart, mixing = run()
    shares = np.abs(apart @ mixing)
    shares /= shares.sum(axis=1, keepdims=True)
    return float(1 - np.min(np.max(shares, axis=1)))


def picture(figure):
    sources, mixed, apart, mixing = run()
    order = np.argmax(np.abs(apart @ mixing), axis=0)
    panels = figure.subplots(3, 3, sharex=True)
    for row, (title, sounds) in enumerate(
        {"true": sources, "mixed": mixed, "taken apart": apart[order] @ mixed}.items()
    ):
        for k in range(SOURCES):
            panels[row, k].plot(sounds[k, :150], f"C{k}", linewidth=0.8)
            panels[row, k].set(yticks=[], xlabel="time" if row == 2 else "", title=title if k == 1 else "")
        panels[row, 0].set(ylabel="sound")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

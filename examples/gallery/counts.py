"""Counts that vary more than by chance: a negative binomial model by its likelihood, with errors from its Hessian.

The curvature of the likelihood at its top says how far the parameters may be from the truth.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln

import wholestep as ws

QUANTITY = "distance from the true parameters, in standard errors"
BOUND = 2.5
TRUE = np.log([4.0, 1.5])


def surprise(logs, counts):
    """The negative log-likelihood of counts with a mean and a number of failures, both as logarithms."""
    mean, size = np.exp(logs[0]), np.exp(logs[1])
    log_chance = gammaln(counts + size) - gammaln(size) - gammaln(counts + 1)
    log_chance += size * np.log(size / (size + mean)) + counts * np.log(mean / (size + mean))
    return -np.sum(log_chance)


def run():
    mean, size = np.exp(TRUE)
    counts = np.random.default_rng(0).negative_binomial(size, size / (size + mean), 2000).astype(float)
    found = minimize(ws.jit(ws.value_and_grad(surprise)), np.zeros(2), args=(counts,), jac=True, method="BFGS")
    return counts, found.x, np.sqrt(np.diag(np.linalg.inv(ws.hessian(surprise)(found.x, counts))))


def main():
    _, found, errors = run()
    return float(np.max(np.abs(found - TRUE) / errors))


def picture(figure):
    counts, found, _ = run()
    axes, values = figure.subplots(), np.arange(25.0)
    axes.hist(counts, bins=np.arange(26) - 0.5, density=True, color="0.8", label="counts")
    chances = [np.exp(-surprise(found, np.array([n]))) for n in values]
    axes.plot(values, chances, "o-", markersize=3, label="negative binomial")
    poisson = np.exp(values * np.log(counts.mean()) - counts.mean() - gammaln(values + 1))
    axes.plot(values, poisson, "k--", label="Poisson, the same mean")
    axes.set(xlabel="count", ylabel="chance", title="2000 counts")
    axes.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

"""Derivatives of derivatives: the hyperbolic tangent and six of its derivatives, compared with their exact polynomials.

Each derivative of tanh is a polynomial in tanh, so that the sixth one can be checked to the last digits.
"""

import numpy as np
from numpy.polynomial import Polynomial

import wholestep as ws

QUANTITY = "largest error of a derivative up to the sixth, relative to the largest value of it"
BOUND = 1e-12
ORDER = 6


def tower(x):
    """The function and its derivatives, one derived from the other."""
    f, found = np.tanh, []
    for _ in range(ORDER + 1):
        found.append(f(x))
        f = ws.elementwise_grad(f)
    return np.stack(found)


def exact(x):
    polynomial, found = Polynomial([0.0, 1.0]), []
    for _ in range(ORDER + 1):
        found.append(polynomial(np.tanh(x)))
        polynomial = polynomial.deriv() * Polynomial([1.0, 0.0, -1.0])
    return np.stack(found)


def run():
    x = np.linspace(-7, 7, 701)
    return x, ws.jit(tower)(x), exact(x)


def main():
    _, found, true = run()
    return float(np.max(np.max(np.abs(found - true), axis=1) / np.max(np.abs(true), axis=1)))


def picture(figure):
    x, found, true = run()
    axes = figure.subplots()
    for order, curve in enumerate(found):
        axes.plot(x, curve / np.max(np.abs(true[order])), linewidth=1, label=f"{order}")
    axes.set(xlabel="x", ylabel="derivative, the largest being 1", title="tanh and six derivatives", xlim=(-4, 4))
    figure.legend(loc="outside lower center", ncols=7, fontsize="small")


if __name__ == "__main__":
    print(f"{main():.2e} {QUANTITY}")

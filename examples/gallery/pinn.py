"""A physics-informed network: a function that satisfies a differential equation, since its loss is the equation.

u'' + u = x on [0, 2] with u(0) = 0 and u(2) = 1. The second derivative is `ws.grad` of `ws.grad`, mapped over the
points; the error is that against the closed form.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "largest error against the closed form"
BOUND = 0.01


def solution(model, x):
    return x / 2 + x * (2 - x) * model(np.stack([x]))[0]  # the ends are right by construction


def loss(model, x):
    second = ws.vmap(ws.grad(ws.grad(solution, argnums=1), argnums=1), in_axes=(None, 0))(model, x)
    value = ws.vmap(solution, in_axes=(None, 0))(model, x)
    return np.mean((second + value - x) ** 2)


def run():
    x = np.linspace(0, 2, 64).astype(np.float32)
    model = nn.MLP((1, 24, 24, 1), key=0, activation=nn.tanh)
    step = ws.compile(loss, model, optimizer=optim.adam(optim.cosine(1e-2, 400)), batch=x)
    for _ in range(400):
        step(x)
    found = np.array([solution(step.model, point) for point in x])
    return x, found, x + (1 - 2) / np.sin(2) * np.sin(x)


def main():
    _, found, exact = run()
    return float(np.max(np.abs(found - exact)))


def picture(figure):
    x, found, exact = run()
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    upper.plot(x, exact, label="closed form")
    upper.plot(x[::4], found[::4], "o", label="network")
    upper.set(ylabel="y", title="y'' + y = x")
    upper.legend()
    lower.plot(x, 1e4 * (found - exact), "C1")
    lower.set(xlabel="x", ylabel="error, 1e-4")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

"""A neural ordinary differential equation: a network is the right-hand side, and learns a spiral from one trajectory.

The solver is Runge and Kutta's of fourth order in a `ws.scan`; the gradient goes through all of its steps.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "mean error along the trajectory"
BOUND = 0.25
STEP = np.float32(0.1)


def solved(f, start, count):
    def advance(x, _):
        a = f(x)
        b = f(x + 0.5 * STEP * a)
        c = f(x + 0.5 * STEP * b)
        d = f(x + STEP * c)
        x = x + STEP / 6 * (a + 2 * b + 2 * c + d)
        return x, x

    return ws.scan(advance, start, np.arange(count))[1]


def loss(model, batch):
    return nn.mse(solved(lambda x: model(x**3), batch["start"], 10), batch["path"])


def run():
    turn = np.array([[-0.1, 2.0], [-2.0, -0.1]], np.float32)
    path = solved(lambda x: x**3 @ turn.T, np.array([[2.0, 0.0]], np.float32), 120)
    path = np.concatenate([[[[2.0, 0.0]]], path]).astype(np.float32)
    starts = np.arange(110)
    data = {"start": path[starts, 0], "path": np.stack([path[i + 1 : i + 11, 0] for i in starts])}
    model = nn.MLP((2, 24, 2), key=0, activation=nn.tanh)
    example = {"start": data["start"][:22], "path": np.swapaxes(data["path"][:22], 0, 1)}
    step = ws.compile(loss, model, optimizer=optim.adam(optim.cosine(1e-2, 1200)), batch=example)
    rng = np.random.default_rng(0)
    for _ in range(1200):
        rows = rng.choice(110, 22, replace=False)
        step({"start": data["start"][rows], "path": np.swapaxes(data["path"][rows], 0, 1)})
    trained = step.model
    return path, solved(lambda x: trained(x**3), path[0], 60)


def main():
    path, found = run()
    return float(np.mean(np.abs(found - path[1:61])))


def picture(figure):
    path, found = run()
    axes = figure.subplots()
    axes.plot(*path[1:61, 0].T, ".", label="the trajectory")
    axes.plot(*found[:, 0].T, label="the network's")
    axes.set(xlabel="x", ylabel="y", title="A spiral, and what was learned of it")
    axes.axis("equal")
    figure.legend(loc="outside lower center", ncols=3)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

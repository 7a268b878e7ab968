"""Meta-learning: a start from which five steps of descent fit any of many waves, by the gradient through them.

A plain average of all waves is flat; the learned weights are not a wave but a starting point.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "of the error before the five steps that is left after them, on new waves"
BOUND = 0.1
RATE, STEPS = 0.1, 5


def misfit(model, task):
    return nn.mse(model(task["x"]), task["y"])


def adapted(model, task):
    for _ in range(STEPS):
        gradient = ws.grad(misfit)(model, {"x": task["x"][:10], "y": task["y"][:10]})
        model = ws.tree.map(lambda w, g: w - RATE * g, model, gradient)
    return model


def after_steps(model, task):
    return misfit(adapted(model, task), {"x": task["x"][10:], "y": task["y"][10:]})


def loss(model, tasks):
    return np.mean(ws.vmap(after_steps, in_axes=(None, 0))(model, tasks))


def waves(count, rng):
    x, height = rng.uniform(-2, 2, (count, 20, 1)), rng.uniform(0.5, 2, (count, 1, 1))
    return {
        "x": x.astype(np.float32),
        "y": (height * np.sin(2 * x) * rng.choice([-1, 1], (count, 1, 1))).astype(np.float32),
    }


def run():
    rng = np.random.default_rng(0)
    model, tasks = nn.MLP([1, 32, 32, 1], activation=nn.tanh, key=0), waves(16, rng)
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(optim.cosine(1e-2, 500)))
    step = ws.compile(loss, model, optimizer=optimizer, batch=tasks)
    for _ in range(500):
        step(waves(16, rng))
    return step.model, waves(200, rng)


def main():
    model, fresh = run()
    before = np.mean([misfit(model, {"x": x[10:], "y": y[10:]}) for x, y in zip(fresh["x"], fresh["y"], strict=True)])
    return float(loss(model, fresh) / before)


def picture(figure):
    model, fresh = run()
    axes, line = figure.subplots(), np.linspace(-2, 2, 100, dtype=np.float32)[:, None]
    axes.plot(line, model(line), "0.5", linestyle="--", label="the start")
    for k in range(3):
        task = {name: x[k] for name, x in fresh.items()}
        axes.plot(line, adapted(model, task)(line), f"C{k}", label="after five steps" if k == 0 else None)
        axes.plot(task["x"][:10], task["y"][:10], f"C{k}o", label="ten points seen" if k == 0 else None)
    axes.set(xlabel="x", ylabel="y", title="One start, three waves")
    figure.legend(loc="outside lower center", fontsize="small", ncols=3)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

"""Meta-learning: weights and rates from which a few gradient steps on ten points fit a sine wave never seen before.

python examples/maml.py                      # half a minute; Ctrl-C keeps the state
python examples/maml.py --resume             # go on after Ctrl-C, to the same bits

Finn, Abbeel and Levine, Model-agnostic meta-learning (2017), with a rate learned for each inner step.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

import wholestep as ws
from wholestep import nn

POINTS = 10
INNER = 3


def waves(count, seed):
    """Sine waves of random height and phase, each seen at ten points to learn from and at ten others."""
    rng = np.random.default_rng(seed)
    height, phase = rng.uniform(0.1, 5, (count, 1, 1)), rng.uniform(0, np.pi, (count, 1, 1))
    x = rng.uniform(-5, 5, (count, 2 * POINTS, 1))
    y = height * np.sin(x + phase)
    seen, other = slice(0, POINTS), slice(POINTS, None)
    found = {"x": x[:, seen], "y": y[:, seen], "other_x": x[:, other], "other_y": y[:, other]}
    return {name: values.astype(np.float32) for name, values in found.items()}


def error(model, x, y):
    return np.mean((model(x) - y) ** 2)


def fitted(learned, x, y, steps=INNER):
    """The model after gradient steps on the points of one wave; all of it can be differentiated."""
    train = ws.unroll(lambda model, _: error(model, x, y), ws.optim.sgd(0.01), steps)
    model, _, _ = train(learned["model"], None, None, {"lr": np.exp(learned["rates"])})
    return model


def meta(learned, batch):
    """The error at the other points once each wave has been fitted by itself."""

    def one(wave):
        return error(fitted(learned, wave["x"], wave["y"]), wave["other_x"], wave["other_y"])

    return np.mean(ws.vmap(one)(batch))


def together(learned, batch):
    """The error of one model for all waves, to compare with."""
    return error(learned["model"], batch["x"], batch["y"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--checkpoint", default="maml.safetensors")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--curves", default="maml.png")
    options = parser.parse_args(arguments)

    unseen = waves(200, seed=1)
    begin = {"model": nn.MLP((1, 40, 40, 1), key=0), "rates": np.full(INNER, np.log(0.01), np.float32)}
    errors, models = {}, {}
    for name, loss in {"meta": meta, "together": together}.items():
        loader = ws.Loader(waves(20_000, seed=0), batch_size=25, key=0)
        given = {"batch": loader.example, "allow_unused": loss is together}  # `together` has no rates
        step = ws.compile(loss, begin, optimizer=ws.optim.adam(1e-3), **given)
        where = options.checkpoint.replace(".safetensors", f"_{name}.safetensors")
        ws.fit(step, loader, steps=options.steps, checkpoint=where, resume=options.resume)
        models[name] = step.model
        errors[name] = float(step.attach(meta)(unseen))
        rates = ", ".join(f"{x:.3f}" for x in np.exp(step.model["rates"]))
        print(f"{name:<10} error on new waves after {INNER} steps {errors[name]:.3f}, rates {rates}")

    x, seen = np.linspace(-5, 5, 200, dtype=np.float32)[:, None], {name: values[0] for name, values in unseen.items()}
    figure, axis = plt.subplots(layout="constrained")
    for name, learned in models.items():
        axis.plot(x, fitted(learned, seen["x"], seen["y"])(x), label=f"{name}, {INNER} steps")
    axis.scatter(seen["x"], seen["y"], label="seen")
    axis.scatter(seen["other_x"], seen["other_y"], label="not seen", marker="x")
    axis.legend()
    figure.savefig(options.curves)
    return errors


if __name__ == "__main__":
    main()

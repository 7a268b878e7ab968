"""A generative adversarial network that learns a normal distribution from samples: two losses, two steps, in turns.

The generator moves and stretches noise; the discriminator is a polynomial of second degree. Each has a step of its own,
which is handed the parameters of the other as a part of its batch. Two such players circle around each other; a penalty
on the slope of the discriminator at true samples (Mescheder et al., 2018) lets them come to rest.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "error of mean and width of the samples"
BOUND = 0.15


def score(judge, x):
    return judge["offset"] + judge["slope"] * x + judge["curve"] * x**2 / 2


def samples(maker, noise):
    return maker["shift"] + np.exp(maker["log_width"]) * noise


def judge_loss(judge, batch):
    real, false = score(judge, batch["real"]), score(judge, samples(batch["maker"], batch["noise"]))
    slope = ws.grad(lambda x: np.sum(score(judge, x)))(batch["real"])
    return np.mean(nn.softplus(-real) + nn.softplus(false)) + 0.3 * np.mean(slope**2)


def maker_loss(maker, batch):
    return np.mean(nn.softplus(-score(batch["judge"], samples(maker, batch["noise"]))))


def run():
    rng = np.random.default_rng(0)
    judge = dict.fromkeys(("offset", "slope", "curve"), np.float32(0))
    maker = {"shift": np.float32(0), "log_width": np.float32(0)}
    rows = {"noise": ws.ShapeDtype((256,), "float32"), "real": ws.ShapeDtype((256,), "float32")}
    judging = ws.compile(judge_loss, judge, optimizer=optim.sgd(0.2), batch={**rows, "maker": maker})
    making = ws.compile(maker_loss, maker, optimizer=optim.sgd(0.2), batch={"noise": rows["noise"], "judge": judge})
    trail = []
    for _ in range(2000):
        noise = rng.normal(size=(2, 256)).astype(np.float32)
        real = (2 + 0.5 * rng.normal(size=256)).astype(np.float32)
        judging({"noise": noise[0], "real": real, "maker": making.params})
        making({"noise": noise[1], "judge": judging.params})
        trail.append([float(making.params["shift"]), float(np.exp(making.params["log_width"]))])
    return np.array(trail)


def main():
    trail = run()
    return float(np.max(np.abs(np.mean(trail[-1000:], axis=0) - [2.0, 0.5])))


def picture(figure):
    trail = run()
    axes = figure.subplots()
    for i, (name, wanted) in enumerate({"mean": 2.0, "width": 0.5}.items()):
        axes.plot(trail[:, i], label=f"{name} of the samples")
        axes.axhline(wanted, color=f"C{i}", linestyle="--", label=f"{name} of the data")
    axes.set(xlabel="step", ylabel="value", title="Two players, in turns")
    axes.legend(loc="center", ncols=2, fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

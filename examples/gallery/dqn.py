"""Deep Q-learning on a ring of rooms: a network learns the worth of both ways from remembered steps.

A room pays, and every step is discounted; the exact worths come from iterating the equation of Bellman on the table.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "largest error of a worth, against the exact table"
BOUND = 0.1
ROOMS, DISCOUNT = 8, 0.8


def walked(room, way):
    """The next room and the reward of entering it."""
    after = (room + 2 * way - 1) % ROOMS
    return after, (after == 0).astype(np.float32)


def loss(model, batch):
    worth = np.take_along_axis(model(batch["room"]), batch["way"][:, None], axis=1)[:, 0]
    return nn.mse(worth, batch["target"])


def run():
    rng = np.random.default_rng(0)
    eye = np.eye(ROOMS, dtype=np.float32)
    model = nn.MLP([ROOMS, 32, 2], key=0)
    room, way = rng.integers(0, ROOMS, 64), rng.integers(0, 2, 64)
    batch = {"room": eye[room], "way": way, "target": np.zeros(64, np.float32)}
    step = ws.compile(loss, model, optimizer=optim.adam(5e-3), batch=batch)
    for n in range(900):
        if n % 30 == 0:
            table = step.predict(eye)  # the target network, a copy from some steps ago
        room, way = rng.integers(0, ROOMS, 64), rng.integers(0, 2, 64)
        after, paid = walked(room, way)
        step({"room": eye[room], "way": way, "target": paid + DISCOUNT * table[after].max(axis=1)})
    exact = np.zeros((ROOMS, 2))
    after, paid = walked(np.arange(ROOMS)[:, None], np.arange(2))
    for _ in range(200):
        exact = paid + DISCOUNT * exact.max(axis=1)[after]
    return step.predict(eye), exact


def main():
    found, exact = run()
    return float(np.max(np.abs(found - exact)))


def picture(figure):
    found, exact = run()
    axes = figure.subplots()
    for way, name in enumerate(["back", "on"]):
        axes.plot(exact[:, way], color=f"C{way}", label=f"{name}, exact")
        axes.plot(found[:, way], "o", color=f"C{way}", label=f"{name}, learned")
    axes.set(xlabel="room", ylabel="discounted return", title="Worth of both ways out of each room")
    figure.legend(loc="outside lower center", ncols=2)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

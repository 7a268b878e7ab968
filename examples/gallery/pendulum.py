"""Optimal control of a pendulum: torques that swing it up, from the gradient through two hundred steps of its motion.

The torque is bounded, too weak to lift the weight directly, so that it has to swing. The simulation is a `ws.scan`, the
cost is that of the end and of the way there, and the torques are the parameters.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "radians from upright at the end"
BOUND = 0.05
STEP, STEPS = 0.03, 200


def motion(torques):
    def advance(state, torque):
        angle, speed = state
        speed = speed + STEP * (-9.81 * np.sin(angle) + 5 * np.tanh(torque) - 0.05 * speed)
        return (angle + STEP * speed, speed), (angle, speed)

    return ws.scan(advance, (0.0, 0.0), torques)


def loss(torques, _):
    (angle, speed), (angles, _) = motion(torques)
    return 20 * (1 + np.cos(angle)) + speed**2 + np.mean(1 + np.cos(angles))


def run():
    start = 0.5 * np.sin(np.sqrt(9.81) * STEP * np.arange(STEPS))
    step = ws.compile(loss, start, optimizer=optim.adam(optim.cosine(0.1, 500)), batch=np.zeros(()))
    for _ in range(500):
        step(np.zeros(()))
    return step.params


def main():
    torques = run()
    angle = float(motion(torques)[0][0])
    return abs((angle % (2 * np.pi)) - np.pi)


def picture(figure):
    torques = run()
    axes, seconds = figure.subplots(), STEP * np.arange(STEPS)
    axes.plot(seconds, motion(torques)[1][0], label="angle, radians")
    axes.plot(seconds, 5 * np.tanh(torques), linewidth=1, label="torque")
    for upright in -np.pi, np.pi:
        axes.axhline(upright, color="0.6", linestyle="--", label="upright" if upright > 0 else None)
    axes.set(xlabel="seconds", ylabel="angle and torque", title="A pendulum swings itself up")
    figure.legend(loc="outside lower center", ncols=3)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")

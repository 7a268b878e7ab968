"""Programs of single processes in the tests of meshes; functions that a new process can import."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep.collectives import enter_axis, sum_over_ranks
from wholestep.train.loop.run import Callback

STEPS = 4
ROWS = 24
"""The rows of a batch of all processes together."""


def start(name: str, rows: int) -> tuple[Any, Any, Any]:
    """(loss, parameters, batch) of a program by its name."""
    rng = np.random.default_rng(3)
    params = {
        "w": rng.normal(size=(6, 40)).astype(np.float32),
        "v": (rng.normal(size=(40, 1)) * 0.2).astype(np.float32),
        "c": np.float32(0.5),
    }
    batch = {
        "x": rng.normal(size=(rows, 6)).astype(np.float32),
        "y": rng.normal(size=(rows, 1)).astype(np.float32),
    }

    def plain(params: Any, batch: Any) -> Any:
        h = np.tanh(batch["x"] @ params["w"])
        return np.mean((h @ params["v"] + params["c"] - batch["y"]) ** 2)

    def dropped(params: Any, batch: Any, *, key: Any) -> Any:
        h = np.tanh(batch["x"] @ params["w"])
        h = h * ws.random.bernoulli(key, 0.5, h.shape)
        return np.mean((h @ params["v"] + params["c"] - batch["y"]) ** 2)

    def normalized(params: Any, batch: Any) -> Any:
        h = batch["x"] @ params["w"]
        mean = ws.pmean(h.mean(axis=0), "data")
        var = ws.pmean(((h - mean) ** 2).mean(axis=0), "data")
        h = np.tanh((h - mean) / np.sqrt(var + np.float32(1e-5)))
        return np.mean((h @ params["v"] + params["c"] - batch["y"]) ** 2)

    def looped(params: Any, batch: Any) -> Any:
        """A mean over the processes in each trip of a loop, with an odd number of elements."""
        wide = np.full((1201,), params["c"])
        total = ws.scan(lambda s, _: (s + ws.pmean(wide * s[0], "data"), None), wide, None, length=3)[0]
        return np.mean((total[0] - batch["y"]) ** 2)

    def contrasted(params: Any, batch: Any) -> Any:
        """A contrastive loss: scores of each row against the rows of all processes."""
        h = np.tanh(batch["x"] @ params["w"])
        others = ws.all_gather(h * params["c"], "data").reshape(-1, 40)
        scores = h @ others.T
        return np.mean(np.log(np.exp(scores).sum(axis=1))) - np.mean(h * params["v"][:, 0])

    losses = {"plain": plain, "dropped": dropped, "normalized": normalized, "looped": looped, "contrasted": contrasted}
    return losses[name], params, batch


def optimizer(name: str) -> Any:
    """An optimizer by its name."""
    clipped = ws.optim.chain(ws.optim.clip_by_global_norm(0.5), ws.optim.adam(1e-2))
    grouped = ws.optim.groups({"w": ws.optim.sgd(1e-2, momentum=0.9)}, ws.optim.adamw(1e-2, decay="v"))
    averaged = ws.optim.ema(ws.optim.lookahead(ws.optim.radam(1e-2), 2))
    known = {
        "adam": ws.optim.adam(1e-2),
        "clip": clipped,
        "groups": grouped,
        "averaged": averaged,
        "accumulate": ws.optim.accumulate(ws.optim.lion(1e-2), 2),
    }
    return known[name]


def trained(step: Any, batch: Any) -> list[bytes]:
    """The bytes of the losses and of the state after some steps."""
    losses = [np.float64(step(batch).loss).tobytes() for _ in range(STEPS)]
    return [*losses, *[np.asarray(x).tobytes() for x in ws_leaves(step)]]


def ws_leaves(step: Any) -> list[Any]:
    """The arrays of the parameters and of the optimizer's state."""
    return [*tree.leaves(step.params), *tree.leaves(step.state["optimizer"])]


def sent_bytes(communicator: Any, cases: Any, processes: Any) -> list[Any]:
    """For each case: (bytes and messages of three calls, those predicted of one call for each number of processes)."""
    found = []
    for name, how, rows, options in cases:
        loss, params, batch = start(name, rows)
        own = {key: x[:6] for key, x in batch.items()}  # as many rows in any number of processes
        step = ws.compile(loss, params, optimizer=optimizer(how), batch=own, mesh={"data": communicator}, **options)
        predicted = step.cost(mesh=ws.mesh.Link(1e-6, 1e9))
        before = communicator.sent, communicator.messages
        for _ in range(3):
            step(own)
        sent = communicator.sent - before[0], communicator.messages - before[1]
        found.append((sent, [(predicted.at(n).bytes, predicted.at(n).messages) for n in processes]))
    return found


def rows_of(x: Any) -> Any:
    """Each row with weights of the rank's own, over all ranks' rows: a gather with a gradient that differs by rank."""
    own = ws.axis_index("data") + 1
    return (ws.all_gather({"x": x * x}, "data")["x"] * (x[None] * own)).sum(axis=0)


def gathers(communicator: Any, x: Any) -> list[bytes]:
    """Value and gradient of `rows_of` with respect to this rank's row, in compiled code and without."""
    enter_axis("data", communicator)
    row, found = x[communicator.rank], []
    for call in (ws.jit(with_gradient), with_gradient):
        found.append([np.asarray(part).tobytes() for part in call(row)])
    return [*found, ws.jit(lambda x: ws.all_gather(x > 0, "data"))(row).tolist()]


def with_gradient(x: Any) -> Any:
    """`rows_of`, and the gradient of the sum of its elements over all ranks."""
    value, pullback = ws.vjp(rows_of, x)
    return value, pullback(np.ones_like(x))[0]


def exchanged(x: Any) -> tuple[Any, Any, Any]:
    """The maximum and minimum over the axis, the value of the preceding rank if there is one, and an all-to-all."""
    turned = ws.all_to_all(ws.all_gather(x, "data") * x, "data")
    return ws.pmax(x, "data"), ws.pmin(x, "data"), ws.ppermute(x, "data", [(0, 1)]), turned


def exchanges(communicator: Any, x: Any) -> list[Any]:
    """`exchanged` of this rank's row, in compiled code."""
    enter_axis("data", communicator)
    return [np.asarray(part) for part in ws.jit(exchanged)(x[communicator.rank])]


def sharded(communicator: Any, cases: Any) -> list[Any]:
    """Train each case with a part of the optimizer's state: losses, parameters, all of the state, and the own bytes."""
    found = []
    for name, how, rows, options in cases:
        loss, params, batch = start(name, rows)
        own = ws.mesh.rows(batch, communicator)
        given: Any = {"optimizer": optimizer(how), "batch": own, "mesh": {"data": communicator}, **options}
        step = ws.compile(loss, params, shard="optimizer", **given)
        losses = [np.float64(step(own).loss).tobytes() for _ in range(STEPS)]
        whole = [*tree.leaves(step.params), *tree.leaves(step._engine.whole_optimizer())]
        nbytes = sum(x.nbytes for x in tree.leaves(step.state["optimizer"]))
        state = sum(np.asarray(x).nbytes for x in tree.leaves(step.state))
        assert step.memory.state == state, (step.memory, state)
        found.append(([*losses, *[np.asarray(x).tobytes() for x in whole]], nbytes))
    return found


def fitted_in_parts(communicator: Any, folder: str, epochs: int) -> list[bytes]:
    """A run of fit with a sharded optimizer state that continues from a file: the averaged parameters, the parameters,
    and the whole optimizer state at its end."""
    fitted(communicator, folder, epochs, True, shard="optimizer")
    loss, params, data = start("plain", 100)
    batch = {name: x[: ROWS // communicator.size] for name, x in data.items()}
    options: Any = {"optimizer": optimizer("averaged"), "batch": batch, "mesh": {"data": communicator}}
    step = ws.compile(loss, params, shard="optimizer", **options)
    step.load(f"{folder}/run.safetensors")
    with step.averaged():
        means = [np.asarray(x).tobytes() for x in tree.leaves(step.params)]
    whole = [*tree.leaves(step.params), *tree.leaves(step._engine.whole_optimizer())]
    return [*means, *[np.asarray(x).tobytes() for x in whole]]


def infinite_in_one_part(communicator: Any) -> list[Any]:
    """A step whose gradient is infinite in the first element alone: its status, the steps skipped, and whether the
    parameters are as they were."""
    params, batch = np.array([0.0, 1.0, 1.0, 1.0], np.float32), np.ones((2, 4), np.float32)
    given: Any = {"optimizer": optimizer("adam"), "batch": batch, "mesh": {"data": communicator}}
    step = ws.compile(lambda p, x: np.mean(np.sqrt(p) * x), params, shard="optimizer", **given)
    return [step(batch).status, step.skipped, np.array_equal(step.params, params)]


def flushed(communicator: Any) -> list[list[bytes]]:
    """Parameters after updates, one of them by a flush of accumulated gradients, with a whole and a sharded state."""
    loss, params, batch = start("plain", ROWS)
    own, found = ws.mesh.rows(batch, communicator), []
    by = ws.optim.accumulate(ws.optim.adam(1e-2), 3)
    for options in ({}, {"shard": "optimizer"}):
        step = ws.compile(loss, params, optimizer=by, batch=own, mesh={"data": communicator}, **options)
        step(own), step.flush(), step(own)
        step.replace(optimizer=ws.optim.adamw(1e-3))
        step(own)
        step.reset(params=False)
        step(own)
        found.append([np.asarray(x).tobytes() for x in tree.leaves(step.params)])
    return found


def train(communicator: Any, cases: Any) -> list[Any]:
    """Train each case on this rank's rows."""
    found = []
    for name, how, rows, options in cases:
        loss, params, batch = start(name, rows)
        own = ws.mesh.rows(batch, communicator)
        step = ws.compile(loss, params, optimizer=optimizer(how), batch=own, mesh={"data": communicator}, **options)
        found.append(trained(step, own))
    return found


def other_parameters(communicator: Any) -> str:
    """The error where ranks begin with different parameters."""
    loss, params, batch = start("plain", 8)
    params["c"] = np.float32(communicator.rank)
    try:
        ws.compile(loss, params, optimizer=optimizer("adam"), batch=batch, mesh={"data": communicator})
    except ws.errors.CommunicationError as error:
        return str(error)
    return "none"


def other_shapes(communicator: Any) -> str:
    """The error where ranks have batches of different shapes."""
    loss, params, batch = start("plain", 8 + 2 * communicator.rank)
    try:
        ws.compile(loss, params, optimizer=optimizer("adam"), batch=batch, mesh={"data": communicator})
    except ws.errors.CommunicationError as error:
        return str(error)
    return "none"


def ends_early(communicator: Any) -> list[Any]:
    """A rank ends after one step; the error of the others, and whether their state is as it was."""
    loss, params, batch = start("plain", 8)
    step = ws.compile(loss, params, optimizer=optimizer("adam"), batch=batch, mesh={"data": communicator})
    step(batch)
    if communicator.rank == 1:
        os._exit(3)
    before = [np.array(x) for x in ws_leaves(step)]
    try:
        step(batch)
    except ws.errors.CommunicationError as error:
        same = all(np.array_equal(a, b) for a, b in zip(before, ws_leaves(step), strict=True))
        return [str(error), same, int(step.steps)]
    return ["none", False, 0]


def sums(communicator: Any) -> list[Any]:
    """The results of all-reduces outside of a step, and the number of bytes that they send."""
    enter_axis("data", communicator)
    small = sum_over_ranks("data", np.arange(5, dtype=np.int32) * (communicator.rank + 1))
    before = communicator.sent
    large = sum_over_ranks("data", np.full((100, 130), communicator.rank + 1.0))
    return [small.tolist(), float(large.min()), float(large.max()), communicator.sent - before]


def fitted(communicator: Any, folder: str, epochs: int, resume: bool, **options: Any) -> list[Any]:
    """A run of fit over shuffled rows with checkpoints: the state, the losses, and the printed text."""
    loss, params, data = start("plain", 100)
    batch = {name: x[: ROWS // communicator.size] for name, x in data.items()}
    by = optimizer("averaged" if options else "clip")  # a norm of parts rounds otherwise
    step = ws.compile(loss, params, optimizer=by, batch=batch, mesh={"data": communicator}, **options)
    out = io.StringIO()
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
        history = ws.fit(
            step,
            data,
            epochs=epochs,
            validation=data,
            progress="plain",
            checkpoint=f"{folder}/run.safetensors",
            resume=resume,
        )
    values = [np.asarray(x).tobytes() for x in ws_leaves(step)]
    return [values, [x.hex() for x in history["val_loss"].tolist()], bool(out.getvalue()), history.losses.tolist()]


class StopsOnOne(Callback):
    """A callback that ends the run on one rank alone."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def on_step(self, run: Any) -> None:
        if self.rank == 1 and run.steps == 3:
            run.stop("enough")


def stopped(communicator: Any) -> list[Any]:
    """A run that one rank stops."""
    loss, params, data = start("plain", 100)
    batch = {name: x[:8] for name, x in data.items()}
    step = ws.compile(loss, params, optimizer=optimizer("adam"), batch=batch, mesh={"data": communicator})
    history = ws.fit(step, data, epochs=3, progress=None, callbacks=[StopsOnOne(communicator.rank)])
    return [len(history.losses), history.stopped]


def looped(communicator: Any) -> list[Any]:
    """Several steps in one call, and epochs of resident data, both with collectives: the losses and the final state."""
    loss, params, data = start("plain", 48)
    own = ws.mesh.rows(data, communicator)
    batch = {name: x[:8].reshape(2, 4, *x.shape[1:]) for name, x in own.items()}
    options: Any = {"optimizer": optimizer("adam"), "mesh": {"data": communicator}}
    step = ws.compile(loss, params, batch=batch, steps_per_call=2, **options)
    first = step(batch).losses.tolist()
    second = step.run(own, batch_size=4).losses.tolist()
    return [first, second, [np.asarray(x).tobytes() for x in ws_leaves(step)]]


def drifting(communicator: Any) -> str:
    """The error of a run in which one rank's parameters were changed."""
    loss, params, data = start("plain", 48)
    batch = {name: x[:8] for name, x in data.items()}
    step = ws.compile(loss, params, optimizer=optimizer("adam"), batch=batch, mesh={"data": communicator})
    if communicator.rank == 1:
        step.load_state({**step.state, "params": {**step.params, "c": np.float32(7)}})
    try:
        ws.fit(step, data, epochs=1, progress=None)
    except ws.errors.CommunicationError as error:
        return str(error)
    return "none"


def counted(communicator: Any) -> list[Any]:
    """Buffers after some steps: integers and truth values are those of rank 0."""
    rng = np.random.default_rng(communicator.rank)
    batch = rng.normal(size=(4, 3)).astype(np.float32)
    own = np.full((4, 3), communicator.rank, np.int32)

    def loss(params: Any, buffers: Any, batch: Any) -> Any:
        x, seen = batch
        new = {"seen": buffers["seen"] + seen[0, 0] + np.int32(1), "any": seen.max() == 0, "mean": x.mean(axis=0)}
        return np.mean((x * params) ** 2), new

    buffers = {"seen": np.int32(0), "any": np.bool_(False), "mean": np.zeros(3, np.float32)}
    step = ws.compile(
        loss,
        np.ones(3, np.float32),
        buffers=buffers,
        optimizer=optimizer("adam"),
        batch=(batch, own),
        mesh={"data": communicator},
    )
    step((batch, own))
    return [int(step.buffers["seen"]), bool(step.buffers["any"]), step.buffers["mean"].tolist(), batch.tolist()]

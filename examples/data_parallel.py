"""Several processes train one network on handwritten digits, each on its part of every batch.

mpiexec -n 2 python examples/data_parallel.py      # or: torchrun --nproc-per-node 2 examples/data_parallel.py
python examples/data_parallel.py                   # one process: the same program
python examples/data_parallel.py --resume          # go on after Ctrl-C, with any number of processes
python examples/data_parallel.py --cost            # predict bytes and time for up to 4,096 processes, without training
"""

import argparse
import importlib
import os

import numpy as np
from sklearn.datasets import load_digits

import wholestep as ws
from wholestep import nn

BATCH = 240  # rows of all processes together


def connect():
    """The communicator of the launcher that started this process."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        importlib.import_module("torch.distributed").init_process_group("gloo")
        return ws.mesh.torch()
    return ws.mesh.mpi()


def loss(model, batch):
    return nn.cross_entropy(model(batch["x"]), batch["y"])


def accuracy(model, batch):
    return np.mean(np.argmax(model(batch["x"]), axis=-1) == batch["y"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--checkpoint", default="data_parallel.safetensors")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args(arguments)

    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)
    train, held = {"x": x[:1440], "y": y[:1440]}, {"x": x[1440:], "y": y[1440:]}

    mesh = {"data": connect()}
    loader = ws.Loader(train, BATCH, key=0, mesh=mesh)  # each process reads its own rows of the same batches
    model = nn.Sequential(nn.Linear(64, 128, key=0), np.tanh, nn.Linear(128, 10, key=1))
    step = ws.compile(loss, model, optimizer=ws.optim.adam(3e-3), batch=loader.example, mesh=mesh)
    if options.cost:
        link = ws.mesh.Link(latency_seconds=20e-6, bytes_per_second=1.25e9)  # Ethernet of 10 Gbit/s
        print(step.cost(mesh=link))
        return None
    return ws.fit(
        step,
        loader,
        epochs=options.epochs,
        validation=held,
        metrics={"accuracy": accuracy},
        checkpoint=options.checkpoint,  # rank 0 writes it, and shows the progress
        resume=options.resume,
    )


if __name__ == "__main__":
    main()

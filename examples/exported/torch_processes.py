"""A model written for PyTorch trains there in two processes, its gradients averaged by DistributedDataParallel.

python examples/exported/torch_processes.py           # two processes that talk through gloo, on any machine

The model is a function of this library; in PyTorch it is a module with real parameters, whose gradients torch computes.
"""

import argparse
import socket

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn.parallel import DistributedDataParallel

import wholestep as ws
from wholestep import nn

ROWS, STEPS, RATE = 64, 20, 0.1  # the rows are of all processes together


def network():
    return nn.Sequential(nn.Linear(2, 32, key=0), np.tanh, nn.Linear(32, 4, key=1))


def batch_of(k):
    """Batch number k: points, and the sector of the plane that each lies in."""
    rng = np.random.default_rng(k)
    x = rng.normal(size=(ROWS, 2)).astype(np.float32)
    return x, (np.arctan2(x[:, 1], x[:, 0]) * (4 / np.pi)).astype(np.int64) % 4


def trained_here():
    """The losses of the whole step of this library, on whole batches."""
    step = ws.compile(
        lambda model, batch: nn.cross_entropy(model(batch[0]), batch[1]),
        network(),
        optimizer=ws.optim.sgd(RATE),
        batch=batch_of(0),
    )
    return [float(step(batch_of(k)).loss) for k in range(STEPS)]


def one_of(number, count, port, losses):
    """One process: it computes the loss of its rows, and `backward` averages the gradients of all."""
    dist.init_process_group("gloo", f"tcp://localhost:{port}", rank=number, world_size=count)
    mine = slice(number * ROWS // count, (number + 1) * ROWS // count)
    module = DistributedDataParallel(ws.to_torch(network(), batch_of(0)[0][mine], module=True))
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    for k in range(STEPS):
        x, y = (torch.from_numpy(part[mine]) for part in batch_of(k))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss := loss.detach())
        losses[k] = float(loss) / count
    dist.destroy_process_group()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    here = trained_here()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with processes.Manager() as manager:
        losses = manager.dict()
        processes.spawn(one_of, (options.processes, port, losses), nprocs=options.processes)
        there = [losses[k] for k in range(STEPS)]
    worst = max(abs(a - b) / b for a, b in zip(there, here, strict=True))
    print(f"{options.processes} processes: loss {here[0]:.3f} to {here[-1]:.3f}, off by {worst:.1e}")
    return here, worst


if __name__ == "__main__":
    main()

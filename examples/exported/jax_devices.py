"""A training step written for JAX runs there on every device, each on its rows of the batch.

python examples/exported/jax_devices.py               # eight devices of one process, on any machine
python examples/exported/jax_devices.py --processes 2 # two processes that find each other through jax.distributed

The exported step is a function of arrays, so JAX's compiler divides it: the batch is sharded by rows, the state is
whole on every device, and the sums over the batch become sums over devices.
"""

import argparse
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import wholestep as ws

ROWS = 64  # on all devices together


def loss(params, batch):
    h = np.tanh(batch["x"] @ params["w1"] + params["b1"])
    return ws.nn.cross_entropy(h @ params["w2"], batch["y"])


def batch_of(k):
    """Batch number k: points, and the sector of the plane that each lies in."""
    rng = np.random.default_rng(k)
    x = rng.normal(size=(ROWS, 2)).astype(np.float32)
    return {"x": x, "y": (np.arctan2(x[:, 1], x[:, 0]) * (4 / np.pi)).astype(np.int32) % 4}


def written(folder):
    """The step as a file of JAX, and the losses of the same step here."""
    rng = np.random.default_rng(0)
    sizes = {"w1": (2, 32), "b1": (32,), "w2": (32, 4)}
    params = {name: rng.normal(size=shape).astype(np.float32) / 2 for name, shape in sizes.items()}
    step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch_of(0))
    step.export(folder / "sectors.py", to="jax")
    return [float(step(batch_of(k)).loss) for k in range(20)]


def trained(folder, steps=20):
    """The losses of the exported step on all devices of all processes."""
    spec = importlib.util.spec_from_file_location("sectors", folder / "sectors.py")
    sectors = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sectors)
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    by_rows, whole = NamedSharding(mesh, PartitionSpec("rows")), NamedSharding(mesh, PartitionSpec())

    def placed(x, sharding):
        x = np.asarray(x)
        return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

    state = {path: placed(x, whole) for path, x in sectors.load(folder / "sectors.safetensors").items()}
    losses = []
    for k in range(steps):
        batch = {f"batch.{name}": placed(x, by_rows) for name, x in batch_of(k).items()}
        state, results = sectors.step(state, batch)
        losses.append(float(results["loss"].addressable_data(0)))
    return losses, jax.device_count()


def one_of(folder, number, count, port):
    """One process of several: it joins the others before it has devices."""
    jax.distributed.initialize(f"localhost:{port}", count, number)
    found = trained(folder)
    if number == 0:
        (folder / "losses.json").write_text(json.dumps(found), encoding="utf-8")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--join", nargs=3, metavar=("FOLDER", "NUMBER", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.join:
        one_of(Path(options.join[0]), int(options.join[1]), options.processes, options.join[2])
        return None
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        here = written(folder)
        devices = str(8 // options.processes)
        known = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, __file__, "--processes", str(options.processes), "--join", name]
        others = [subprocess.Popen([*command, str(i), port], env=known) for i in range(options.processes)]
        assert not any([process.wait(timeout=300) for process in others]), "a process of JAX failed"
        there, count = json.loads((folder / "losses.json").read_text(encoding="utf-8"))
    worst = max(abs(a - b) / b for a, b in zip(there, here, strict=True))
    print(f"{count} devices of {options.processes} processes: loss {here[0]:.3f} to {here[-1]:.3f}, off by {worst:.1e}")
    return count, here, worst


if __name__ == "__main__":
    main()

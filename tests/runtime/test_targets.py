"""Code for a named level of processor: chosen by the environment, refused where it cannot run, made for every level."""

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.hang import HANG

import wholestep as ws
from wholestep import nn
from wholestep.backends.cpu.cpu_features import LEVELS, host_levels, named_target
from wholestep.compiler.driver import compile_entry
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.runtime.cpu.backend import CpuBackend

SCRIPT = """
import numpy as np
import wholestep as ws
from wholestep.backends.cpu.cpu_features import host_target

def loss(params, batch):
    h = np.tanh(batch["x"] @ params["w"])
    return -np.mean(ws.nn.log_softmax(h @ params["v"])[np.arange(37), batch["y"]])

rng = np.random.default_rng(0)
params = {"w": rng.normal(size=(19, 33)), "v": rng.normal(size=(33, 5))}
batch = {"x": rng.normal(size=(37, 19)), "y": rng.integers(0, 5, 37)}
step = ws.compile(loss, params, optimizer=ws.optim.adam(0.1), batch=batch)
print(host_target().cpu, *[float(step(batch).loss).hex() for _ in range(3)])
"""


def run(name):
    environment = {**os.environ, "WHOLESTEP_TARGET": name}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG)


def test_every_level_of_this_processor_trains_alike():
    found = {name: run(name).stdout.split() for name in host_levels()}
    assert found and all(printed[0] == name for name, printed in found.items())
    losses = [[float.fromhex(x) for x in printed[1:]] for printed in found.values()]
    for other in losses[1:]:
        np.testing.assert_allclose(other, losses[0], rtol=1e-13)


@pytest.mark.parametrize("name", ["x86-64-v9", *sorted(set(LEVELS) - set(host_levels()))])
def test_a_level_that_cannot_run_is_refused(name):
    done = run(name)
    assert done.returncode == 1
    assert "UnsupportedError: compile: " in done.stderr and f"'{name}'" in done.stderr
    assert all(level in done.stderr for level in host_levels())


def convolutional():
    model = nn.Sequential(nn.Conv2d(1, 9, 3, key=0), nn.relu, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(81, 4, key=1))
    batch = {"x": np.zeros((5, 1, 8, 8), np.float32), "y": np.zeros(5, np.int64)}
    return model, batch


def attentive():
    block = nn.TransformerBlock(24, 2, key=0)
    model = nn.Sequential(block, lambda x: x.mean(1), nn.Linear(24, 4, key=1))
    return model, {"x": np.zeros((3, 7, 24), np.float32), "y": np.zeros(3, np.int64)}


@pytest.fixture(scope="module", params=[convolutional, attentive])
def step(request):
    model, batch = request.param()
    optimizer = ws.optim.chain(ws.optim.clip_by_global_norm(1.0), ws.optim.adamw(1e-3))
    return ws.compile(
        lambda m, b: nn.cross_entropy(m(b["x"]), b["y"]), model, optimizer=optimizer, batch=batch, device="reference"
    )


@pytest.mark.parametrize("name", sorted(LEVELS))
def test_whole_steps_become_objects_for_every_level(step, name):
    """Code for Arm is not run here: its plan, text and object are made, and verified by LLVM."""
    made = compile_entry(CompilationUnit(step.graph), CpuBackend(named_target(name)))
    parts = [bytes(part) for part in made.pieces[: made.facts["objects"]]]
    machine = {"x86_64": 62, "aarch64": 183}[named_target(name).arch]
    assert parts and all(p[:4] == b"\x7fELF" and int.from_bytes(p[18:20], "little") == machine for p in parts)

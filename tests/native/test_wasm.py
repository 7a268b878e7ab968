"""The law of WebAssembly: a module in node trains as the step in Python does, and their states go back and forth."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.native.steps import STEPS

from wholestep import tree

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node to run WebAssembly")
SCRIPT = """
import { readFile, writeFile } from "node:fs/promises";
import { instantiate } from "./model.mjs";
const here = (name) => new URL(name, import.meta.url);
const model = await instantiate(await readFile(here("model.wasm")));
await model.load(await readFile(here("model.safetensors")));
const batch = await readFile(here("batch.bin"));
let at = 0;
for (const [path, array] of Object.entries(model.arrays)) {
  if (!path.startsWith("batch")) continue;
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(batch.subarray(at, at + array.byteLength));
  at += array.byteLength;
}
const losses = [];
for (let i = 0; i < 20; i++) {
  model.step();
  losses.push(model.arrays.loss[0]);
}
const file = await model.save();
await writeFile(here("new.safetensors"), file);
let refused = 0;
for (const at of [0, 9, file.length >> 1, file.length - 1]) {
  const damaged = file.slice();
  damaged[at] ^= 1;
  await model.load(damaged).catch(() => refused++);
}
console.log(JSON.stringify([losses, refused]));
"""


@needs_node
@pytest.mark.parametrize(("name", "most"), [("tiny", 50_000), ("rnn", 50_000), ("gaussian", 60_000)])
def test_a_module_trains_as_the_step_does(name: str, most: int, tmp_path: Path) -> None:
    step, batch = STEPS[name]()
    step.export(tmp_path / "model.wasm")
    (tmp_path / "batch.bin").write_bytes(b"".join([np.ascontiguousarray(x).tobytes() for x in tree.leaves(batch)]))
    (tmp_path / "run.mjs").write_text(SCRIPT, encoding="utf-8")
    given = [str(NODE), str(tmp_path / "run.mjs")]
    done = subprocess.run(given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    losses, refused = json.loads(done.stdout)
    assert refused == 4
    np.testing.assert_allclose(losses, [float(step(batch).loss) for _ in range(20)], rtol=1e-6)
    wanted: list[Any] = [np.asarray(x).copy() for x in tree.leaves(step.state)]
    step.reset()
    step.load(tmp_path / "new.safetensors")
    for a, b in zip(tree.leaves(step.state), wanted, strict=True):
        if b.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            assert np.array_equal(a, b)
    assert (tmp_path / "model.wasm").stat().st_size < most


def test_the_module_of_a_perceptron_is_small(tmp_path: Path) -> None:
    STEPS["mlp"]()[0].export(tmp_path / "model.wasm")
    assert len(gzip.compress((tmp_path / "model.wasm").read_bytes())) <= 9_000

"""Kernels for WebAssembly: their results in node, the memory that they leave alone, and constants outside of loops."""

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.backends.native_kernels import Array
from tests.kernel import interpret
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import random_arrays, random_kernel

from wholestep.backends.cpu.codegen.function import kernel_function, module_text
from wholestep.backends.cpu.cpu_features import exported_target
from wholestep.backends.cpu.llvm_jit import assembly, object_code
from wholestep.backends.cpu.target.blocking import TILES, UNROLL
from wholestep.backends.cpu.target.tiles import TILE_ROWS
from wholestep.export.native.wasm import wasm_module
from wholestep.kernel.lang import Kernel

NODE = shutil.which("node")
WASM = exported_target("wasm32")
FIRST, CANARY = 64, 0xA5
"""The first array's address, so low that an address before it lies outside the memory; and the byte of the padding."""
SCRIPT = """
import { readFile, writeFile } from "node:fs/promises";
const memory = new WebAssembly.Memory({ initial: 32 }), bytes = new Uint8Array(memory.buffer);
const env = {
  __linear_memory: memory,
  __stack_pointer: new WebAssembly.Global({ value: "i32", mutable: true }, 2 ** 21),
  __indirect_function_table: new WebAssembly.Table({ initial: 1, element: "anyfunc" }),
};
const { instance } = await WebAssembly.instantiate(await readFile("kernels.wasm"), { env });
const runs = JSON.parse(await readFile("runs.json", "utf8")), images = await readFile("images.bin");
let at = 0;
for (const [name, size, table, steps] of runs) {
  bytes.set(images.subarray(at, at + size), FIRST);
  instance.exports[name](FIRST + table, 0n, BigInt(steps));
  images.set(bytes.subarray(FIRST, FIRST + size), at);
  at += size;
}
await writeFile("images.bin", images);
""".replace("FIRST", str(FIRST))


def image(arrays: Sequence[Array]) -> tuple[bytearray, list[int], int]:
    """Arrays with padding between them, then a table of their addresses; the offsets of the arrays and of the table."""
    made, places = bytearray(), []
    for a in arrays:
        places.append(len(made))
        made += a.tobytes()
        made += bytes([CANARY]) * (8 - len(made) % 8 + 8)
    table = len(made)
    return made + b"".join([struct.pack("<q", FIRST + place) for place in places]), places, table


def in_node(kernels: Sequence[Kernel], given: Sequence[list[Array]], folder: Path) -> list[list[Array]]:
    """The arrays of each kernel after its run; asserts that the memory around them is unchanged."""
    names = [f"k{n}" for n in range(len(kernels))]
    texts = [kernel_function(k, name, WASM) for k, name in zip(kernels, names, strict=True)]
    (folder / "kernels.wasm").write_bytes(wasm_module(object_code(module_text(texts), WASM), names).code)
    images = [image(arrays) for arrays in given]
    steps = [k.outer.steps if k.outer else 1 for k in kernels]
    runs = [(name, len(made), table, n) for name, (made, _, table), n in zip(names, images, steps, strict=True)]
    (folder / "runs.json").write_text(json.dumps(runs))
    (folder / "images.bin").write_bytes(b"".join([made for made, _, _ in images]))
    (folder / "run.mjs").write_text(SCRIPT)
    done = subprocess.run([str(NODE), "run.mjs"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    after, found = (folder / "images.bin").read_bytes(), []
    for (made, places, _), arrays in zip(images, given, strict=True):
        own, after = bytearray(after[: len(made)]), after[len(made) :]
        found.append([])
        for place, a in zip(places, arrays, strict=True):
            found[-1].append(np.frombuffer(bytes(own[place : place + a.nbytes]), a.dtype))
            own[place : place + a.nbytes] = made[place : place + a.nbytes]
        assert own == made
    return found


@pytest.mark.skipif(NODE is None, reason="there is no node to run WebAssembly")
@pytest.mark.parametrize("start", [0, 100, 200])
def test_random_kernels_in_node_give_what_the_interpreter_gives(start: int, tmp_path: Path) -> None:
    kernels = [random_kernel(seed) for seed in range(start, start + 100)]
    given = [random_arrays(kernel, start + n) for n, kernel in enumerate(kernels)]
    for n, (kernel, arrays, found) in enumerate(zip(kernels, given, in_node(kernels, given, tmp_path), strict=True)):
        wanted = [a.copy() for a in arrays]
        interpret.run_kernel(kernel, wanted)
        for buffer, x, y in zip(kernel.buffers, found, wanted, strict=True):
            # A multiply-add is rounded twice.
            np.testing.assert_allclose(x, y, 1e-5, 1e-5, err_msg=f"seed {start + n}, {buffer.name}:\n{kernel}")


@pytest.mark.skipif(NODE is None, reason="there is no node to run WebAssembly")
def test_an_index_that_is_data_may_begin_before_the_array(tmp_path: Path) -> None:
    kernel = parse_kernel("""kernel shifted(x: f32[64], n: i64[4], mut y: f32[64]):
    for i in 4:
        v0 = n[i]
        for j in 16 lanes 4 tile 4:
            v1 = x[v0 + j + 40]
            y[16*i + j] = v1
""")
    x, n = np.arange(64, dtype=np.float32), np.array([-40, -21, 0, 8])
    [[_, _, y]] = in_node([kernel], [[x, n, np.zeros(64, np.float32)]], tmp_path)
    assert np.array_equal(y, np.concatenate([x[k + 40 : k + 56] for k in n]))


def loops(source: str) -> list[list[str]]:
    """The instructions of the loops of a kernel that have no loop inside."""
    text = assembly(module_text([kernel_function(parse_kernel(source), "k", WASM)]), WASM)
    found = re.findall(r"\tloop(?:(?!\tloop).)*?end_loop", text, re.DOTALL)
    return [re.findall(r"^\t([a-z]\S+(?:\t\d+)?)", body, re.MULTILINE) for body in found]


def test_addresses_in_a_tile_of_sums_are_constants_of_its_loads() -> None:
    [loop] = loops("""kernel tile(x: f32[8192], w: f32[512], mut y: f32[1024]):
    v0 = f32(0.0)
    for i in 128 tile 4:
        for j in 8 lanes 4 tile 2:
            for k in 64:
                v1 = x[64*i + k]
                v2 = w[8*k + j]
                fold v3 = fma(v1, v2) from v0
            y[8*i + j] = v3
""")
    splats = [f"v128.load32_splat\t{n}" for n in (0, 256, 512, 768)]
    assert {line for line in loop if line.startswith("v128.load")} == {*splats, "v128.load\t0", "v128.load\t16"}
    assert loop.count("f32x4.mul") == loop.count("f32x4.add") == 8
    assert sum(line.startswith("i32.add") for line in loop) == 2


def test_constants_are_made_outside_of_loops() -> None:
    [loop] = loops("""kernel formula(x: f64[64], mut y: f64[64]):
    v0 = f64(0.3)
    v1 = f64(0.7)
    for i in 64 lanes 2:
        v2 = x[i]
        v3 = fma(v2, v0, v1)
        v4 = fma(v3, v2, v0)
        y[i] = v4
""")
    assert "f64x2.mul" in loop
    assert not [line for line in loop if line.startswith(("f64.const", "f64x2.splat", "v128.const"))]


def test_a_tile_of_sums_and_what_its_terms_load_fit_in_registers() -> None:
    tiles = [(rows, vectors) for vectors, rows in TILE_ROWS[WASM.registers].items()]
    for rows, vectors in [TILES[WASM.registers], *tiles]:
        assert rows * vectors + UNROLL[WASM.registers] * (rows + vectors) < WASM.registers

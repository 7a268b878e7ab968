"""The law of half precision without Python: conversions to the bit of NumPy's, and steps that train on it to ours."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.native.c_program import COMPILER
from tests.native.test_c_source import CHECKED, FUSES, needs_compiler
from tests.native.test_wasm import NODE, needs_node

import wholestep as ws
from wholestep import tree
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import EXPORTED, named_target
from wholestep.cli.run_exports import native_losses, wasm_losses
from wholestep.lower.compile import lower_program
from wholestep.runtime.cpu import backend
from wholestep_tools.drawn.c_library import STRICT, CLibrary
from wholestep_tools.drawn.law import compiled

HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
LEVEL = ("-march=x86-64-v3",) if FUSES else ()
ALL = np.arange(65536, dtype=np.uint16)
LIBRARY_CONVERSIONS = [b"hfsf2", b"sfhf2", b"dfhf2", b"sfbf2", b"dfbf2", b"h2f", b"f2h", b"d2h"]
"""Ends of the names of functions of compilers' libraries that convert half precision."""
LEAST = 2.0**-126
"""The least normal float32: smaller numbers of float64 are flushed to zero in the conversion."""


def numbers_near_ties(dtype: np.dtype[Any]) -> Any:
    """Numbers at and beside every tie of a half precision, random ones, and numbers out of its range."""
    with np.errstate(all="ignore"):
        finite = ALL.view(dtype).astype(np.float64)
    finite = np.sort(finite[np.isfinite(finite)])
    middle = (finite[1:] + finite[:-1]) / 2
    drawn = np.random.default_rng(0).normal(size=400) * 2.0 ** np.linspace(-40, 40, 400)
    top = finite[-1] * np.array([1 + 2.0**-12, 1 + 2.0**-8, 2, 1e9])
    special = [*top, *-top, 0.0, -0.0, np.inf, -np.inf, np.nan]
    return np.concatenate([*[middle * (1 + s * 2.0**-40) for s in (-1, 0, 1)], drawn, special])


def nearest(x: Any, dtype: np.dtype[Any]) -> Any:
    """The bits of the nearest half-precision numbers, ties to even; 0x7E00 or 0x7FC0 for NaN."""
    infinity = int(np.array(np.inf, dtype).view(np.uint16))
    table = np.arange(infinity + 1, dtype=np.uint16).view(dtype).astype(np.float64)
    table[-1] = 2 * table[-2] - table[-3]  # infinity stands for the next power of the grid
    size = np.minimum(np.abs(np.where(np.isnan(x), 0, x)), table[-1])
    above = np.clip(np.searchsorted(table, size), 1, infinity)
    less, more = size - table[above - 1], table[above] - size
    found = np.where((less < more) | ((less == more) & (above % 2 == 1)), above - 1, above).astype(np.uint16)
    sign = np.where(np.signbit(x), 0x8000, 0).astype(np.uint16)
    return np.where(np.isnan(x), np.array(np.nan, dtype).view(np.uint16) & 0x7FFF, found | sign)


def quiet(words: Any, dtype: np.dtype[Any]) -> Any:
    """Words in which every NaN has one spelling."""
    with np.errstate(invalid="ignore"):
        nan = np.isnan(words.view(dtype))
    return np.where(nan, np.array(np.nan, dtype).view(np.uint16) & 0x7FFF, words)


def cast_to(dtype: Any) -> Any:
    """A function that casts to a dtype."""
    return lambda x: x.astype(dtype)


@needs_compiler
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_all_halves_and_ties_convert_as_in_numpy(dtype: np.dtype[Any], tmp_path: Path) -> None:
    near = numbers_near_ties(dtype)
    with np.errstate(over="ignore"):
        singles = near.astype(np.float32)
    cases = {
        "to_f32": (np.float32, ALL.view(dtype)),
        "to_f64": (np.float64, ALL.view(dtype)),
        "to_i32": (np.int32, np.arange(-200, 200).astype(dtype)),
        "to_bool": (np.bool_, np.array([0, 1, -2, np.nan, np.inf], dtype)),
        "to_other": (HALVES[dtype == HALVES[0]], ALL.view(dtype)),
        "from_f32": (dtype, singles),
        "from_f64": (dtype, near),
        "from_i64": (dtype, np.arange(-(1 << 17), 1 << 17, 37)),
        "from_bool": (dtype, np.array([True, False])),
    }
    graphs = {name: ws.trace(cast_to(to))(x) for name, (to, x) in cases.items()}
    library = CLibrary(graphs, tmp_path, *CHECKED, *LEVEL)
    for name, (to, x) in cases.items():
        (found,) = library(name, [x])
        assert found.tobytes() == np.asarray(compiled(graphs[name])([x])[0]).tobytes(), name
        with np.errstate(all="ignore"):
            single = x.astype(np.float32)
            kept = ~(np.abs(single) < LEAST) | (single == 0) | (name == "to_f32")
            if name in ("from_f32", "from_f64"):
                want, got = nearest(x.astype(np.float64), dtype), quiet(found.view(np.uint16), dtype)
            else:
                want, got = single.astype(to).astype(np.float64), found.astype(np.float64)
        np.testing.assert_array_equal(got[kept], want[kept], name)


CONVERTER = """
#include "model.h"
#include <stdio.h>
int main(void) {
    for (unsigned i = 0; i < 65536; i++) {
        float x = model_from_@SHORT@((uint16_t)i);
        uint16_t again = model_to_@SHORT@(x);
        fwrite(&x, sizeof x, 1, stdout);
        fwrite(&again, sizeof again, 1, stdout);
    }
    return 0;
}
"""


def half_step(dtype: Any) -> tuple[Any, Any]:
    """A step whose parameters, batch and loss are of half precision."""
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(5, 16)).astype(dtype), "v": rng.normal(size=16).astype(dtype)}
    batch = {"x": rng.normal(size=(12, 5)).astype(dtype), "y": rng.normal(size=12).astype(dtype)}

    def loss(p: Any, batch: Any) -> Any:
        return np.mean((np.tanh(batch["x"] @ p["w"]) @ p["v"] - batch["y"]) ** 2)

    return ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch), batch


def mixed_step(dtype: Any) -> tuple[Any, Any]:
    """A step that keeps float32 and computes in half precision, in float16 with a scale of its loss."""
    rng = np.random.default_rng(1)
    params = {"w": rng.normal(size=(5, 9)).astype(np.float32), "v": rng.normal(size=9).astype(np.float32)}
    batch = rng.normal(size=(12, 5)).astype(np.float32)

    def loss(p: Any, x: Any) -> Any:
        return np.mean((np.tanh(x @ p["w"]) @ p["v"] - 1) ** 2)

    precision = np.dtype(dtype).name
    return ws.compile(loss, params, optimizer=ws.optim.sgd(0.1), batch=batch, precision=precision), batch


@needs_compiler
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_header_converts_every_word(dtype: np.dtype[Any], tmp_path: Path) -> None:
    half_step(dtype)[0].export(tmp_path / "model.c")
    short = "f16" if dtype == np.float16 else "bf16"
    header = (tmp_path / "model.h").read_text(encoding="utf-8")
    assert f"params.w: {short}[5, 16]" in header and dtype.name in header
    (tmp_path / "main.c").write_text(CONVERTER.replace("@SHORT@", short), encoding="utf-8")
    program = str(tmp_path / "convert")
    assert COMPILER is not None
    subprocess.run([COMPILER, *STRICT, *CHECKED, str(tmp_path / "main.c"), "-o", program], check=True)
    said = subprocess.run([program], capture_output=True, check=True).stdout
    found = np.frombuffer(said, np.dtype([("x", "<f4"), ("again", "<u2")]))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found["x"], ALL.view(dtype).astype(np.float32))
    assert np.array_equal(quiet(found["again"], dtype), quiet(ALL, dtype))


@needs_compiler
@pytest.mark.skipif(not FUSES, reason="the processor has no multiply-add that is rounded once")
@pytest.mark.parametrize("made", [half_step, mixed_step])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("suffix", ["c", "o"])
def test_a_step_in_half_precision_trains_to_the_same_bits(
    suffix: str, dtype: np.dtype[Any], made: Any, tmp_path: Path
) -> None:
    step, batch = made(dtype)
    # a name of one letter, like variables in the code
    path, after = tmp_path / f"m.{suffix}", tmp_path / "new.safetensors"
    step.export(path, processor="x86-64-v3" if suffix == "c" else "host")
    given = {f"batch.{name}": x for name, x in batch.items()} if isinstance(batch, dict) else {"batch": batch}
    losses = native_losses(path, given, 15, after, (*CHECKED, *LEVEL))
    assert losses == [float(step(batch).loss) for _ in range(15)]
    wanted: list[Any] = [np.asarray(x).tobytes() for x in tree.leaves(step.state)]
    step.reset()
    step.load(after)
    assert [np.asarray(x).tobytes() for x in tree.leaves(step.state)] == wanted


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_an_object_converts_without_a_library(dtype: np.dtype[Any], name: str, tmp_path: Path) -> None:
    half_step(dtype)[0].export(tmp_path / "model.o", processor=name)
    code = (tmp_path / "model.o").read_bytes()
    assert not [word for word in LIBRARY_CONVERSIONS if word in code]


@needs_node
@pytest.mark.parametrize("made", [half_step, mixed_step])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_module_trains_in_half_precision(dtype: np.dtype[Any], made: Any, tmp_path: Path) -> None:
    step, batch = made(dtype)
    path, after = tmp_path / "model.wasm", tmp_path / "new.safetensors"
    step.export(path)
    given = {f"batch.{name}": x for name, x in batch.items()} if isinstance(batch, dict) else {"batch": batch}
    losses = wasm_losses(path, given, 15, after)
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(losses, [float(step(batch).loss) for _ in range(15)], rtol=4 * eps)
    step.load(after)


WORDS = """
import { writeFileSync } from "node:fs";
import { numbers, halves } from "./model.mjs";
const format = "@FORMAT@", all = Uint16Array.from({ length: 65536 }, (_, i) => i);
const wide = numbers(all, format), given = new Float64Array(JSON.parse("@GIVEN@").map((x) => x ?? NaN));
given[given.length - 2] = -Infinity;
given[given.length - 3] = Infinity;
writeFileSync("words.bin", new Uint8Array(wide.buffer));
writeFileSync("rounded.bin", new Uint8Array(halves(given, format).buffer));
"""


@needs_node
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_module_makes_numbers_of_words_and_back(dtype: np.dtype[Any], tmp_path: Path) -> None:
    half_step(dtype)[0].export(tmp_path / "model.wasm")
    near = numbers_near_ties(dtype)
    near = np.concatenate([near[::7], near[-13:]])
    text = json.dumps([None if not np.isfinite(x) else x for x in near.tolist()])
    (tmp_path / "run.mjs").write_text(WORDS.replace("@FORMAT@", dtype.name).replace("@GIVEN@", text), encoding="utf-8")
    subprocess.run([str(NODE), "run.mjs"], cwd=tmp_path, check=True, timeout=120)
    with np.errstate(all="ignore"):
        wide = np.fromfile(tmp_path / "words.bin", "<f4")
        np.testing.assert_array_equal(wide, ALL.view(dtype).astype(np.float32))
    rounded = np.fromfile(tmp_path / "rounded.bin", "<u2")
    assert np.array_equal(rounded, nearest(near, dtype))


@needs_node
def test_a_module_without_half_precision_has_none_of_its_script(tmp_path: Path) -> None:
    step = ws.compile(lambda p, x: np.sum(p * x), np.ones(3), optimizer=ws.optim.sgd(0.1), batch=np.ones(3))
    step.export(tmp_path / "model.wasm")
    assert "halves =" not in (tmp_path / "model.mjs").read_text(encoding="utf-8")


def test_a_source_without_half_precision_has_none_of_its_functions(tmp_path: Path) -> None:
    step = ws.compile(lambda p, x: np.sum(p * x), np.ones(3), optimizer=ws.optim.sgd(0.1), batch=np.ones(3))
    step.export(tmp_path / "model.c")
    for name in ("model.c", "model.h"):
        assert "f16" not in (tmp_path / name).read_text(encoding="utf-8")


def test_c_source_has_no_pairs_of_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C has no words for the instruction that multiplies them, and vectors of float32 are faster than scalars."""
    processor = replace(named_target("x86-64-v4"), features="+avx512bf16", dot_bf16=True)
    monkeypatch.setattr(backend, "exported_target", lambda name: processor)
    w, x = np.zeros((256, 512), "f"), np.zeros((128, 256), "f")
    made = lowered(lambda x, w: ws.autocast(np.matmul, "bfloat16")(x, w), x, w, processor)
    assert "dot_bf16x2" in made
    step = ws.compile(lambda p, x: np.mean((x @ p) ** 2), w, optimizer=ws.optim.sgd(0.1), batch=x, precision="bfloat16")
    step.export(tmp_path / "m.c", processor="host")
    text = (tmp_path / "m.c").read_text()
    assert "0xffff0000u" not in text
    assert "ws_fma_f16(" in text


def lowered(f: Any, *given: Any) -> str:
    """The kernels of a function for a processor, the last argument."""
    *args, processor = given
    return "\n".join(map(str, lower_program(ws.trace(f)(*args), machine_model(processor)).kernels()))

"""The law of objects: a C program without Python has, after any number of steps, the bits of the step in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from tests.native.c_program import COMPILER, CProgram
from tests.native.steps import STEPS

import wholestep as ws
from wholestep import tree
from wholestep.backends.cpu.cpu_features import EXPORTED, host_levels
from wholestep.errors import ParameterError, UnsupportedError

LEVEL = ["host", *host_levels()][-1]
OBJECT = ("model_state.c", "model.o")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def bits(step: Any) -> list[bytes]:
    """The bytes of the state of a step."""
    return [np.asarray(x).tobytes() for x in tree.leaves(step.state)]


def line(x: Any = None) -> Any:
    """A step with a short compilation."""
    batch = np.ones(2) if x is None else x
    return ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=batch)


@needs_compiler
@pytest.mark.parametrize(("name", "count"), [("tiny", 500), ("stacked", 50)])
def test_a_c_program_trains_to_the_same_bits(name: str, count: int, tmp_path: Path) -> None:
    step, batch = STEPS[name]()
    step.export(tmp_path / "model.o", processor=LEVEL)
    state, new = tmp_path / "model.safetensors", tmp_path / "new.safetensors"
    losses = CProgram(tmp_path, batch, OBJECT).train(state, new, count)
    assert losses == [float(step(batch).loss) for _ in range(count)][:20]
    wanted = bits(step)
    step.reset()
    step.load(new)
    assert bits(step) == wanted


@needs_compiler
def test_training_goes_back_and_forth_between_python_and_c(tmp_path: Path) -> None:
    step, batch = STEPS["rnn"]()
    step.export(tmp_path / "model.o", processor=LEVEL)
    program = CProgram(tmp_path, batch, OBJECT)
    for _ in range(15):
        step(batch)
    step.save(tmp_path / "there.safetensors", metadata={"quotes": 'a "word" \\ and "wholestep.blocks":"'})
    program.train(tmp_path / "there.safetensors", tmp_path / "back.safetensors", 15)
    step.load(tmp_path / "back.safetensors")
    for _ in range(15):
        step(batch)
    straight, _ = STEPS["rnn"]()
    for _ in range(45):
        straight(batch)
    assert bits(step) == bits(straight)


@needs_compiler
def test_an_attached_function_reads_the_same_state(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(5, 4)).astype(np.float32), "b": np.zeros(4, np.float32)}
    batch = rng.normal(size=(6, 5)).astype(np.float32)
    step = ws.compile(
        lambda p, x: np.mean(np.tanh(x @ p["w"] + p["b"]) ** 2), params, optimizer=ws.optim.adam(1e-2), batch=batch
    )
    predict = step.attach(lambda p, x: np.maximum(x @ p["w"] + p["b"], 0), batch=batch[:3])
    step.export(tmp_path / "model.o", processor=LEVEL, attach={"predict": predict})
    after = """
    memcpy(model_predict_batch(m), model_batch(m), 3 * 5 * sizeof(float));
    if (model_predict(m)) return 7;
    for (int i = 0; i < 3 * 4; i++) printf("%.9g\\n", (double)model_predict_output(m)[i]);
"""
    program = CProgram(tmp_path, batch, OBJECT, after)
    found = program.train(tmp_path / "model.safetensors", tmp_path / "new.safetensors", 5)[5:]
    for _ in range(5):
        step(batch)
    assert np.array_equal(np.float32(found).reshape(3, 4), predict(batch[:3]))


@needs_compiler
def test_a_failure_is_told_by_line_and_leaves_the_state(tmp_path: Path) -> None:
    def loss(p: Any, i: Any) -> Any:
        return np.sum(p[i] ** 2)

    batch = np.array([0, 2], np.int32)
    step = ws.compile(loss, np.ones(3, np.float32), optimizer=ws.optim.sgd(0.5), batch=batch)
    step.export(tmp_path / "model.o", processor=LEVEL)
    program = CProgram(tmp_path, np.array([0, 7], np.int32), OBJECT)
    with pytest.raises(AssertionError, match=r"step 1: indexing: an index is out of bounds at .*test_objects.py"):
        program.train(tmp_path / "model.safetensors", tmp_path / "new.safetensors", 1)
    step.load(tmp_path / "new.safetensors")
    assert np.array_equal(step.params, np.ones(3))


@needs_compiler
def test_a_damaged_state_or_that_of_another_step_is_refused(tmp_path: Path) -> None:
    step = line()
    step.export(tmp_path / "model.o", processor=LEVEL)
    program = CProgram(tmp_path, np.ones(2), OBJECT)
    whole = (tmp_path / "model.safetensors").read_bytes()
    changed, new = tmp_path / "changed.safetensors", tmp_path / "new.safetensors"
    for at in (0, 9, len(whole) // 2, len(whole) - 1):
        changed.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(AssertionError, match=r"load [12]"):
            program.train(changed, new, 1)
    changed.write_bytes(whole[:-1])
    with pytest.raises(AssertionError, match="load 1"):
        program.train(changed, new, 1)
    ws.compile(lambda p, x: np.mean((p["q"] - x) ** 2), {"q": 0.0}, optimizer=ws.optim.sgd(0.5), batch=np.ones(2)).save(
        changed
    )
    with pytest.raises(AssertionError, match="load 1"):
        program.train(changed, new, 1)


KINDS = {"apple-arm64": b"\xcf\xfa\xed\xfe", "wasm32": b"\0asm"}


@pytest.mark.parametrize("name", EXPORTED)
def test_there_are_objects_for_every_processor(name: str, tmp_path: Path) -> None:
    line().export(tmp_path / "model.o", processor=name)
    assert (tmp_path / "model.o").read_bytes()[:4] == KINDS.get(name, b"\x7fELF")


def test_what_no_native_program_can_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    def loss(p: Any, x: Any) -> Any:
        return np.sum(scipy.special.gammainc(p, x))

    step = ws.compile(loss, np.ones(3), optimizer=ws.optim.sgd(0.1), batch=np.ones(3))
    with pytest.raises(UnsupportedError, match=r"no 2 library functions(.|\n)*special(.|\n)*test_objects.py:"):
        step.export(tmp_path / "model.o")
    symbolic = line(ws.ShapeDtype((ws.Dim("B"),), np.float64))
    with pytest.raises(UnsupportedError, match="the step has symbolic sizes: B"):
        symbolic.export(tmp_path / "model.o")
    with pytest.raises(UnsupportedError, match="no objects are made for the processor 'z80'"):
        line().export(tmp_path / "model.o", processor="z80")
    for stem in ("9", "while", "main", "size_t", "ws_of"):
        with pytest.raises(ParameterError, match=f"'{stem}' begins no name in C"):
            line().export(tmp_path / f"{stem}.o")
    for name in ("load", "STATE_BYTES", "run_step", "größe"):
        with pytest.raises(ParameterError, match=f"can be called '{name}'"):
            line().export(tmp_path / "model.o", attach={name: lambda p, x: x})
    with pytest.raises(UnsupportedError, match="it is the processor, and not aarch64"):
        line().export(tmp_path / "model.wasm", processor="aarch64")
    with pytest.raises(ParameterError, match="is for no processor"):
        line().export(tmp_path / "model.py", to="jax", processor="aarch64")
    assert not list(tmp_path.iterdir())

"""The law of C sources: strictly C99, without undefined behaviour, and of the bits of the programs that run here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.native.c_program import COMPILER, CProgram
from tests.native.steps import STEPS

import wholestep as ws
from wholestep import tree
from wholestep.backends.cpu.cpu_features import host_levels
from wholestep.export.c.vectors import used_declarations
from wholestep_tools.audit.correctness import c_sources
from wholestep_tools.drawn.c_library import STRICT, CLibrary
from wholestep_tools.drawn.law import compiled

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
FUSES = "x86-64-v3" in host_levels()
"""True where a multiply-add is rounded once, here and in C."""
CHECKED = ("-O0", "-fsanitize=undefined", "-fno-sanitize-recover=all")
ARRAYS = ("-O1", "-DWS_NO_VECTORS")
"""The options under which arrays stand for vectors, as for compilers that have none."""


@needs_compiler
def test_samples_of_primitives_have_the_same_bits() -> None:
    found = c_sources.audit(70, 0)
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["programs of the same bits"] > 30


def uneven_programs() -> dict[str, tuple[Any, list[Any]]]:
    """Sums of several blocks, products whose rows and columns fill no tile, and shifts by the width and beyond."""
    rng = np.random.default_rng(0)

    def normal(*shape: int, dtype: Any = np.float32) -> Any:
        return rng.normal(size=shape).astype(dtype)

    def halves(dtype: Any) -> dict[str, tuple[Any, list[Any]]]:
        left, right = normal(13, 100, dtype=dtype), normal(100, 61, dtype=dtype)
        return {
            "product": (lambda x, y: x @ y, [left, right]),
            "turned_product": (lambda x, y: x @ y.T, [left, normal(61, 100, dtype=dtype)]),
            "wide_product": (lambda x, y: x.astype(np.float32) @ y.astype(np.float32), [left, right]),
            "sums": (lambda x: np.sum(x * x, 0), [right]),
            "largest": (lambda x: np.max(x, 1), [right]),
        }

    places = np.array([0, 1, 31, 32, 33, 64, -1, 5], np.int32)
    both = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
    return {f"{name}_{short}": made for short, dtype in both.items() for name, made in halves(dtype).items()} | {
        "sum_of_blocks": (lambda x: np.sum(x), [normal(5003)]),
        "sums_of_blocks": (lambda x: np.sum(x, 1), [normal(3, 2371)]),
        "sum_of_products": (lambda x, y: x @ y, [normal(4099), normal(4099)]),
        "sum_with_rest": (lambda x: np.sum(np.exp(x), 1), [normal(5, 45)]),
        "largest_with_rest": (lambda x: np.max(x * x, 1), [normal(5, 1061)]),
        "product": (lambda x, y: x @ y, [normal(7, 33), normal(33, 19)]),
        "long_product": (lambda x, y: x @ y, [normal(13, 1100), normal(1100, 37)]),
        "shift_left": (np.left_shift, [np.full(8, -7, np.int32), places]),
        "shift_right": (np.right_shift, [np.full(8, -7, np.int32), places]),
        "shift_of_unsigned": (np.right_shift, [np.full(8, 1 << 31, np.uint32), np.abs(places).astype(np.uint32)]),
    }


@needs_compiler
def test_sums_products_and_shifts_that_fill_no_block_have_the_same_bits(tmp_path: Path) -> None:
    programs = uneven_programs()
    graphs = {name: ws.trace(f)(*args) for name, (f, args) in programs.items()}
    library = CLibrary(graphs, tmp_path)
    for name, (_, args) in programs.items():
        found, expected = library(name, args), compiled(graphs[name])(args)
        assert not isinstance(found, int), name
        assert c_sources.same(found, expected, FUSES), name


@needs_compiler
def test_complex_products_have_the_same_bits_in_vectors(tmp_path: Path) -> None:
    """GCC fuses the parts of such products where it makes vectors of them."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(8, 8, 2)).astype(np.float32).view(np.complex64)[..., 0] for _ in range(2))
    programs = {
        "each": lambda x, y: x * y,
        "sum": lambda x, y: x @ y,
        "real": lambda x, y: (x[:3, :2] @ y[:2, :5]).real,
    }
    graphs = {name: ws.trace(f)(x, y) for name, f in programs.items()}
    library = CLibrary(graphs, tmp_path, "-O2", "-march=native")
    for name, graph in graphs.items():
        found = library(name, [x, y])
        assert not isinstance(found, int)
        assert c_sources.same(found, compiled(graph)([x, y]), FUSES), name


@needs_compiler
def test_short_padded_rows_are_right_in_vectors(tmp_path: Path) -> None:
    """GCC 12 loses numbers of guarded loads where it makes vectors of them."""
    x = np.arange(12.0).reshape(6, 2)
    graph = ws.trace(lambda x: np.pad(x, ((2, 2), (0, 0))))(x)
    found = CLibrary({"padded": graph}, tmp_path, "-O3", "-march=native")("padded", [x])
    assert not isinstance(found, int)
    np.testing.assert_array_equal(found[0], np.pad(x, ((2, 2), (0, 0))))


@needs_compiler
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        *[("tiny", CHECKED), ("tiny", ARRAYS), ("rnn", ("-O0",))],
        *[("stacked", ("-O0",)), ("stacked", ARRAYS), ("table", CHECKED)],
    ],
)
def test_a_source_trains_to_the_same_bits(name: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    step, batch = STEPS[name]()
    level = ("-march=x86-64-v3",) if FUSES else ()
    step.export(tmp_path / "model.c", processor="host")
    program = CProgram(tmp_path, batch, ["model.c"], "", *flags, *level)
    losses = program.train(tmp_path / "model.safetensors", tmp_path / "new.safetensors", 20)
    ours = [float(step(batch).loss) for _ in range(20)]
    wanted: list[Any] = [np.asarray(x).copy() for x in tree.leaves(step.state)]
    step.reset()
    step.load(tmp_path / "new.safetensors")
    found = [np.asarray(x) for x in tree.leaves(step.state)]
    if FUSES:
        assert losses == ours
        assert [x.tobytes() for x in found] == [x.tobytes() for x in wanted]
    np.testing.assert_allclose(losses, ours, rtol=1e-5)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    assert (tmp_path / "model.c").stat().st_size < 150_000


@pytest.mark.skipif(shutil.which("tcc") is None, reason="there is no tcc")
@pytest.mark.parametrize("name", ["tiny", "rnn"])
def test_a_compiler_of_plain_c_makes_a_program_that_trains(name: str, tmp_path: Path) -> None:
    step, batch = STEPS[name]()
    step.export(tmp_path / "model.c")
    program = CProgram(tmp_path, batch, ["model.c"], compiler=("tcc",))
    losses = program.train(tmp_path / "model.safetensors", tmp_path / "new.safetensors", 20)
    np.testing.assert_allclose(losses, [float(step(batch).loss) for _ in range(20)], rtol=1e-5)


@needs_compiler
def test_a_compiler_for_big_endian_processors_is_told(tmp_path: Path) -> None:
    source = ws.to_file(np.sin, tmp_path / "f.c", np.ones(3))[0]
    other = ["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"]
    made = subprocess.run([str(COMPILER), *other, "-fsyntax-only", str(source)], capture_output=True, text=True)
    assert made.returncode and "little-endian processors" in made.stderr


def test_every_directive_of_the_vectors_begins_a_line() -> None:
    """Declarations for registers of 64 bytes are in files for processors that have them alone."""
    text = "\n" + used_declarations("ws_f8 ws_f16 ws_d8 ws_from_f16_f8 ws_from_f16_f16 ws_from_bf16_f16")
    assert text.count("#if") == text.count("\n#if") == text.count("\n#endif") > 3
    assert not re.search(r"\S#(?:if|elif|else|endif|define|include)", text)


@needs_compiler
@pytest.mark.skipif(not FUSES, reason="the processor has no vectors of AVX2")
def test_an_update_takes_square_roots_in_vectors(tmp_path: Path) -> None:
    x = np.ones(4096, np.float32)
    step = ws.compile(lambda p, x: np.sum(p * x), x, optimizer=ws.optim.adam(1e-3), batch=x)
    step.export(tmp_path / "model.c")
    assert COMPILER is not None
    options = [COMPILER, *STRICT, "-O3", "-march=x86-64-v3", "-S", "-o", "model.s", "model.c"]
    subprocess.run(options, cwd=tmp_path, check=True)
    assert "vsqrtps" in (tmp_path / "model.s").read_text(encoding="utf-8")


def test_a_program_is_the_same_text_each_time(tmp_path: Path) -> None:
    a = np.eye(4) + 0.1

    def text(n: int) -> str:
        step = ws.compile(lambda p, x: np.sum(np.linalg.inv(p * x)), a, optimizer=ws.optim.adam(1e-3), batch=a)
        step.export(tmp_path / f"{n}" / "model.c")
        return (tmp_path / f"{n}" / "model.c").read_text(encoding="ascii")

    assert len({text(n) for n in range(3)}) == 1


@needs_compiler
def test_names_of_functions_are_text(tmp_path: Path) -> None:
    def loss(p: Any, x: Any) -> Any:
        return np.sum(p * x)

    loss.__name__ = "*/ #error \ud800"
    x = np.ones(3, np.float32)
    step = ws.compile(loss, x, optimizer=ws.optim.sgd(0.1), batch=x)
    step.export(tmp_path / "model.c")
    source = (tmp_path / "model.c").read_text(encoding="ascii")
    assert r"* / #error \ud800" in source and "*/ #error" not in source

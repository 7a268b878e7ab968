"""The law of functions as native programs: their results in C, in objects and in node are those here."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from tests.native.c_program import COMPILER

import wholestep as ws
from wholestep import nn, tree
from wholestep.backends.cpu.cpu_features import host_levels
from wholestep.errors import ArgumentError, ParameterError, UnsupportedError
from wholestep.frontend.exporting import export_function
from wholestep_tools.audit.correctness.c_sources import same
from wholestep_tools.drawn.c_library import STRICT

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
NODE = shutil.which("node")
FUSES = "x86-64-v3" in host_levels()
"""True where a multiply-add is rounded once, here and in C."""
LEVEL = ("-march=x86-64-v3",) if FUSES else ()
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
CHECKED = ("-O1", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all")
RNG = np.random.default_rng(0)
Function = tuple[Callable[..., Any], tuple[Any, ...]]


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def perceptron(params: Any, x: Any) -> Any:
    return np.mean((np.tanh(x @ params["layers"][0]) @ params["layers"][1]) ** 2)


def summary(x: Any) -> Any:
    return {"mean": np.mean(x), "parts": (x > 0, [np.sort(x), np.argsort(x)]), "count": np.sum(x > 0)}


def recurrence(w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ h + x)
        return h, np.sum(h)

    return ws.scan(step, np.zeros(3), xs)


def halved(x: Any) -> Any:
    return ws.while_loop(lambda s: np.sum(s * s) > 1.0, lambda s: s / 2.0, x)


def scattered(x: Any, i: Any, y: Any) -> Any:
    z = x.copy()
    np.add.at(z, i, y)
    return z, x[i]


def branched(x: Any, flag: Any) -> Any:
    return ws.cond(flag, np.sin, np.cos, x)


def joined(x: Any, y: Any) -> Any:
    return np.concatenate([x, x + 1.0]), np.sum(y, axis=0), y * 2.0


def named(double: Any, main: Any, exp: Any, memory: Any, größe: Any, NULL: Any, run: Any, init: Any) -> Any:
    return {"double": double + main * exp, "site": memory - größe, "m": NULL * run + init}


def overlapping(output: Any, x_1: Any, x: Any) -> Any:
    return output * x_1 + x[0] * x[1]


MATRIX = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
FUNCTIONS: dict[str, Function] = {
    "product": (lambda x, y: x @ y, (normal(7, 33), normal(33, 19))),
    "convolution": (
        lambda x, w: nn.conv2d(x, w, padding=1),
        (normal(2, 3, 8, 8), normal(4, 3, 3, 3)),
    ),
    "softmax": (lambda x: nn.softmax(x), (normal(5, 13),)),
    "scattering": (scattered, (normal(6), np.array([0, 5, 5, -1]), normal(4))),
    "recurrence": (recurrence, (normal(3, 3, dtype=np.float64), normal(9, 3, dtype=np.float64))),
    "halving": (halved, (normal(5) * np.float32(9),)),
    "branches": (branched, (normal(4), np.array(True))),
    "summary": (summary, (normal(37),)),
    "spectrum": (lambda z: (z * np.exp(1j * z), np.abs(z)), ((normal(6) + 1j * normal(6)).astype(np.complex64),)),
    "gradient": (
        ws.value_and_grad(perceptron),
        ({"layers": [normal(3, 8, dtype=np.float64), normal(8, 2, dtype=np.float64)]}, normal(5, 3, dtype=np.float64)),
    ),
    "inverse": (lambda a: (np.linalg.solve(a, a[0]), np.linalg.det(a)), (MATRIX,)),
    "quantiles": (lambda p: scipy.special.ndtri(p), (np.linspace(0.1, 0.9, 9),)),
    "integers": (
        lambda a, b: (a // b, a % b, a & b, np.left_shift(a, 2), np.cumsum(a)),
        (np.array([-7, 7, 9, 100], np.int16), np.array([2, -2, 5, 7], np.int16)),
    ),
    "words": (lambda a: a * np.uint64(3) + np.uint64(1), (np.array([0, 1 << 63, (1 << 64) - 1], np.uint64),)),
    "truth": (
        lambda a, b: (a & ~b, np.any(a), np.where(a, 1.0, 2.0)),
        (np.array([True, False]), np.array([False] * 2)),
    ),
    "halves": (lambda x, y: (x * x, y @ y.T), (normal(9, dtype=np.float16), normal(3, 4, dtype=ml_dtypes.bfloat16))),
    "empty": (joined, (np.zeros(0), np.zeros((0, 3)))),
    "constants": (lambda: (np.arange(5.0) * 2, np.float32(7)), ()),
    "nothing": (lambda x: None, (normal(3),)),
    "draws": (lambda key: ws.random.normal(ws.random.split(key)[0], (5,)), (ws.random.key(3),)),
    "model": (nn.Linear(3, 2, key=0), (normal(4, 3),)),
    "names": (named, tuple(np.float64(k + 0.5) for k in range(8))),
    "overlapping": (overlapping, (np.float64(2), np.float64(3), [np.float64(4), np.float64(5)])),
}
"""A function of each kind with its arguments."""
BY_FORMULAS = ("inverse", "quantiles", "draws")
"""Functions computed by a library in this process, so that results in C are close but not bit-identical."""


def wanted(f: Any, args: Sequence[Any]) -> list[Any]:
    """The results of a function compiled here."""
    return [np.asarray(x) for x in tree.leaves(ws.jit(f)(*args))]


def given_arrays(args: Sequence[Any]) -> list[Any]:
    """The arrays that a function is given, in memory of their own."""
    return [np.ascontiguousarray(x).reshape(np.shape(x)).copy() for x in tree.leaves(tuple(args))]


def compare(name: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Assert the same bits, or a relative error of 1e-12 for functions that are computed by formulas."""
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, name
        if name in BY_FORMULAS:
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12, err_msg=name)
    if name not in BY_FORMULAS:
        assert same(list(found), list(expected), FUSES), name


def compiled(folder: Path, sources: Sequence[str], made: str, *flags: str, compiler: str | None = None) -> Path:
    """The program that a compiler builds from sources, without a warning."""
    given = [str(compiler or COMPILER), *STRICT, *flags, f"-I{folder}", *[str(folder / name) for name in sources]]
    done = subprocess.run([*given, "-o", str(folder / made), "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return folder / made


class CFunction:
    """A function of a library, called by pointers."""

    def __init__(self, library: ctypes.CDLL, folder: Path, name: str) -> None:
        header = (folder / f"{name}.h").read_text(encoding="ascii")
        size = int(header.split(f"#define {name.upper()}_BYTES ")[1].split("u")[0])
        self.memory = np.full(size + 1, 0xFF, np.uint8)
        self.call = getattr(library, name)
        self.failure = getattr(library, f"{name}_failure")
        self.failure.restype = ctypes.c_char_p

    def __call__(self, given: Sequence[Any], results: Sequence[Any]) -> int:
        """Call the function with its memory at an odd address; the status."""
        pointers = [ctypes.c_void_p(x.ctypes.data if x.size else None) for x in (*given, *results)]
        return int(self.call(ctypes.c_void_p(self.memory.ctypes.data + 1), *pointers))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A folder with all functions exported as C."""
    place: Path = tmp_path_factory.mktemp("functions")
    for name, (f, args) in FUNCTIONS.items():
        files = ws.to_file(f, place / f"{name}.c", *args, processor="host")
        assert [file.name for file in files] == [f"{name}.c", f"{name}.h"]
    return place


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_functions_in_c_have_the_bits_of_those_here(folder: Path, compiler: str) -> None:
    sources = [f"{name}.c" for name in FUNCTIONS]
    made = compiled(folder, sources, f"{compiler}.so", "-O1", *LEVEL, "-fPIC", "-shared", compiler=compiler)
    library = ctypes.CDLL(str(made))
    for name, (f, args) in FUNCTIONS.items():
        expected = wanted(f, args)
        found = [np.empty_like(x) for x in expected]
        call = CFunction(library, folder, name)
        for _ in range(2):
            assert call(given_arrays(args), found) == 0, name
            compare(name, found, expected)
        assert call.failure(0) == b"nothing failed"


MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
@INCLUDES@

static void *room(size_t n) { return malloc(n ? n : 1); }
int main(void) {
    FILE *in = fopen("given.bin", "rb"), *out = fopen("found.bin", "wb");
    if (!in || !out) return 2;
@CALLS@
    return fclose(in) || fclose(out);
}
"""


def checked_call(name: str, given: Sequence[Any], results: Sequence[Any], fails: bool = False) -> str:
    """C that calls a function on memory of exactly the stated sizes, and writes its results."""
    words = [f"a{k}" for k in range(len(given) + len(results))]
    sizes = [x.nbytes for x in (*given, *results)]
    lines = [f"void *{word} = room({n});" for word, n in zip(words, sizes, strict=True)]
    lines += [f"if (fread({words[k]}, 1, {x.nbytes}, in) != {x.nbytes}) return 3;" for k, x in enumerate(given)]
    lines.append(f"unsigned char *memory = room({name.upper()}_BYTES);")
    lines.append(f"if ({'!' * fails}{name}({', '.join(['memory', *words])})) return 4;")
    kept = [] if fails else results
    lines += [f"fwrite({words[len(given) + k]}, 1, {x.nbytes}, out);" for k, x in enumerate(kept)]
    lines += [f"free({word});" for word in ("memory", *words)]
    return "    {\n" + "\n".join([f"        {line}" for line in lines]) + "\n    }"


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_sanitizers_find_nothing(folder: Path, compiler: str) -> None:
    rows = {name: (given_arrays(args), wanted(f, args)) for name, (f, args) in FUNCTIONS.items()}
    far, results = given_arrays((normal(6), np.array([0, 1, 1 << 40, 2]), normal(4))), rows["scattering"][1]
    calls = "\n".join([checked_call(name, *row) for name, row in rows.items()])
    calls += "\n" + checked_call("scattering", far, results, fails=True)
    includes = "\n".join([f'#include "{name}.h"' for name in rows])
    (folder / "main.c").write_text(MAIN.replace("@INCLUDES@", includes).replace("@CALLS@", calls), encoding="ascii")
    given = [x for arrays, _ in rows.values() for x in arrays] + far
    (folder / "given.bin").write_bytes(b"".join([x.tobytes() for x in given]))
    sources = ["main.c", *[f"{name}.c" for name in rows]]
    program = compiled(folder, sources, f"checked_{compiler}", *CHECKED, *LEVEL, compiler=compiler)
    done = subprocess.run([str(program)], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr[:4000])
    data, at = (folder / "found.bin").read_bytes(), 0
    for name, (_, expected) in rows.items():
        found = []
        for x in expected:
            found.append(np.frombuffer(data[at : at + x.nbytes], x.dtype).reshape(x.shape))
            at += x.nbytes
        compare(name, found, expected)
    assert at == len(data)


@needs_compiler
def test_objects_have_the_bits_of_functions_here(tmp_path: Path) -> None:
    names = ("product", "summary", "gradient", "scattering", "empty", "constants", "halves", "names")
    for name in names:
        f, args = FUNCTIONS[name]
        files = ws.to_file(f, tmp_path / f"{name}.o", *args, processor=["host", *host_levels()][-1])
        assert [file.name for file in files] == [f"{name}.o", f"{name}.h", f"{name}_call.c"]
    sources = [file for name in names for file in (f"{name}.o", f"{name}_call.c")]
    library = ctypes.CDLL(str(compiled(tmp_path, sources, "objects.so", "-fPIC", "-shared")))
    for name in names:
        f, args = FUNCTIONS[name]
        expected = wanted(f, args)
        found = [np.empty_like(x) for x in expected]
        assert CFunction(library, tmp_path, name)(given_arrays(args), found) == 0
        assert [x.tobytes() for x in found] == [x.tobytes() for x in expected], name


@needs_compiler
@pytest.mark.parametrize("suffix", [".c", ".o"])
def test_an_index_out_of_bounds_is_a_number_with_a_line_and_leaves_the_results(suffix: str, tmp_path: Path) -> None:
    f, (x, _, y) = FUNCTIONS["scattering"]
    files = ws.to_file(f, tmp_path / f"picked{suffix}", x, np.zeros(4, int), y)
    sources = [file.name for file in files if file.suffix != ".h"]
    call = CFunction(ctypes.CDLL(str(compiled(tmp_path, sources, "it.so", "-fPIC", "-shared"))), tmp_path, "picked")
    found = [np.full(6, 7, np.float32), np.full(4, 7, np.float32)]
    for wrong in (6, -7):
        code = call([x, np.array([0, 1, wrong, 2]), y], found)
        assert code > 0
        said = call.failure(code).decode()
        assert said.startswith("indexing: an index is out of bounds at ") and "test_functions.py:" in said
        assert all((x == 7).all() for x in found)
    assert call([x, np.array([0, 5, -6, 2]), y], found) == 0
    compare("scattering", found, wanted(f, (x, np.array([0, 5, -6, 2]), y)))


@needs_compiler
def test_results_may_take_the_place_of_arguments_and_names_are_those_of_the_user(tmp_path: Path) -> None:
    def turned(x: Any, y: Any) -> Any:
        return {"x": x - y[::-1], "y": np.flip(x) + y}

    x, y = normal(64), normal(64)
    ws.to_file(turned, tmp_path / "turned.c", x, y, processor="host")
    call = CFunction(
        ctypes.CDLL(str(compiled(tmp_path, ["turned.c"], "it.so", *LEVEL, "-fPIC", "-shared"))), tmp_path, "turned"
    )
    own = [x.copy(), y.copy()]
    assert call(own, own) == 0
    compare("turned", own, wanted(turned, (x, y)))
    header = (tmp_path / "turned.h").read_text(encoding="ascii")
    assert "const float *x /* x: f32[64] */,\n    const float *y /* y: f32[64] */,\n" in header
    assert "float *output_x /* output.x: f32[64] */,\n    float *output_y /* output.y: f32[64] */);" in header


def test_words_macros_and_names_that_repeat_are_set_apart(folder: Path) -> None:
    header = (folder / "names.h").read_text(encoding="ascii")
    for word in ("double_", "main_", "exp", "memory_2", "gru00f6u00dfe", "NULL_", "run", "init"):
        assert f"const double *{word} /*" in header
    assert "double *names_run_2(names_block *m)" in header and "double *names_init_2(names_block *m)" in header
    header = (folder / "overlapping.h").read_text(encoding="ascii")
    for word in ("output", "x_1", "x_0", "x_1_2"):
        assert f"const double *{word} /*" in header
    assert "double *next_output /* next.output: f64 */" in header


INLINE = """\
#include "gradient.h"
#include <stdio.h>
static unsigned char memory[GRADIENT_BYTES];
int main(void) {
    gradient_block *m = gradient_init(memory);
    double *w = gradient_params_layers_0(m), *x = gradient_x(m);
    for (int k = 0; k < 24; k++) w[k] = 0.5 - 0.03 * k;
    for (int k = 0; k < 16; k++) gradient_params_layers_1(m)[k] = 0.25;
    for (int k = 0; k < 15; k++) x[k] = 0.1 * k;
    for (int i = 0; i < 3; i++) {
        if (gradient_run(m)) return 1;
        for (int k = 0; k < 24; k++) w[k] -= 0.1 * gradient_output_1_layers_0(m)[k];
        printf("%.17g\\n", *gradient_output_0(m));
    }
    return 0;
}
"""


@needs_compiler
def test_arrays_are_filled_in_place_and_descent_by_the_gradient_is_that_here(folder: Path) -> None:
    (folder / "inline.c").write_text(INLINE, encoding="ascii")
    program = compiled(folder, ["inline.c", "gradient.c"], "inline", "-O1", *LEVEL)
    found = list(map(float, subprocess.run([str(program)], capture_output=True, text=True).stdout.split()))
    f = ws.jit(FUNCTIONS["gradient"][0])
    w, other, x = 0.5 - 0.03 * np.arange(24.0).reshape(3, 8), np.full((8, 2), 0.25), 0.1 * np.arange(15.0).reshape(5, 3)
    expected = []
    for _ in range(3):
        loss, slope = f({"layers": [w, other]}, x)
        w = w - 0.1 * slope["layers"][0]
        expected.append(float(loss))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler of C++")
def test_headers_are_headers_of_cpp(folder: Path) -> None:
    lines = [f'#include "{name}.h"' for name in FUNCTIONS]
    (folder / "all.cpp").write_text("\n".join([*lines, "int main() { return 0; }\n"]), encoding="ascii")
    given = ["g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{folder}", str(folder / "all.cpp")]
    subprocess.run(given, check=True)


SCRIPT = """
import { readFile } from "node:fs/promises";
const numbers = (x) => Array.from(x, (y) => typeof y === "bigint" ? y.toString() : y);
const found = {};
for (const [name, inputs] of Object.entries(JSON.parse(await readFile("given.json", "utf8")))) {
  const { instantiate } = await import(`./${name}.mjs`);
  const f = await instantiate(await readFile(`${name}.wasm`));
  for (const [path, x] of Object.entries(inputs))
    if (f.arrays[path] instanceof BigInt64Array) inputs[path] = x.map(BigInt);
  const outputs = f.call(inputs);
  found[name] = Object.fromEntries(Object.entries(outputs).map(([path, x]) => [path, numbers(x)]));
  found[name + " shapes"] = f.shapes;
}
const { instantiate } = await import("./scattering.mjs");
const f = await instantiate(await readFile("scattering.wasm"));
const said = [];
for (const inputs of [{}, { x: [1], i: [], y: [] }, { x: [1, 2, 3, 4, 5, 6], i: [9n, 0n, 0n, 0n], y: [1, 2, 3, 4] }])
  try { f.call(inputs); } catch (error) { said.push(`${error.name}: ${error.message}`); }
console.log(JSON.stringify([found, said]));
"""


@pytest.mark.skipif(NODE is None, reason="there is no node to run WebAssembly")
def test_functions_in_node_return_what_they_return_here(tmp_path: Path) -> None:
    names = ("product", "summary", "gradient", "scattering", "empty", "constants", "overlapping")
    given = {}
    for name in names:
        f, args = FUNCTIONS[name]
        files = ws.to_file(f, tmp_path / f"{name}.wasm", *args)
        assert [file.name for file in files] == [f"{name}.wasm", f"{name}.mjs"]
        paths = export_function(f, args)[0].inputs
        given[name] = {path: np.ravel(x).tolist() for path, x in zip(paths, tree.leaves(args), strict=True)}
    (tmp_path / "given.json").write_text(json.dumps(given), encoding="utf-8")
    (tmp_path / "run.mjs").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([str(NODE), "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found, said = json.loads(done.stdout)
    for name in names:
        f, args = FUNCTIONS[name]
        for x, y in zip(found[name].values(), wanted(f, args), strict=True):
            np.testing.assert_allclose(np.array(x, y.dtype), y.ravel(), rtol=1e-5, atol=1e-6, err_msg=name)
    assert found["product shapes"] == {"x": [7, 33], "y": [33, 19], "output": [7, 19]}
    assert said[0] == "TypeError: there is no x among the arguments"
    assert said[1] == "RangeError: x has 6 numbers, not 1"
    assert said[2].startswith("RangeError: indexing: an index is out of bounds at ")


def test_what_no_native_function_can_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    def order(a: Any) -> Any:
        return np.sum(scipy.special.gammainc(a, 2.0))

    for suffix in (".c", ".o", ".wasm"):
        with pytest.raises(UnsupportedError, match=r"(?s)no 2 library functions.*special.*test_functions.py:.*without"):
            ws.to_file(ws.grad(order), tmp_path / f"f{suffix}", np.ones(3))
    with pytest.raises(UnsupportedError, match=r"(?s)exp has symbolic sizes: B.*give it examples whose sizes"):
        ws.to_file(np.exp, tmp_path / "f.c", ws.ShapeDtype((ws.Dim("B"),), "float64"))
    with pytest.raises(UnsupportedError, match="no objects are made for the processor 'z80'"):
        ws.to_file(np.exp, tmp_path / "f.o", np.ones(3), processor="z80")
    with pytest.raises(UnsupportedError, match="it is the processor, and not aarch64"):
        ws.to_file(np.exp, tmp_path / "f.wasm", np.ones(3), processor="aarch64")
    with pytest.raises(UnsupportedError, match=r"(?s)c, wasm, and not for page.*step\.export"):
        ws.to_file(np.exp, tmp_path / "f.html", np.ones(3))
    with pytest.raises(ParameterError, match="is for no processor"):
        ws.to_file(np.exp, tmp_path / "f.onnx", np.ones(3), processor="aarch64")
    with pytest.raises(ParameterError, match=r"(?s)written without narrow=.*it is for coreml and litert"):
        ws.to_file(np.exp, tmp_path / "f.c", np.ones(3), narrow=True)
    for stem in ("9", "while", "main", "size_t", "ws_of", "NULL", "class"):
        with pytest.raises(ParameterError, match=f"'{stem}' begins no name in C"):
            ws.to_file(np.exp, tmp_path / f"{stem}.c", np.ones(3))
    for stem in ("exp", "sinf", "malloc", "read", "memcpy"):
        with pytest.raises(ParameterError, match=f"(?s)'{stem}' is a function of C's library.*my_{stem}"):
            ws.to_file(np.exp, tmp_path / f"{stem}.c", np.ones(3))
    step = ws.compile(lambda p, x: np.sum(p * x), 1.0, optimizer=ws.optim.sgd(0.1), batch=np.ones(2))
    with pytest.raises(ArgumentError, match=r"(?s)this is a step.*step\.export"):
        ws.to_file(step, tmp_path / "f.c", np.ones(2))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("processor", ["cortex-m4", "aarch64", "riscv64"])
def test_there_are_objects_of_functions_for_other_processors(processor: str, tmp_path: Path) -> None:
    ws.to_file(lambda x: np.tanh(x) * 2, tmp_path / "f.o", normal(3), processor=processor)
    assert (tmp_path / "f.o").read_bytes()[:4] == b"\x7fELF"


@needs_compiler
def test_what_is_printed_here_is_no_result_there(tmp_path: Path) -> None:
    def loud(x: Any) -> Any:
        ws.print("x {}", x)
        return x * 2.0

    ws.to_file(loud, tmp_path / "k0.c", np.ones(3))
    header = (tmp_path / "k0.h").read_text(encoding="ascii")
    assert "double *output /* output: f64[3] */);" in header
    compiled(tmp_path, ["k0.c"], "it.so", "-fPIC", "-shared")
    (source,) = ws.to_file(loud, tmp_path / "loud.py", np.ones(3), to="numpy")
    assert 'LOUD_OUTPUTS = (\n    "output",\n)' in source.read_text(encoding="utf-8").replace("'", '"')

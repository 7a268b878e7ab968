"""Operations that compilers may not rewrite: upper words of products, and tests of numbers by their bits."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends import native_kernels
from tests.backends.c_backend import FLAGS, library
from tests.kernel import interpret
from tests.kernel.parse import parse_kernel

from wholestep import dtypes
from wholestep.export.c import source
from wholestep.export.c.kernel import CKernelWriter
from wholestep.kernel.lang import Kernel
from wholestep.kernel.verify import verify_kernel

Array = np.ndarray[Any, Any]
FAST = (*FLAGS[1:], "-O3", "-ffinite-math-only")
"""The options by which a C compiler assumes that there are finite numbers alone."""


def as_c(folder: Path) -> Callable[[Kernel, list[Array]], None]:
    """A kernel as exported C, compiled by a compiler that may assume anything about numbers."""

    def run(kernel: Kernel, arrays: list[Array]) -> None:
        text = CKernelWriter(kernel).text("k").removeprefix("static ")
        support = (Path(source.__file__).parent / "support.c").read_text(encoding="utf-8")
        found = library("\n".join([support, *source.used_functions(text), text]), folder, FAST)
        found.k((ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]))

    return run


@pytest.fixture(params=["interpreter", "native", "c"])
def evaluate(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., list[Array]]:
    """A function that runs a kernel by one of the evaluators and returns the arrays that it wrote."""
    if request.param == "c" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    ways = {"interpreter": interpret.run_kernel, "native": lambda k, a: native_kernels.run(k, *a), "c": as_c(tmp_path)}

    def evaluated(text: str, *given: Array) -> list[Array]:
        kernel = parse_kernel(text)
        verify_kernel(kernel)
        arrays = [*given, *[np.zeros(b.size, b.dtype) for b in kernel.buffers[len(given) :]]]
        ways[request.param](kernel, arrays)
        return arrays[len(given) :]

    return evaluated


def test_upper_words_of_products(evaluate: Callable[..., list[Array]]) -> None:
    text = """\
kernel upper(x: u32[64], w: u32[64], mut y: u32[64]):
    for i in 64 lanes 8:
        v0 = x[i]
        v1 = w[i]
        v2 = mulhi(v0, v1)
        y[i] = v2
"""
    words = np.array([0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xD2511F53, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32)
    x, w = (a.ravel() for a in np.meshgrid(words, words))
    expected = [int(a) * int(b) >> 32 for a, b in zip(x, w, strict=True)]
    np.testing.assert_array_equal(evaluate(text, x, w)[0], expected)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_numbers_are_told_by_their_bits(name: str, evaluate: Callable[..., list[Array]]) -> None:
    text = f"""\
kernel tests(x: {name}[12], mut finite: bool[12], mut nan: bool[12], mut same: {name}[12]):
    for i in 12 lanes 4:
        v0 = x[i]
        v1 = isfinite(v0)
        v2 = isnan(v0)
        v3 = exact(v0)
        finite[i] = v1
        nan[i] = v2
        same[i] = v3
"""
    dtype = dtypes.from_short(name)
    info = np.finfo(dtype)
    ends = [0.0, 1.0, float(info.max), float(info.tiny), float(info.smallest_subnormal), np.inf]
    x = np.array([*ends, *[-e for e in ends[1:]], np.nan], dtype)
    finite, nan, same = evaluate(text, x)
    np.testing.assert_array_equal(finite, [True] * 5 + [False] + [True] * 4 + [False] * 2)
    np.testing.assert_array_equal(nan, [False] * 11 + [True])
    np.testing.assert_array_equal(same, x)

"""Row loops: code behind a tile of registers, emitted for a row at a time, gives the bits of code for all rows."""

import re

import numpy as np
import pytest
from tests.backends.native_kernels import Native
from tests.backends.test_codegen_law import check
from tests.kernel import interpret
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import agree, random_kernel

from wholestep.backends.cpu.codegen import row_loops
from wholestep.backends.cpu.codegen.function import kernel_function
from wholestep.backends.cpu.cpu_features import host_levels, host_target, named_target

ROWS, COLUMNS, TERMS = 11, 20, 7


def tile(behind: str) -> str:
    """A product of matrices in tiles of 4 rows, and statements behind it."""
    return f"""kernel tile(x: f32[{ROWS * TERMS}], w: f32[{TERMS * COLUMNS}], r: f32[{ROWS}], c: f32[{COLUMNS}], \
mut y: f32[{ROWS * COLUMNS}], mut z: f32[{ROWS * COLUMNS}]):
    v0 = f32(0.0)
    v1 = f32(1.5)
    for i in {ROWS} tile 4:
        v2 = r[i]
        for j in {COLUMNS} lanes 4 tile 2:
            v3 = c[j]
            for k in {TERMS}:
                v4 = x[{TERMS}*i + k]
                v5 = w[{COLUMNS}*k + j]
                fold v6 = fma(v4, v5) from v0
{behind}"""


LONG = """            v7 = v6 + v2
            v8 = v7 * v3
            v9 = v8 < v1
            v10 = select(v9, v8, v6)
            y[20*i + j] = v10
            v11 = v10 / v1
            v12 = v11 - v2
            z[20*i + j] = v12 if v9
"""
REDUCED = """            v7 = v6 + v2
            v8 = across(max, v7, j)
            v9 = v7 - v8
            y[20*i + j] = v9
"""
LATER = """            v7 = v6 + v2
            v8 = v7 * v3
            y[20*i + j] = v8
            for k2 in 3 ordered:
                v9 = v8 * v2
                z[20*i + j] = v9
"""


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """All code behind a tile is emitted a row at a time, however short, and however few copies a row has."""
    monkeypatch.setattr(row_loops, "MIN_INSTRUCTIONS", 1)
    monkeypatch.setattr(row_loops, "rows_at_once", lambda count, each, wanted: 1)


@pytest.mark.parametrize("behind", [LONG, LATER], ids=["long", "later"])
def test_rows_one_after_another_give_the_bits_of_all_at_once(behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, target, rng = parse_kernel(tile(behind)), host_target(), np.random.default_rng(0)
    given = [rng.normal(size=b.size).astype(np.float32) for b in kernel.buffers]
    texts, results = [], []
    for least in (10**9, 1):
        monkeypatch.setattr(row_loops, "MIN_INSTRUCTIONS", least)
        texts.append(kernel_function(kernel, "k", target).text)
        results.append([a.copy() for a in given])
        Native([kernel], target).run(0, results[-1], shares=[1])
    assert "alloca" not in texts[0] and "alloca [160 x i8]" in texts[1]
    assert all(agree(a, b) for a, b in zip(*results, strict=True))
    wanted = [a.copy() for a in given]
    interpret.run_kernel(kernel, wanted)
    for found, right in zip(results[1], wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


def test_short_code_and_a_row_that_is_reduced_stay_as_they_are(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one = parse_kernel(tile(REDUCED).replace("tile 4", "tile 1"))
    assert "alloca" not in kernel_function(one, "k", host_target()).text
    monkeypatch.undo()
    assert "alloca" not in kernel_function(parse_kernel(tile(LONG)), "k", host_target()).text


@pytest.mark.parametrize("start", range(0, 320, 40))
def test_random_kernels_by_rows_give_the_bits_of_the_interpreter(start: int, always: None) -> None:
    check(start, 40, host_target())


@pytest.mark.parametrize("name", host_levels())
def test_every_width_of_vectors_gives_the_same_bits(name: str, always: None) -> None:
    check(1000, 40, named_target(name))


def test_random_kernels_have_row_loops(always: None) -> None:
    texts = [kernel_function(random_kernel(seed), "k", host_target()).text for seed in range(320)]
    assert sum(bool(re.search("%rows = alloca", text)) for text in texts) > 8

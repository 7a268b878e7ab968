"""The kernel language: its text, and laws over random kernels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from tests.hang import HANG
from tests.kernel import interpret
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import agree, random_arrays, random_kernel

from wholestep import dtypes
from wholestep.errors import KernelError
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Statement, Store, Var, axes_of, walk
from wholestep.kernel.ops import OPS
from wholestep.kernel.schedule import replace_parts
from wholestep.kernel.text import canonical_text, format_kernel, strideless_text
from wholestep.kernel.verify import verify_kernel

SEEDS = range(120)

LAYER = """\
kernel layer(x: f32[100352], w: f32[7840], mut y: f32[1280]):
    v0 = f32(0.0)
    for i in 128 tile 4:
        for j in 10 lanes 16:
            for k in 784:
                v1 = x[784*i + k]
                v2 = w[10*k + j]
                fold v3 = fma(v1, v2) from v0
            v4 = max(v3, v0)
            y[10*i + j] = v4
"""

EVERYTHING = """\
kernel everything(x: f32[40], at: i32[4], on: bool[4], h: bf16[4], mut y: f32[40], mut z: u8[4]):
    v0 = f32(-0.0)
    v1 = f32(nan)
    v2 = f32(0xffc00001)
    v3 = f64(0.1)
    v4 = f32(0.1)
    v5 = u64(18446744073709551615)
    v6 = bool(True)
    v7 = f16(inf)
    for i in 4 tile 2 if v6:
        v8 = at[-i + 3]
        v9 = i64(v8)
        v10 = index(10*i - 2*v9 + 1)
        v11 = on[i]
        v12 = x[10*i + v8] if v11
        v13 = h[i]
        v14 = f32(v13)
        v15 = bits(i32, v14)
        v16 = not(v15)
        v17 = u8(v16)
        z[i] = v17 if v11
        for j in 10 lanes 8 tile 2:
            v18 = x[10*i + j]
            v19 = across(max, v18, j)
            v20 = call(special.gammaln.f32, v19)
            v21 = v18 < v20
            v22 = select(v21, v18, v4)
            v23 = fma(v22, v18, v0)
            y[10*i + j] = v23
            fold v24 = min(v23) from v1
        for k in 3 ordered if v11:
            carry v25 from v24
            carry v26 from v0
            v27 = v25 / v14
            next v25 = v26, after v28
            next v26 = v27, after v29
        for l in 0:
            pass
        for m in 2:
            v30 = index(m)
            fold v31 = add(v30) from v10
"""


@pytest.mark.parametrize("source", [LAYER, EVERYTHING], ids=["layer", "everything"])
def test_text_reads_back(source: str) -> None:
    kernel = parse_kernel(source)
    verify_kernel(kernel)
    assert format_kernel(kernel) == str(kernel) == source


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernels(seed: int) -> None:
    """The text is complete: a kernel that is read back prints the same and computes the same, to the bit.

    An unordered loop gives the same in one piece and in many.
    """
    kernel = random_kernel(seed)
    verify_kernel(kernel)
    again = parse_kernel(format_kernel(kernel))
    verify_kernel(again)
    assert format_kernel(again) == format_kernel(kernel)
    assert canonical_text(again) == canonical_text(kernel)
    given = random_arrays(kernel, seed)
    results = [[x.copy() for x in given] for _ in range(3)]
    interpret.run_kernel(kernel, results[0])
    interpret.run_kernel(again, results[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpret, "POINTS", 8)
        interpret.run_kernel(kernel, results[2])
    assert all(x.tobytes() == y.tobytes() for x, y in zip(results[0], results[1], strict=True))
    assert all(agree(x, y) for x, y in zip(results[0], results[2], strict=True))
    for buffer, before, after in zip(kernel.buffers, given, results[0], strict=True):
        assert buffer.written or before.tobytes() == after.tobytes()


def test_random_kernels_hold_every_part_of_the_language() -> None:
    kernels = [random_kernel(seed) for seed in SEEDS]
    statements: list[Statement] = [s for k in kernels for s in walk(k.body)]
    values, loops = [s for s in statements if isinstance(s, Var)], [s for s in statements if isinstance(s, Loop)]
    own = {"const", "index", "load", "convert", "bits", "across"}
    assert {v.op for v in values} >= own | set(OPS) - {"ceil", "floor", "trunc"}
    assert {f.op for s in loops for f in s.folds} == set(interpret.FOLDS)
    assert any(s.carries for s in loops) and any(len(s.carries) > 1 for s in loops)
    assert any(s.guard and s.folds for s in loops) and any(s.guard and s.carries for s in loops)
    assert any(isinstance(s, Store) and s.guard for s in statements) and any(v.op == "load" and v.args for v in values)
    assert any(v.op == "load" and v.attr[1].values() for v in values)
    assert any(isinstance(s, Store) and s.index.values() for s in statements)
    assert any(min(s.index.terms.values(), default=0) < 0 for s in statements if isinstance(s, Store))
    axes = [a for k in kernels for a in axes_of(k)]
    assert {a.lanes for a in axes} == {1, 2, 4, 8, 16} and {a.tile for a in axes} == {1, 2, 3, 4}
    assert {a.ahead for a in axes} == {0, 1, 5}
    assert {0, 1, 2, 17, 32} <= {a.extent for a in axes}
    assert any(a.lanes > 1 and a.extent % a.block for a in axes)
    assert {b.dtype for k in kernels for b in k.buffers} >= {
        dtypes.from_short(n) for n in ("bool", "f16", "bf16", "u64")
    }


def renamed(kernel: Kernel) -> Kernel:
    """The same kernel with other names for everything."""
    axes = {
        a: Axis(f"axis{n * 7 % 11}", a.size, extent=a.extent, lanes=a.lanes, tile=a.tile, ahead=a.ahead)
        for n, a in enumerate(axes_of(kernel))
    }
    kernel = replace_parts(kernel, axes)
    for n, buffer in enumerate(kernel.buffers):
        buffer.name = "for" if n else "näme"
    return replace(kernel, name="not a name")


@pytest.mark.parametrize("seed", range(10))
def test_canonical_text_holds_no_names(seed: int) -> None:
    plain, other = random_kernel(seed), renamed(random_kernel(seed))
    assert canonical_text(other) == canonical_text(plain)
    assert format_kernel(other) != format_kernel(plain)
    assert format_kernel(parse_kernel(format_kernel(other))) == format_kernel(other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tile 4", "tile 2"),
        ("lanes 16", "lanes 8"),
        ("784*i", "785*i"),
        ("f32(0.0)", "f32(-0.0)"),
        ("max(v3, v0)", "max(v0, v3)"),
        ("fma(v1, v2)", "fma(v2, v1)"),
        ("in 784:", "in 784 ordered:"),
        ("x: f32[100352]", "x: f32[100353]"),
        ("x: f32", "x: f64"),
        ("x: f32", "mut x: f32"),
    ],
)
def test_canonical_text_tells_kernels_apart(old: str, new: str) -> None:
    assert old in LAYER
    assert canonical_text(parse_kernel(LAYER.replace(old, new))) != canonical_text(parse_kernel(LAYER))


STRIDED = """
kernel strided(x: f32[4096], y: f64[4096], mut z: f32[4096]):
    for i in 8:
        for j in 4 tile 2:
            for k in 16:
                v0 = x[128*i + 16*j + k]
                v1 = y[64*i + 16*j + k]
                v2 = f32(v1)
                v3 = v0 + v2
                z[128*i + 16*j + k] = v3
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[128*i", "x[144*i"),  # an access no longer moves with another one
        ("y[64*i", "y[72*i"),
        ("128*i + 16*j + k", "136*i + 16*j + k"),
        ("z[128*i + 16*j + k", "z[128*i + 16*j + 2*k"),
        ("+ 16*j", "+ 17*j"),  # an unrolled loop
        ("y: f64", "y: f32"),
        ("in 16:", "in 15:"),
        ("in 8:", "in 8 thread:"),
        ("x[128*i + 16*j + k]", "x[128*i + 16*j + k + 1]"),
        ("x[128*i", "x[-128*i"),
    ],
)
def test_a_text_without_strides_keeps_all_else(old: str, new: str) -> None:
    assert old in STRIDED
    assert strideless_text(parse_kernel(STRIDED.replace(old, new)))[0] != strideless_text(parse_kernel(STRIDED))[0]


def test_a_text_without_strides_tells_which_they_are() -> None:
    wider = STRIDED.replace("128*i", "256*i").replace("64*i", "128*i").replace("+ k", "+ 2*k")
    (one, strides), (two, doubled) = (strideless_text(parse_kernel(text)) for text in (STRIDED, wider))
    assert one == two
    assert [(axis.name, nbytes) for axis, nbytes in strides] == [("i", 512), ("k", 4), ("k", 8)]
    assert [(axis.name, nbytes) for axis, nbytes in doubled] == [("i", 1024), ("k", 8), ("k", 16)]


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_numbers_keep_their_bits(name: str) -> None:
    dtype = dtypes.from_short(name)
    words = np.random.default_rng(0).integers(0, 256, (2000, dtype.itemsize), np.uint8).view(dtype)[:, 0]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.1, 1e-7, 2049.0], dtype)
    numbers = np.concatenate([words, special, -special])
    body = tuple([Var("const", (), dtype, n) for n in numbers])
    again = parse_kernel(format_kernel(Kernel("numbers", (), body)))
    found: Any = [s.attr for s in again.body if isinstance(s, Var)]
    assert np.array(found, dtype).tobytes() == numbers.tobytes()


def test_operators_and_names_that_collide() -> None:
    """Two axes of one name, a buffer named like a value, and the order of terms."""
    with KernelBuilder("collide") as b:
        x = b.buffer("v1", np.dtype("f4"), 12)
        y = b.buffer("i", np.dtype("f4"), 12)
        outer, inner = Axis("i", 3), Axis("i", 4)
        with b.loop(outer), b.loop(inner):
            at = Index(0, {inner: 1, outer: 4})
            b.store(y, at, 2 - b.load(x, at) * 3)
    assert format_kernel(b.kernel()) == (
        "kernel collide(b0: f32[12], mut i: f32[12]):\n"
        "    v0 = f32(3.0)\n"
        "    v1 = f32(2.0)\n"
        "    for i_1 in 3:\n"
        "        for i_2 in 4:\n"
        "            v2 = b0[4*i_1 + i_2]\n"
        "            v3 = v2 * v0\n"
        "            v4 = v1 - v3\n"
        "            i[4*i_1 + i_2] = v4\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("kernel layer", "layer", "is not understood"),
        ("v4 = max(v3, v0)", "v4 = max(v3)", "max takes 2 values"),
        ("v4 = max(v3, v0)", "v4 = most(v3, v0)", "'most' is no dtype"),
        ("v4 = max(v3, v0)", "v4 = max(v3, v9)", "'v9' is no value"),
        ("v4 = max(v3, v0)", "v3 = max(v3, v0)", "v3 is no name for a new value"),
        ("v4 = max(v3, v0)", "v4 = v3 if v0", "only loads and stores have a guard"),
        ("v0 = f32(0.0)", "v0 = f32(zero)", "'zero' is no number"),
        ("v0 = f32(0.0)", "fold v0 = add(v1) from v2", "`fold` stands in a loop"),
        ("x[784*i + k]", "x[784*i + q]", "'q' is no value"),
        ("x[784*i + k]", "x[784*i + *]", "is no index"),
        ("x[784*i + k]", "q[784*i + k]", "'q' is no buffer"),
        ("    v1 = x", "      v1 = x", "the indentation fits no loop"),
        ("for k in 784:", "for i in 784:", "i is another axis already"),
        ("for k in 784:", "for k in many:", "is not understood"),
        ("w: f32[7840]", "x: f32[7840]", "two buffers are called x"),
        ("    fold v3", "    next v0 = v1, after v3", "this loop carries no v0"),
        ("v1 = x[784*i + k]", "carry v1 from v0", "carries v1 to no next step"),
    ],
)
def test_text_that_is_no_kernel(old: str, new: str, problem: str) -> None:
    assert old in LAYER
    with pytest.raises(KernelError, match="parse: .*" + problem.replace("*", r"\*")):
        parse_kernel(
            LAYER.replace(old, new, 1).replace("next v0 = v1, after v3 = fma(v1, v2) from v0", "next v0 = v1, after v3")
        )


def test_the_documentation_holds_sound_kernels() -> None:
    page = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")
    sources = [block for block in page.split("```")[1::2] if "\nkernel " in block]
    assert len(sources) >= 3
    for source in sources:
        kernel = parse_kernel(source.lstrip("\n"))
        verify_kernel(kernel)
        assert format_kernel(kernel) == source.lstrip("\n")


def test_no_text_at_all() -> None:
    with pytest.raises(KernelError, match="the text holds no kernel"):
        parse_kernel("\n")


def test_threads_write_their_kernels_side_by_side() -> None:
    begun, done = Event(), Event()

    def writing() -> None:
        with KernelBuilder("theirs"):
            begun.set()
            assert done.wait(HANG)

    with KernelBuilder("ours") as builder, ThreadPoolExecutor(1) as threads:
        other = threads.submit(writing)
        assert begun.wait(HANG)
        x = builder.constant(2.0, np.dtype(np.float32))
        twice = x + x
        done.set()
        other.result()
    assert builder.frames[0].body == [x, twice]

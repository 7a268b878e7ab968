"""Products of bfloat16 by matrix units: tiles give the products in any order of threads, the fragments that CUDA C++
multiplies have their sums, and no element of an asynchronous copy is read before the copy has arrived."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.backends.cards import CardKernels, device_for_tests
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel

import wholestep as ws
from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.find_products import find_product
from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.backends.gpu.matrix_loops import find_matrix_loop, find_vector_copy
from wholestep.backends.gpu.matrix_products import MatrixProduct, collapse_grid, tile_matrix_product
from wholestep.backends.gpu.tile_shapes import MATRIX_SHAPES, MatrixShape
from wholestep.errors import DeviceError, KernelError, MissingExtraError
from wholestep.kernel.lang import Barrier, Kernel, Loop, Statement, walk
from wholestep.kernel.verify import verify_kernel
from wholestep.kernel.workgroups import find_workgroup
from wholestep.runtime.gpu.nvrtc import NVRTC
from wholestep_tools.audit.correctness.kernel_use import compiled_kernels
from wholestep_tools.drawn.cuda_card import card_without_one

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ORDERS = {"nn": "{terms}*i0 + r1 | {columns}*r1 + i1", "nt": "{terms}*i0 + r1 | {terms}*i1 + r1"}
ORDERS |= {"tn": "{rows}*r1 + i0 | {columns}*r1 + i1", "tt": "{rows}*r1 + i0 | {terms}*i1 + r1"}
SMALL = (MatrixShape((1, 2), 16, 16, 32, 3, 1.0, 1.0), MatrixShape((2, 1), 16, 32, 16, 2, 1.0, 1.0))
"""Shapes with few threads, which the interpreter runs one after another."""
SIZES = [(32, 32, 16), (32, 64, 48), (40, 24, 56), (17, 33, 35), (16, 16, 256)]


def product(rows: int, columns: int, terms: int, order: str = "nn", out: str = "f32") -> Kernel:
    x, w = ORDERS[order].format(rows=rows, columns=columns, terms=terms).split(" | ")
    sizes = rows * terms, terms * columns, rows * columns
    last = f"v8 = {out}(v7)" if out != "f32" else "v8 = v7 * v0"
    return parse_kernel(f"""
kernel contract(b0: bf16[{sizes[0]}], b1: bf16[{sizes[1]}], b2: f32[{columns}], mut b3: {out}[{sizes[2]}]):
    v0 = f32(1.0)
    v9 = f32(0.0)
    for i0 in {rows}:
        for i1 in {columns}:
            for r1 in {terms}:
                v1 = b0[{x}]
                v2 = f32(v1)
                v3 = b1[{w}]
                v4 = f32(v3)
                fold v5 = fma(v2, v4) from v9
            v6 = b2[i1]
            v7 = v5 + v6
            {last}
            b3[{columns}*i0 + i1] = v8
""")


def arrays_of(kernel: Kernel, seed: int = 0) -> list[Array]:
    """Small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-8, 9, b.size).astype(b.dtype) for b in kernel.buffers]


def tiled(kernel: Kernel, shape: MatrixShape) -> Kernel:
    found = find_product(kernel)
    assert found is not None
    return MatrixProduct(found, shape).kernel()


def check_on_card(kernels: list[Kernel], given: list[Array]) -> None:
    expected = [a.copy() for a in given]
    run_kernel(kernels[0], expected)
    with device_for_tests("cuda") as device:
        on_card = CardKernels(kernels, device)
        for n in range(len(kernels)):
            found = [a.copy() for a in given]
            on_card.run(n, found)
            np.testing.assert_array_equal(found[-1], expected[-1])


@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_tiles_give_the_sums(sizes: tuple[int, int, int], order: str, shape: MatrixShape) -> None:
    kernel = product(*sizes, order)
    made = tiled(kernel, shape)
    given = arrays_of(kernel)
    expected = [a.copy() for a in given]
    run_kernel(kernel, expected)
    for threads in (range, lambda count: range(count)[::-1]):
        found = [a.copy() for a in given]
        found[-1][:] = np.nan  # each element must be written
        run_kernel(made, found, order=threads)
        np.testing.assert_array_equal(found[-1], expected[-1])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", [(128, 256, 128), (72, 136, 40), (33, 31, 35)], ids=str)
def test_fragments_have_the_sums_of_a_warp(sizes: tuple[int, int, int], order: str) -> None:
    kernel = product(*sizes, order, "bf16")
    check_on_card(
        [kernel, *[tiled(kernel, shape) for shape in (MATRIX_SHAPES[0], MATRIX_SHAPES[-1])]], arrays_of(kernel)
    )


TWO_TERMS = """
kernel contract(b0: bf16[24576], b1: bf16[16384], mut b2: f32[6144]):
    v0 = f32(0.0)
    for i0 in 2:
        for i1 in 48:
            for i2 in 64:
                for r1 in 4:
                    carry v1 from v0
                    for r2 in 64:
                        v2 = b0[12288*i0 + 3072*r1 + 64*i1 + r2]
                        v3 = f32(v2)
                        v4 = b1[4096*r1 + 64*r2 + i2]
                        v5 = f32(v4)
                        fold v6 = fma(v3, v5) from v1
                    next v1 = v6, after v7
                b2[3072*i0 + 64*i1 + i2] = v7
"""


def test_terms_of_several_axes_are_parts_of_the_last() -> None:
    kernel = parse_kernel(TWO_TERMS)
    made = tile_matrix_product(kernel)
    assert made is not None
    check_on_card([kernel, made], arrays_of(kernel))


def test_a_grid_that_goes_through_memory_as_one_has_one_axis_of_rows() -> None:
    kernel = parse_kernel(
        """
kernel contract(b0: bf16[2048], b1: bf16[2048], mut b2: f32[4096]):
    v0 = f32(0.0)
    for i0 in 16:
        for i1 in 4:
            for i2 in 64:
                for r1 in 32:
                    v1 = b0[64*r1 + 4*i0 + i1]
                    v2 = f32(v1)
                    v3 = b1[64*r1 + i2]
                    v4 = f32(v3)
                    fold v5 = fma(v2, v4) from v0
                b2[256*i0 + 64*i1 + i2] = v5
"""
    )
    assert [a.extent for a in find_workgroup(collapse_grid(kernel)).grid] == [64, 64]
    made = tile_matrix_product(kernel)
    assert made is not None
    check_on_card([kernel, made], arrays_of(kernel))


@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_tiles_without_a_rest_are_free_of_races_and_all_matrix_units(order: str, shape: MatrixShape) -> None:
    made = tiled(product(shape.height, 2 * shape.width, 4 * shape.terms, order), shape)
    verify_kernel(made)
    threads = find_workgroup(made).threads
    inner = [s for s in walk(made.body) if isinstance(s, Loop) and s.axis not in threads]
    parts = shape.stages + 4 % shape.stages
    assert sum(find_matrix_loop(s, threads) is not None for s in inner) == parts
    assert all(find_vector_copy(s) is not None for s in inner if s.axis.lanes > 1)


def without(body: tuple[Statement, ...], left_out: Barrier, late: int | None) -> tuple[Statement, ...]:
    """A body without a barrier, or with another `late` of that barrier."""
    kept = [
        Barrier(late) if s is left_out and late is not None else s
        for s in body
        if s is not left_out or late is not None
    ]
    return tuple([s._replace(body=without(s.body, left_out, late)) if isinstance(s, Loop) else s for s in kept])


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_no_barrier_may_be_left_out_or_later(shape: MatrixShape) -> None:
    made = tiled(product(shape.height, shape.width, 4 * shape.terms), shape)
    barriers = [s for s in walk(made.body) if isinstance(s, Barrier)]
    waits = [s for s in barriers if s.late < shape.stages - 1]
    assert len(waits) >= shape.stages
    for barrier in waits:
        with pytest.raises(KernelError, match=r"may store to what is|still be on its way"):
            verify_kernel(replace(made, body=without(made.body, barrier, None)))
    for barrier in waits:
        with pytest.raises(KernelError, match="still be on its way"):
            verify_kernel(replace(made, body=without(made.body, barrier, barrier.late + 1)))


def test_buffers_that_begin_anywhere_are_read_element_by_element() -> None:
    made = tiled(product(128, 128, 64), MATRIX_SHAPES[-1])
    whole, apart = [write_kernel(made, "k0", Cuda(), (), of) for of in (range(4), ())]
    assert "ws_copy(" in whole.text and "ws_copy(" not in apart.text
    assert whole.text.count("ws_multiply(") == apart.text.count("ws_multiply(") > 0


@pytest.mark.parametrize("shape", MATRIX_SHAPES, ids=str)
def test_shared_memory_beyond_that_of_a_kernel_is_asked_for(shape: MatrixShape) -> None:
    code = write_kernel(tiled(product(512, 512, 512, "tn"), shape), "k0", Cuda())
    assert code.shared == 0 or 48 << 10 < code.shared <= 227 << 10
    assert ("extern __shared__" in code.text) == bool(code.shared)


@pytest.mark.parametrize("architecture", [80, 90])
def test_matrix_units_compile_and_spill_next_to_nothing(architecture: int) -> None:
    try:
        compiler = NVRTC()
    except MissingExtraError as error:
        pytest.skip(f"{error.args[0].splitlines()[0]}: NVRTC is the extra [cuda]; not installed")
    for i, shape in enumerate(MATRIX_SHAPES):
        code = write_kernel(tiled(product(1024, 1024, 768), shape), "k0", Cuda(), (), range(4))
        (use,) = compiled_kernels(compiler, Cuda().module([code.text]), architecture)
        assert use.registers <= 255 and use.spilled <= (64 if i == 0 else 0)


def test_a_card_without_matrix_units_is_named() -> None:
    code = write_kernel(tiled(product(64, 64, 64), MATRIX_SHAPES[-1]), "k0", Cuda())
    card = card_without_one().driver
    card.architecture = 75
    with pytest.raises(DeviceError, match=r"compute capability 7.5, has no matrix units for bfloat16"):
        card.compile(Cuda().module([code.text]))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_bfloat16_is_that_of_float64_to_its_rounding(causal: bool) -> None:
    rng = np.random.default_rng(0)
    q, k, v, w = [rng.standard_normal((1, 2, 48, 24)).astype(BFLOAT16) for _ in range(4)]

    def mixed(q: Any, k: Any, v: Any) -> Any:
        out = ws.nn.scaled_dot_product_attention(q, k, v, causal=causal, blocks=(16, 16))
        return (out.astype(np.float32) * w.astype(np.float32)).sum()

    slopes = ws.grad(mixed, argnums=(0, 1, 2))
    with device_for_tests("cuda") as device:
        found = ws.jit(slopes, device=device)(q, k, v)
    wanted = [np.asarray(x, np.float64) for x in (q, k, v)]
    plain = ws.grad(plain_attention, argnums=(0, 1, 2))(*wanted, w.astype(np.float64), causal)
    for x, y in zip(found, plain, strict=True):
        assert np.abs(np.asarray(x, np.float64) - y).max() < 0.03 * np.abs(y).max()


def plain_attention(q: Any, k: Any, v: Any, w: Any, causal: bool) -> Any:
    """Attention that is written out, in a sum with weights."""
    scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True) @ v * w).sum()


def test_a_step_in_bfloat16_multiplies_by_matrix_units_and_learns_as_on_the_cpu() -> None:
    rng = np.random.default_rng(0)
    params = {"a": rng.standard_normal((64, 96)).astype(np.float32) / 8, "b": np.zeros(96, np.float32)}
    batch = {
        "x": rng.standard_normal((48, 64)).astype(np.float32),
        "y": rng.standard_normal((48, 96)).astype(np.float32),
    }

    def loss(p: Any, batch: Any) -> Any:
        return ((np.tanh(batch["x"] @ p["a"] + p["b"]) - batch["y"]) ** 2).mean()

    def losses(device: str) -> tuple[list[float], str]:
        step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch, precision="bfloat16", device=device)
        return [float(step(batch).loss) for _ in range(5)], step.source() if device == "cuda" else ""

    with device_for_tests("cuda") as device:
        found, text = losses(device)
    assert len(re.findall(r"ws_multiply\((?!float)", text)) > 0
    np.testing.assert_allclose(found, losses("cpu")[0], rtol=2e-3)

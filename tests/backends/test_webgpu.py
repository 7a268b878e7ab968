"""WebGPU: float64 scalars on the host, loop order, free memory, reserved words, numbers and errors of the card."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.backends.cards import CardKernels, missing
from tests.kernel import interpret
from tests.kernel.accuracy import FUNCTIONS, errors, nearly
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import agree, random_arrays

import wholestep as ws
from wholestep.backends.gpu.host_scalars import compute_scalars, split_kernel
from wholestep.backends.gpu.interchange_loops import interchange_loops
from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.backends.gpu.known_scalars import CASE, GIVEN, KnownCode
from wholestep.backends.gpu.limits import check_program, launch_refusal
from wholestep.backends.gpu.target import WEBGPU
from wholestep.backends.gpu.wgsl import WGSL
from wholestep.compiler.backends import BACKENDS
from wholestep.errors import DeviceError, KernelError, UnsupportedError
from wholestep.kernel.workgroups import item_trips
from wholestep.lower.compile import lower_program
from wholestep.lower.program.steps import Launch
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.runtime.gpu.driver import MemoryPlace
from wholestep.runtime.gpu.webgpu import FreeList, HeapBlock, WebGPUDriver

UPDATE = """\
kernel update(lr: f64[2], g: f32[6], mut w: f32[6], mut n: f64[1]):
    v0 = lr[1]
    v1 = f64(0.5)
    v2 = v0 * v1
    v3 = f32(v2)
    n[0] = v2
    for i in 6:
        v4 = g[i]
        v5 = v3 * v4
        w[i] = v5
"""
LOOSE = """\
kernel loose(x: f64[6], mut y: f32[6]):
    for i in 6:
        v0 = x[i]
        v1 = f32(v0)
        y[i] = v1
"""


def test_the_host_computes_scalars_of_float64_and_the_card_loads_them() -> None:
    kernel = parse_kernel(UPDATE)
    host, card, added = split_kernel(kernel)
    assert host is not None and card is not None and added == (np.dtype(np.float32),)
    assert [tuple(at) for at in host.loads] == [(0, 1)]
    scale, n = compute_scalars(host, [np.array([0.1])])
    assert (n[0], scale[0]) == (0.05, np.float32(0.05)) and n.dtype == np.float64
    assert {at.buffer for at, _ in host.stores} == {3, 4}
    found = [np.zeros(2), np.arange(6, dtype="f"), np.zeros(6, "f"), np.zeros(1), scale]
    interpret.run_kernel(card, found)
    np.testing.assert_array_equal(found[2], np.float32(0.05) * np.arange(6, dtype="f"))


def test_arrays_of_float64_are_no_scalars() -> None:
    with pytest.raises(KernelError, match="float64 that depends on load"):
        split_kernel(parse_kernel(LOOSE))


UNUSED = """\
kernel rate(lr: f64[1], count: i64[1], mut w: f32[6]):
    v0 = lr[0]
    v1 = count[0]
    v2 = bits(i64, v0)
    v3 = v2 + v1
    v4 = bits(f64, v3)
    v5 = f32(v4)
    for i in 6:
        w[i] = v5
"""


def test_the_card_is_given_no_scalars_that_only_the_host_needs() -> None:
    """The bits of a float64 are a 64-bit integer, as are the values computed from them, on the way to one float32."""
    kernel = parse_kernel(UNUSED)
    host, card, added = split_kernel(kernel)
    assert host is not None and card is not None and added == (np.dtype(np.float32),)
    assert len(host.stores) == 1
    found = [np.array([0.5]), np.array([2]), np.zeros(6, "f"), *compute_scalars(host, [np.array([0.5]), np.array([2])])]
    interpret.run_kernel(card, found)
    np.testing.assert_array_equal(found[2], np.float32(0.5))


ROWS = """\
kernel scatter(rows: f32[384], at: i32[6], mut table: f32[{size}]):
    v0 = i32(0)
    v1 = i32(9)
    for i in 3 ordered:
        for k in 2 ordered:
            v2 = at[2*i + k]
            v3 = max(v2, v0)
            v4 = min(v3, v1)
            for j in 64:
                v5 = rows[128*i + 64*k + j]
                v6 = table[{stride}*v4 + j]
                v7 = v5 + v6
                table[{stride}*v4 + j] = v7
"""


def test_what_a_case_decides_is_not_computed_ahead() -> None:
    """Given values and constants are not computed ahead either, since they are in memory already."""
    code, f64 = KnownCode(), np.dtype(np.float64)
    given, one, case = code.put(GIVEN, f64), code.put("const", f64, extra=1), code.put(CASE, f64)
    added, chosen = code.put("add", f64, (given, one)), code.put("add", f64, (given, case))
    assert [code.is_computed_ahead(x) for x in (given, one, case, added, chosen)] == [False, False, False, True, False]


def test_columns_go_before_rows_where_they_do_not_meet() -> None:
    kernel = parse_kernel(ROWS.format(size=640, stride=64))
    made = interchange_loops(kernel)
    assert item_trips(made) == 9 and item_trips(kernel) == 3 * (1 + 2 * 65)
    arrays = random_arrays(kernel, 0)
    wanted = [a.copy() for a in arrays]
    interpret.run_kernel(kernel, wanted)
    interpret.run_kernel(made, arrays)
    assert all(agree(x, y) for x, y in zip(arrays, wanted, strict=True))
    meeting = parse_kernel(ROWS.format(size=640, stride=1))
    assert interchange_loops(meeting) is meeting


def scattered(at: Any, x: Any) -> Any:
    np.add.at(x, at, 1.0)
    return x


def test_a_work_item_with_too_many_trips_is_refused_by_name() -> None:
    graph = ws.jit(scattered).lower(np.zeros(70_000, "i"), np.zeros(3, "f"))
    plan = lower_program(run_passes(graph, ALL_PASSES), WEBGPU)
    with pytest.raises(UnsupportedError, match=r"collect takes 80,146 trips of loops in one work item"):
        check_program(plan, WEBGPU, doubles=False)


def test_a_kernel_that_is_no_operation_of_the_user_is_refused_by_its_arrays() -> None:
    lines = "    for i in 12:\n        v0 = a[i]\n        v1 = f32(v0)\n        y[i] = v1\n"
    kernel = replace(parse_kernel(f"kernel k(a: f64[12], mut y: f32[12]):\n{lines}"), name="")
    refused = launch_refusal(WEBGPU, Launch(kernel, ()), (), "computes with float64", "use device='cpu'")
    assert str(refused).startswith("compile for 'webgpu': a kernel on f64[12], f32[12] computes with float64")


def test_free_stretches_are_joined() -> None:
    free = FreeList()
    free.give(0, 1024)
    begins = [free.take(256) for _ in range(4)]
    assert begins == [0, 256, 512, 768] and free.take(1) is None
    for begin in (256, 768, 512):
        free.give(begin, begin + 256)
    assert free.stretches == [(256, 1024)] and free.take(512) == 256


WIDE = """\
kernel wide(a: {t}[64], b: {t}[64], mut y: {t}[704], mut z: bool[192], mut f: f32[64]):
    for i in 64:
        v0 = a[i]
        v1 = b[i]
        v2 = v0 + v1
        y[i] = v2
        v3 = v0 - v1
        y[i + 64] = v3
        v4 = v0 * v1
        y[i + 128] = v4
        v5 = quotient(v0, v1)
        y[i + 192] = v5
        v6 = v0 << v1
        y[i + 256] = v6
        v7 = v0 >> v1
        y[i + 320] = v7
        v8 = min(v0, v1)
        y[i + 384] = v8
        v9 = v0 ^ v1
        y[i + 448] = v9
        v10 = f32(v0)
        f[i] = v10
        v11 = {t}(v10)
        y[i + 512] = v11
        v12 = v0 < v1
        z[i] = v12
        v13 = v0 == v1
        z[i + 64] = v13
        v14 = v0 <= v1
        z[i + 128] = v14
        v15 = neg(v0)
        y[i + 576] = v15
        v16 = max(v0, v1)
        y[i + 640] = v16
"""


def test_no_name_is_a_word_of_the_language() -> None:
    loads = "".join([f"        v{n} = x[i]\n" for n in range(60)])
    for count in range(1, 60):
        lines = "".join(loads.splitlines(keepends=True)[:count])
        sums = f"        for j in 3:\n            v98 = x[j]\n            fold v99 = add(v98) from v{count - 1}\n"
        text = f"kernel k(x: f32[4], mut y: f32[4]):\n    for i in 4:\n{lines}{sums}        y[i] = v99\n"
        assert not re.search(r"(let|var) [iuf](32|64)\b", write_kernel(parse_kernel(text), "k", WGSL()).text)


def test_a_module_as_text(golden: Any) -> None:
    """The functions that kernels call, and kernels of words, pairs of words and parts of words."""
    kernels = [parse_kernel(WIDE.format(t=short)) for short in ("i64", "u8")]
    golden(WGSL().module([write_kernel(kernel, f"k{i}", WGSL()).text for i, kernel in enumerate(kernels)]))


class CardFailure(Exception):
    """The exception class of a stand-in for wgpu."""


class HeldHeap(WebGPUDriver):
    """The driver with a heap in an array, whose queue is the driver itself."""

    def __init__(self, nbytes: int) -> None:
        self.heap, self.lock = np.arange(nbytes, dtype=np.uint8), threading.RLock()
        self.waiting, self.device, self.queue, self.free, self.size = [], self, self, FreeList(), nbytes
        self.limit, self.rows = 1 << 20, np.zeros(0)
        self.adapter = SimpleNamespace(info={"device": "a card"})
        self.wgpu = SimpleNamespace(
            GPUError=CardFailure, BufferUsage=SimpleNamespace(STORAGE=1, COPY_SRC=2, COPY_DST=4)
        )

    def write_buffer(self, heap: Any, low: int, data: Any) -> None:
        assert low % 4 == data.size % 4 == 0
        heap[low : low + data.size] = data

    def read_buffer(self, heap: Any, low: int, nbytes: int) -> Any:
        assert low % 4 == nbytes % 4 == 0
        return heap[low : low + nbytes].copy()


@pytest.mark.parametrize(("low", "high"), [(0, 4), (1, 2), (3, 9), (4, 7), (6, 8)])
def test_a_write_leaves_the_rest_of_the_words_that_it_shares(low: int, high: int) -> None:
    driver = HeldHeap(12)
    wanted = np.arange(12, dtype=np.uint8)
    wanted[low:high] = 99
    driver.write(MemoryPlace(HeapBlock(0, 12), low), np.full(high - low, 99, np.uint8))
    np.testing.assert_array_equal(driver.heap, wanted)


class FailingCard(HeldHeap):
    """A card whose every transfer raises one error."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(12)
        self.failure = failure

    def write_buffer(self, heap: Any, low: int, data: Any) -> None:
        raise self.failure

    def read_buffer(self, heap: Any, low: int, nbytes: int) -> Any:
        raise self.failure

    def create_buffer(self, size: int, usage: int) -> Any:
        raise self.failure


@pytest.mark.parametrize("call", ["write", "read", "gather", "copy", "submit", "allocate"])
@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (CardFailure("gone"), "a card does not answer: gone; .*lost"),
        (MemoryError("full"), "no memory for .*full; .*kept"),
    ],
)
def test_errors_of_the_card_say_what_became_of_its_memory(call: str, failure: Exception, words: str) -> None:
    driver = FailingCard(failure)
    heap, place, data = driver.heap, MemoryPlace(HeapBlock(0, 12), 0), np.zeros(4, np.uint8)
    driver.waiting = [(None, (1, 1), np.zeros(256, np.uint32))] if call == "submit" else []
    given = {
        "write": (place, data),
        "read": (place, data),
        "gather": ([place], [data]),
        "copy": (MemoryPlace(place.handle, 4), place, 4),
        "submit": (),
        "allocate": (1000,),
    }
    if call == "submit":
        words = words.replace("kept", "launches are lost")
    with pytest.raises(DeviceError, match=words):
        getattr(driver, call)(*given[call])
    assert driver.heap is heap


@pytest.fixture
def adapter() -> None:
    if missing("webgpu"):
        pytest.skip(missing("webgpu"))


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("short", ["i64", "u64", "i32", "u32", "i8", "u16"])
def test_integers_wrap_and_convert_as_they_do_on_the_cpu(short: str) -> None:
    kernel = parse_kernel(WIDE.format(t=short))
    dtype, rng = kernel.buffers[0].dtype, np.random.default_rng(1)
    info = np.iinfo(dtype)
    drawn = rng.integers(info.min, info.max, (2, 64), dtype, endpoint=True)
    a, b = drawn >> rng.integers(0, info.bits, (2, 64), dtype)
    a[:8] = [info.max, info.min, 0, 1, info.max - 1, info.max, info.min + 1, 3]
    b[:8] = [0, info.max, 1, info.max, 2, info.max, 1, 0]
    b[8:24] = np.arange(16) * info.bits // 12
    given = [a, b, np.zeros(704, dtype), np.ones(192, bool), np.zeros(64, "f")]
    wanted = [x.copy() for x in given]
    with np.errstate(all="ignore"):
        interpret.run_kernel(kernel, wanted)
    CardKernels([kernel], "webgpu").run(0, given)
    rounded = wanted[4].astype(np.float64)
    inside = (rounded < info.max) & (rounded >= info.min)  # NumPy does not define other casts
    for x, y in zip(given, wanted, strict=True):
        x, y = (np.where(inside, z.reshape(-1, 64), 0) for z in (x, y))
        np.testing.assert_array_equal(x, y)


FMA = """\
kernel product(a: f32[64], b: f32[64], mut p: f32[64], mut e: f32[64], mut r: f32[64], mut n: bool[64]):
    v0 = f32(12582912.0)
    v1 = f32(inf)
    for i in 64:
        v2 = a[i]
        v3 = b[i]
        v4 = v2 * v3
        p[i] = v4
        v5 = neg(v4)
        v6 = fma(v2, v3, v5)
        e[i] = v6
        v7 = fma(v2, v3, v0)
        v8 = v7 - v0
        r[i] = v8
        v9 = v2 / v2
        v10 = v9 - v9
        v11 = v10 * v1
        v12 = isnan(v11)
        n[i] = v12
"""


@pytest.mark.usefixtures("adapter")
def test_roundings_are_kept() -> None:
    kernel = parse_kernel(FMA)
    arrays = [np.random.default_rng(i).normal(size=64).astype("f") for i in range(5)] + [np.zeros(64, bool)]
    wanted = [a.copy() for a in arrays]
    with np.errstate(all="ignore"):
        interpret.run_kernel(kernel, wanted)
    CardKernels([kernel], "webgpu").run(0, arrays)
    for x, y in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(x, y)
    assert wanted[3].any() and wanted[5].all()


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_are_reduced_without_float64(name: str) -> None:
    x = np.random.default_rng(3).integers(0x10000000, 0x7F800000, 20_000, np.uint32).view(np.float32)
    found = ws.jit(getattr(np, name), device="webgpu")(x)
    assert errors(found, nearly(name, [x])).max() <= FUNCTIONS[name].bounds[0]


@pytest.mark.usefixtures("adapter")
def test_memory_beyond_the_limit_is_an_error_that_says_which() -> None:
    driver: Any = BACKENDS["webgpu"]().memory.driver  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match=r"bytes are not free: the adapter binds [\d,]+ bytes(.|\n)*memory_budget"):
        driver.allocate(driver.limit + 1)


@pytest.mark.usefixtures("adapter")
def test_memory_that_is_not_there_is_said_by_the_name_of_its_array() -> None:
    driver: Any = BACKENDS["webgpu"]().memory.driver  # type: ignore[attr-defined]
    wanted = np.broadcast_to(np.float32(1), (driver.limit // 4 + 1,))
    for f, name in ((lambda table: table + 1, "result 0"), (lambda row, table: row + table[:3], "table")):
        program = ws.jit(f, device="webgpu")
        with pytest.raises(DeviceError, match=rf"{name}, f32.*bytes are not free"):
            program(*[np.ones(3, "f")] * (name == "table"), wanted)


@pytest.mark.usefixtures("adapter")
def test_state_that_there_is_no_memory_for_is_said_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = BACKENDS["webgpu"]().memory.driver  # type: ignore[attr-defined]
    params = {"small": np.zeros(2, "f"), "table": np.zeros((1000, 1000), "f")}

    def allocate(nbytes: int, allocate: Any = driver.allocate) -> Any:
        return allocate(nbytes if nbytes < 4_000_000 else driver.limit + 1)

    monkeypatch.setattr(driver, "allocate", allocate)
    with pytest.raises(DeviceError, match=r"params\.table, f32\[1000, 1000\]: .*bytes are not free"):
        ws.compile(lambda p, x: np.mean(p["table"] * x), params, batch=np.float32(1), device="webgpu")


@pytest.mark.usefixtures("adapter")
def test_intermediate_values_that_there_is_no_memory_for_are_said_by_their_line() -> None:
    """The error names the largest value and the user's line, for a program compiled now or loaded from the cache."""
    driver: Any = BACKENDS["webgpu"]().memory.driver  # type: ignore[attr-defined]

    def wide(x: Any, y: Any) -> Any:
        return np.sort(np.tanh(x[:, None] * y), axis=0)[::2] @ y

    size = int((driver.limit // 4) ** 0.5) + 50
    for _ in range(2):
        with pytest.raises(
            DeviceError, match=r"largest is \w+ [fi]\d\d\[\d+, \d+\] at \S*test_webgpu.py:\d+:  return np.sort"
        ):
            ws.jit(wide, device="webgpu")(np.ones(size, "f"), np.ones(size, "f"))


@pytest.mark.usefixtures("adapter")
def test_bytes_that_share_words_are_moved() -> None:
    memory: Any = BACKENDS["webgpu"]().memory
    rows = np.arange(21, dtype=np.uint8).reshape(7, 3)
    held = memory.upload(rows)
    np.testing.assert_array_equal(memory.download(memory.view(held, 3)), rows[3])
    memory.copy(memory.view(held, 1), np.array([99, 98, 97], np.uint8))
    memory.copy(memory.view(held, 5), memory.view(held, 2))
    rows[1], rows[5] = [99, 98, 97], rows[2]
    np.testing.assert_array_equal(memory.download(held), rows)

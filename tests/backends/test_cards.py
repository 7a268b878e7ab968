"""Graphics cards: kernels in OpenCL C and WGSL against the kernel interpreter, and steps with memory of a card."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.cards import CardKernels, device_for_tests, missing
from tests.compiled.test_primitives import in_double, off, reference, together
from tests.kernel import interpret
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import agree, random_arrays, random_kernel
from tests.kernel.workgroup_kernels import CASES
from tests.lower.test_scatters import draw_scatter, wanted as in_order

import wholestep as ws
from wholestep.backends.gpu.beside_kernels import KernelsBeside, flat_kernel
from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.backends.gpu.launch_order import CardPart, order_launches
from wholestep.backends.gpu.limits import check_program
from wholestep.backends.gpu.opencl import OpenCL
from wholestep.backends.gpu.share_loops import share_loops
from wholestep.backends.gpu.target import OPENCL
from wholestep.backends.gpu.wgsl import WGSL
from wholestep.compiler.devices import compile_for_device
from wholestep.errors import BoundsError, DeviceError, MissingExtraError, UnsupportedError
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build, inline
from wholestep.kernel.lang import Buffer, Kernel, Var, walk
from wholestep.lower.compile import lower_program
from wholestep.lower.program.steps import MemRef
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.primitives.family import REGISTRY
from wholestep.runtime.gpu import cuda, opencl, webgpu
from wholestep.testing import laws
from wholestep.testing.arrays import eps_of
from wholestep_tools.audit.campaign import Seen
from wholestep_tools.audit.correctness import on_cards

LANGUAGES = {"opencl": OpenCL(), "webgpu": WGSL(), "cuda": Cuda()}
MARKS = {"opencl": "__kernel", "webgpu": "@compute", "cuda": "__global__"}
"""A keyword in the source of every program, for each device."""


@pytest.fixture(params=list(LANGUAGES))
def device(request: Any) -> Iterator[str]:
    """A card: it is looked for when a test runs, since its threads would be in every process that collects tests."""
    with device_for_tests(request.param) as found:
        yield found


def is_for_cards(kernel: Any, device: str) -> bool:
    """Test whether a kernel has no rows in registers, and no float64 for a device without it."""
    values = [s for s in walk(kernel.body) if isinstance(s, Var)]
    doubles = [x for x in (*values, *kernel.buffers) if x.dtype == np.float64]
    return all(v.op != "across" for v in values) and not (doubles and device == "webgpu")


def test_random_kernels_give_the_bits_of_the_interpreter(device: str) -> None:
    drawn = [(seed, random_kernel(seed)) for seed in range(4000, 4016)]
    drawn = [(seed, kernel) for seed, kernel in drawn if is_for_cards(kernel, device)]
    card = CardKernels([kernel for _, kernel in drawn], device)
    for n, (seed, kernel) in enumerate(drawn):
        found = random_arrays(kernel, seed)
        wanted = [a.copy() for a in found]
        interpret.run_kernel(kernel, wanted)
        card.run(n, found)
        for buffer, x, y in zip(kernel.buffers, found, wanted, strict=True):
            assert agree(x, y), f"seed {seed}, {buffer.name}:\n{kernel}"


def test_workgroups_share_memory_and_wait_for_each_other(device: str) -> None:
    kernels = [parse_kernel(text) for text, _, _ in CASES.values()]
    card = CardKernels(kernels, device)
    for n, (_, given, meaning) in enumerate(CASES.values()):
        out = np.full(kernels[n].buffers[-1].size, np.nan, np.float32)
        card.run(n, [*[np.ascontiguousarray(x).reshape(-1) for x in given], out])
        np.testing.assert_array_equal(out, np.asarray(meaning(*given)).reshape(-1))


@pytest.mark.parametrize("name", list(LANGUAGES))
def test_a_kernel_as_text(golden: Any, name: str) -> None:
    kernels = {case: parse_kernel(text) for case, (text, _, _) in CASES.items()}
    golden("\n\n".join(write_kernel(kernel, case, LANGUAGES[name]).text for case, kernel in kernels.items()))


EVERY = """\
kernel every(a: f32[1], x: f32[{n}], mut y: f32[{n}]):
    v0 = a[0]
    for i in {rows}:
        for j in {columns}:
            v1 = x[{columns}*i + j]
            v2 = v0 * v1
            y[{columns}*i + j] = v2
"""
TURNED = """\
kernel turned(x: f32[12], mut y: f32[12]):
    for i in 4:
        for j in 3:
            v0 = x[3*i + j]
            y[4*j + i] = v0
"""
SUMS = """\
kernel sums(x: f32[1280], mut y: f32[2]):
    v0 = f32(0.0)
    for i in 2:
        for k in 640:
            v1 = x[640*i + k]
            fold v2 = add(v1) from v0
        y[i] = v2
"""


def beside() -> KernelsBeside:
    """Kernels of every kind beside each other, three of them equal but for the sizes and shapes of their arrays."""
    every = [EVERY.format(n=n, rows=rows, columns=n // rows) for n, rows in ((130, 1), (64, 8), (6, 3))]
    alone = parse_kernel(TURNED)
    return KernelsBeside((alone, *map(parse_kernel, every), share_loops(parse_kernel(SUMS)), alone))


def test_kernels_beside_each_other_compute_what_each_computes_alone(device: str) -> None:
    card = CardKernels([beside()], device)
    found = [random_array(b, i) for i, b in enumerate(beside().buffers)]
    wanted = [a.copy() for a in found]
    at = 0
    for kernel in beside().kernels:
        interpret.run_kernel(kernel, wanted[at : at + len(kernel.buffers)])
        at += len(kernel.buffers)
    card.run(0, found)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


TURNED_BY_GROUPS = """\
kernel turned(x: {dtype}[{n}], mut y: {dtype}[{n}]):
    shared s: {dtype}[{size}]
    shared r: {dtype}[{size}]
    for g in {groups}:
        for j in 2 thread:
            for i in {half} thread:
                v0 = x[{size}*g + {half}*j + i]
                s[{half}*j + i] = v0
                r[{half}*j + i] = v0
                barrier
                v1 = s[-{half}*j - i + {last}]
                v2 = r[{half}*j + i]
                v3 = v1 + v2
                y[{size}*g + {half}*j + i] = v3
"""
"""Workgroups of any size, whose threads read elements of shared memory that other threads have stored."""


def turned_by_groups(size: int, groups: int, dtype: str) -> Kernel:
    return parse_kernel(
        TURNED_BY_GROUPS.format(size=size, half=size // 2, last=size - 1, groups=groups, n=size * groups, dtype=dtype)
    )


def test_workgroups_of_one_size_are_beside_each_other(device: str) -> None:
    """The kernels use shared memory in turn: its size is that of one of them, for each dtype."""
    kernels = [turned_by_groups(128, groups, dtype) for groups, dtype in ((3, "f32"), (5, "f32"), (2, "i32"))]
    whole = KernelsBeside(tuple(kernels))
    assert [b.size for b in whole.scratch] == [128] * 4 and whole.items == 128
    card = CardKernels([whole], device)
    found = [np.arange(b.size, dtype=b.dtype) + i for i, b in enumerate(whole.buffers)]
    wanted = [a.copy() for a in found]
    for n, kernel in enumerate(kernels):
        interpret.run_kernel(kernel, wanted[2 * n : 2 * n + 2])
    card.run(0, found)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)
    places = [[MemRef(0, 10**4 * (2 * n + i)) for i in (0, 1)] for n in range(3)]
    parts = [CardPart(kernel, tuple(refs)) for kernel, refs in zip(kernels, places, strict=True)]
    assert len(order_launches(parts, 60)) == 1 and len(order_launches(parts, 60, shared=2047)) == 2
    other = CardPart(turned_by_groups(256, 2, "f32"), (MemRef(0, 10**6), MemRef(0, 2 * 10**6)))
    assert len(order_launches([*parts, other], 60)) == 2


def random_array(buffer: Buffer, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1, 2, buffer.size).astype(buffer.dtype)


@pytest.mark.parametrize("name", list(LANGUAGES))
def test_kernels_beside_each_other_as_text(golden: Any, name: str) -> None:
    golden(write_kernel(beside(), "beside", LANGUAGES[name]).text)


def test_shapes_do_not_matter_to_what_is_done_at_each_element() -> None:
    flat = [flat_kernel(parse_kernel(EVERY.format(n=n, rows=r, columns=n // r))) for n, r in ((64, 8), (6, 3))]
    assert [f and f.points for f in flat] == [64, 6] and len({f and f.text for f in flat}) == 1
    assert flat_kernel(parse_kernel(TURNED)) is None and flat_kernel(parse_kernel(SUMS)) is None


SWAPPED = """\
kernel swapped(x: f32[6], mut y: f32[6], mut n: i64[3]):
    v0 = f32(0.0)
    v1 = f32(1.0)
    v2 = i64(2)
    for g in 3:
        for i in 2 ordered:
            carry v3 from v0
            carry v4 from v1
            carry v5 from v2
            v6 = x[2*g + i]
            v7 = v3 + v6
            v8 = v5 + v2
            next v3 = v7, after v9
            next v4 = v3, after v10
            next v5 = v8, after v11
        y[2*g] = v9
        y[2*g + 1] = v10
        n[g] = v11
"""
"""Loop-carried values, two of which are exchanged in every step."""


def test_values_that_change_places_as_text(golden: Any) -> None:
    kernel = parse_kernel(SWAPPED)
    golden("\n\n".join(write_kernel(kernel, "swapped", language).text for language in LANGUAGES.values()))


def test_values_that_change_places(device: str) -> None:
    kernel = parse_kernel(SWAPPED)
    wanted = random_arrays(kernel, 0)
    found = [a.copy() for a in wanted]
    interpret.run_kernel(kernel, wanted)
    CardKernels([kernel], device).run(0, found)
    assert all(agree(x, y) for x, y in zip(found, wanted, strict=True))


# Programs.

SAMPLED = ("floor_divide", "contract", "max", "scatter", "random_bits", "cumsum", "solve")
"""Primitives whose samples run here; `wholestep audit opencl` and `webgpu` run those of all."""
REFUSED = ("solve",)


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_of_primitives(name: str, device: str) -> None:
    primitive = REGISTRY[name]
    samples = on_cards.samples_for_device(primitive, device)
    graph, args = together(primitive, samples)
    if name in REFUSED:
        with pytest.raises(UnsupportedError, match=f"{name}|getrf|gesv"):
            compile_for_device(graph, (), device)
        return
    found, exact = compile_for_device(graph, (), device)(list(args)), in_double(primitive, samples)
    for i, (y, z) in enumerate(zip(found, reference(graph, args), strict=True)):
        eps = eps_of([type_of(z)]) if exact is not None else laws.coarsest_eps(graph)
        assert (y.shape, y.dtype) == (z.shape, z.dtype)
        assert not off(y, z, eps) or (exact is not None and not off(y, exact[i], eps)), f"output {i}: {y!r}\n{z!r}"


def test_scatters_have_the_bits_of_numpy(device: str) -> None:
    drawn = [draw_scatter(seed) for seed in range(24)]
    doubled = [i for i, (_, arrays) in enumerate(drawn) if device == "webgpu" and arrays[0].dtype == np.float64]
    drawn = [case for i, case in enumerate(drawn) if i not in doubled]
    given = [a for _, arrays in drawn for a in arrays]

    def all_of_them(*xs: Any) -> list[Any]:
        left, out = iter(xs), []
        for graph, arrays in drawn:
            out += inline(graph, [next(left) for _ in arrays])
        return out

    program, _ = build(all_of_them, [type_of(a) for a in given])
    found = compile_for_device(program, (), device)(given)
    for (graph, arrays), y in zip(drawn, found, strict=True):
        np.testing.assert_array_equal(y, in_order(graph, arrays), err_msg=str(graph))


def test_many_places_of_a_large_table_on_a_card(device: str) -> None:
    rng = np.random.default_rng(0)
    table, u = np.zeros((400, 3), "f"), rng.normal(size=(9000, 3)).astype("f")
    ids = rng.integers(-400, 400, 9000).astype(np.int32)

    def summed(table: Any, u: Any, ids: Any) -> Any:
        table = table.copy()
        np.add.at(table, ids, u)  # this line
        last = np.zeros_like(table)
        last[ids] = u
        return table, last

    wanted, found = summed(table, u, ids), ws.jit(summed, device=device)(table, u, ids)
    for x, y in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(x, y)
    for wrong in (400, -401):
        with pytest.raises(
            BoundsError, match=rf"index {wrong} is out of bounds for axis 0 with size 400\n.*# this line"
        ):
            ws.jit(summed, device=device)(table, u, np.where(np.arange(9000) == 7, wrong, ids))


def test_rows_of_a_table_are_updated_alone_on_a_card(device: str) -> None:
    rng = np.random.default_rng(0)
    params = {"table": rng.normal(size=(40_000, 32)).astype("f"), "w": rng.normal(size=(32, 3)).astype("f")}
    batch = {"x": rng.integers(-40, 40, (4, 16)).astype("i4"), "y": rng.integers(0, 3, (4, 16))}

    def lookup(params: Any, batch: Any) -> Any:
        return ws.nn.cross_entropy(params["table"][batch["x"]] @ params["w"], batch["y"])

    here, there = [
        ws.compile(lookup, params, optimizer=ws.optim.adam(1e-2, lazy=["table"]), batch=batch, device=d)
        for d in ("cpu", device)
    ]
    for _ in range(3):
        np.testing.assert_allclose(there(batch).loss, here(batch).loss, rtol=1e-5)
    assert "64 of 40,000 rows are updated" in there.explain()
    np.testing.assert_allclose(there.params["table"], here.params["table"], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(there.params["table"])[40:-40], params["table"][40:-40])
    names = [line.split(":")[0].strip() for line in there.explain().splitlines() if line.startswith("  ")]
    assert names.count("collect") == 3 and names.count("run_starts") == 1  # one for the table and one for each moment


def test_the_audit_counts_primitives_and_finds_numbers_that_are_wrong(device: str) -> None:
    found = on_cards.audit(device)(2, 5)
    assert found["failures"] == 0 and found["checks"]["primitives"] == 2
    seen = Seen()
    on_cards.compare("f", np.array([1.0, 1.5]), np.ones(2), 2**-52, seen)
    on_cards.compare("g", np.array([1, 2]), np.ones(2, np.int64), 2**-52, seen)
    on_cards.compare("h", np.array([1 + 2**-52]), np.ones(1), 2**-52, seen)
    assert [failure[0] for failure in seen.failures] == ["f", "g"]


RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(5, 3)).astype("f"), "b": np.zeros(3, "f")}
DATA = {"x": RNG.normal(size=(24, 5)).astype("f"), "y": RNG.integers(0, 3, 24)}
BATCH = {name: x[:8] for name, x in DATA.items()}


def scores(params: Any, x: Any) -> Any:
    return np.tanh(x @ params["w"] + params["b"])


def loss(params: Any, batch: Any) -> Any:
    return -np.mean(scores(params, batch["x"])[np.arange(8), batch["y"]])  # this line


def made(device: str) -> Any:
    return ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH, device=device, key=1)


def test_a_step_on_a_card(tmp_path: Path, device: str) -> None:
    here, there = made("cpu"), made(device)
    for _ in range(20):
        assert there(BATCH).loss == pytest.approx(float(here(BATCH).loss), rel=1e-6)
    assert MARKS[device] in there.source() and there.cost().flops > 0 and there.memory.total > 0

    predictions = [step.attach(lambda params, batch: scores(params, batch["x"]))(DATA) for step in (here, there)]
    np.testing.assert_allclose(*predictions, rtol=1e-5, atol=1e-6)

    there.save(tmp_path / "a.safetensors")
    here.load(tmp_path / "a.safetensors")
    pairs = zip(ws.tree.leaves(here.state), ws.tree.leaves(there.state), strict=True)
    assert all(x.tobytes() == y.tobytes() for x, y in pairs)

    for step in (here, there):
        step.set(lr=1e-3)
    results = [step.run(DATA, epochs=2, batch_size=8).losses for step in (here, there)]
    np.testing.assert_allclose(*results, rtol=1e-6)

    before = [x.tobytes() for x in ws.tree.leaves(there.state)]
    with pytest.raises(BoundsError, match=r"index 7 is out of bounds for axis 1 with size 3\n.*# this line"):
        there({**BATCH, "y": np.full(8, 7)})
    assert before == [x.tobytes() for x in ws.tree.leaves(there.state)]


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"captures": "mean"},
    "microbatch": {"microbatch": 4},
    "bfloat16": {"precision": "bfloat16"},
    "float16 with a loss scale": {"precision": "float16"},
    "budget": {"memory_budget": "100%", "captures": "mean"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_options_of_a_step_are_those_of_the_cpu(options: dict[str, Any], device: str) -> None:
    def mean(params: Any, batch: Any) -> Any:
        found = scores(params, batch["x"])
        ws.capture("mean", np.mean(found))
        return -np.mean(found[np.arange(len(batch["y"])), batch["y"]])

    here, there = [
        ws.compile(mean, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH, device=d, **options)
        for d in ("cpu", device)
    ]
    wrong = {**BATCH, "x": np.full_like(BATCH["x"], np.nan)}
    for batch in (BATCH, wrong, BATCH):
        results = here(batch), there(batch)
        rtol = 0.02 if "precision" in options else 1e-6
        np.testing.assert_allclose(results[0].loss, results[1].loss, rtol=rtol)
        if "captures" in options:
            np.testing.assert_allclose(*[result.captures["mean"] for result in results], rtol=1e-5, atol=1e-6)
        assert results[0].skipped == results[1].skipped == (batch is wrong)
    assert here.skipped == there.skipped == 1
    there.reset()
    there(BATCH)
    assert "agrees with the reference" in str(there.verify(BATCH))


def test_sums_of_a_workgroup_beside_other_kernels_are_right_where_compilers_optimize(device: str) -> None:
    rng = np.random.default_rng(0)
    k = (rng.normal(size=(8, 8, 3, 3)) / 30).astype(np.float32)
    x = rng.normal(size=(4, 8, 9, 9)).astype(np.float32)

    def convolved(x: Any, k: Any) -> Any:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.einsum("nchwij,ocij->nohw", windows, k)

    gradient = ws.grad(lambda k, x: np.mean(convolved(np.maximum(convolved(x, k), 0), k) ** 2))
    wanted, there = ws.jit(gradient)(k, x), ws.jit(gradient, device=device)
    for _ in range(5):  # repeated, since reads of unwritten memory vary
        np.testing.assert_allclose(there(k, x), wanted, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("draw", [ws.random.normal, ws.random.gumbel])
def test_random_numbers_are_those_of_the_cpu(draw: Any, device: str) -> None:
    def drawn(key: Any) -> Any:
        return draw(key, shape=(200,))

    found, wanted = [ws.jit(drawn, device=d)(ws.random.key(3)) for d in (device, "cpu")]
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


FUNCTIONS = ("ndtri", "erfinv", "digamma", "logit", "i0e", "ellipk")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_functions_of_float32_are_formulas(name: str, device: str) -> None:
    x = np.linspace(0.05, 0.95, 50).astype("f")
    found, wanted = [ws.jit(getattr(ws.scipy.special, name), device=d)(x) for d in (device, "cpu")]
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def factor(a: Any) -> Any:
    return np.linalg.cholesky(a)  # this line


def gamma(x: Any) -> Any:
    return ws.scipy.special.gammaln(x)  # this line


@pytest.mark.parametrize(("function", "name"), [(factor, "cholesky"), (gamma, "gammaln")])
def test_what_libraries_compute_is_refused_by_name_and_line(function: Any, name: str, device: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"{name} of f32\[7, 7\](.|\n)*# this line"):
        ws.jit(function, device=device)(np.eye(7, dtype="f"))


def test_small_matrices_are_unrolled(device: str) -> None:
    """Cards without float64 compute in float32."""

    def distance(a: Any, b: Any) -> Any:
        half = ws.scipy.linalg.solve_triangular(np.linalg.cholesky(a), b, lower=True)
        return np.sum(half * half) + np.sum(np.linalg.solve(a, b)) + np.sum(np.linalg.slogdet(a)[1])

    drawn = np.random.default_rng(0).normal(size=(2, 20, 3, 3)).astype("f")
    a, b = drawn[0] @ drawn[0].swapaxes(1, 2) + np.eye(3, dtype="f"), drawn[1]
    found, wanted = [ws.jit(ws.value_and_grad(distance), device=d)(a, b) for d in (device, "cpu")]
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-4, atol=1e-4)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        ws.jit(np.linalg.inv, device=device)(np.zeros((4, 3, 3), "f"))


def test_float64_is_refused_where_a_card_has_none() -> None:
    graph = ws.jit(lambda x: np.sin(x)).lower(np.ones(3))  # this line
    plan = lower_program(run_passes(graph, ALL_PASSES), OPENCL)
    check_program(plan, OPENCL, doubles=True)
    with pytest.raises(UnsupportedError, match=r"'opencl': sin of f64\[3\] computes with float64(.|\n)*# this line"):
        check_program(plan, OPENCL, doubles=False)


@pytest.mark.parametrize(
    ("name", "package", "driver"),
    [
        ("opencl", "pyopencl", opencl.opencl_driver),
        ("webgpu", "wgpu", webgpu.webgpu_driver),
        ("cuda", "cuda.bindings", cuda.cuda_driver),
    ],
)
def test_a_missing_package_is_an_error_that_says_what_to_install(
    name: str, package: str, driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    driver.cache_clear()
    with pytest.raises(MissingExtraError, match=rf"device '{name}'(.|\n)*pip install 'wholestep\[{name}\]'"):
        driver()


def test_a_device_whose_compiler_takes_nothing_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    if missing("opencl"):
        pytest.skip(missing("opencl"))
    monkeypatch.setattr(opencl, "TRIAL", "no kernel")
    monkeypatch.setattr(opencl, "opencl_driver", opencl.opencl_driver.__wrapped__)
    with pytest.raises(DeviceError, match=r"no device was found that runs kernels: .*error:(.|\n)*PoCL"):
        opencl.opencl_driver()

"""NVIDIA cards without one: NVRTC compiles kernels, and the launcher makes the calls that it should, in their order."""

from __future__ import annotations

import doctest
import gc
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import config, forks
from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.target import CUDA
from wholestep.compiler import backends
from wholestep.compiler.devices import compile_for_device
from wholestep.compiler.driver import plan_graph
from wholestep.errors import DeviceError, DtypeError, ForkedError, MissingExtraError, ParameterError
from wholestep.lower.program.steps import ForLoop, Switch
from wholestep.runtime.cache import code_cache
from wholestep.runtime.gpu import modules, transfers
from wholestep.runtime.gpu.card_program import CardModule
from wholestep.runtime.gpu.card_steps import NumberedLaunch
from wholestep.runtime.gpu.cuda import CudaDriver
from wholestep.runtime.gpu.driver import KernelShape, MemoryPlace
from wholestep.runtime.gpu.memory import CardMemory
from wholestep.runtime.gpu.nvrtc import NVRTC, MachineCode
from wholestep.runtime.gpu.transfers import BatchTransfers
from wholestep_tools.audit.campaign import Seen
from wholestep_tools.audit.correctness import cuda_kernels
from wholestep_tools.audit.correctness.kernel_use import KernelUse, compiled_kernels, kernels_used
from wholestep_tools.drawn import cuda_cpp
from wholestep_tools.drawn.cuda_card import CardCalls, TextCompiler, card_without_one, offered

NEEDS_GXX = pytest.mark.skipif(cuda_cpp.COMPILER is None, reason="kernels are compiled by g++ on Linux; not installed")


# NVRTC.


@pytest.fixture(scope="module")
def compiler() -> NVRTC:
    try:
        return NVRTC()
    except MissingExtraError as error:
        pytest.skip(f"{error.args[0].splitlines()[0]}: NVRTC is the extra [cuda]; not installed")


@pytest.mark.parametrize("name", ["W1", "W2", "W4"])
def test_all_kernels_of_a_step_compile_and_spill_nothing(name: str, compiler: NVRTC) -> None:
    seen = Seen()
    row, each = cuda_kernels.workload(compiler, name, seen)
    assert not seen.failures and row["kernels"] == len(each) > 1
    assert all(0 < registers <= 255 for kernel in each for registers in kernel[::2])


@pytest.mark.parametrize("name", ["cast", "random_bits", "floor_divide", "sort", "contract"])
def test_all_kernels_of_the_laws_of_a_primitive_compile(name: str, compiler: NVRTC) -> None:
    seen = Seen()
    cuda_kernels.laws(compiler, [name], 0, seen)
    assert not seen.failures and seen.checks["kernels of primitives"]


def test_a_module_that_does_not_compile_is_found(compiler: NVRTC, monkeypatch: Any) -> None:
    monkeypatch.setattr("wholestep.backends.gpu.cuda.PRELUDE", "")
    monkeypatch.setattr(cuda_kernels, "SMALL", cuda_kernels.SMALL[:1])
    found = cuda_kernels.audit(1, 1)
    assert found["failures"] and "NVRTC does not take the kernels" in found["examples"][0]


def test_what_nvrtc_does_not_take_is_an_error_with_its_log(compiler: NVRTC) -> None:
    with pytest.raises(DeviceError, match=r"NVRTC does not take the kernels(.|\n)*kernels.cu\(1\): error"):
        compiler.compile("no kernel", 90)
    with pytest.raises(DeviceError, match=r"compute capabilities \d+ to \d+, not 10(.|\n)*pip install -U"):
        compiler.compile("", 10)


def test_an_installation_without_nvrtc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        def nvrtcVersion(self) -> None:
            raise RuntimeError("libnvrtc.so is not there\nwas looked for")

    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(nvrtc=Absent()))
    with pytest.raises(MissingExtraError, match=r"libnvrtc.so is not there\n(.|\n)*pip install 'wholestep\[cuda\]'"):
        NVRTC()


def test_the_log_of_a_kernel_that_spills_is_read() -> None:
    log = """\
ptxas info    : Compiling entry function 'k26' for 'sm_80'
ptxas info    : Function properties for k26
ptxas         .     24 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 48 registers, used 1 barriers, 24 bytes cumulative stack size
ptxas info    : Compiling entry function 'k0' for 'sm_80'
ptxas info    : Function properties for k0
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""
    assert kernels_used(log) == [KernelUse("k26", 48, 24, 24), KernelUse("k0", 8, 0, 0)]


@pytest.mark.parametrize("module", [modules, transfers])
def test_examples(module: Any) -> None:
    tried = doctest.testmod(module)
    assert tried.attempted and not tried.failed


# The launcher.

RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(5, 3)).astype("f"), "b": np.zeros(3, "f")}
BATCH = {"x": RNG.normal(size=(8, 5)).astype("f"), "y": RNG.normal(size=(8, 3)).astype("f")}


def loss(params: Any, batch: Any) -> Any:
    return np.mean((np.tanh(batch["x"] @ params["w"] + params["b"]) - batch["y"]) ** 2)


@pytest.fixture
def card() -> Iterator[CudaDriver]:
    found = card_without_one()
    kept = backends.BACKENDS["cuda"]
    backends.BACKENDS["cuda"] = lambda: found
    assert isinstance(found.driver, CudaDriver)
    try:
        yield found.driver
    finally:
        backends.BACKENDS["cuda"] = kept


def step_on_the_card() -> Any:
    return ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH, device="cuda")


def launches(module: CardModule, steps: Sequence[Any]) -> Iterator[str]:
    """The names of the kernels of steps, in the order in which they run."""
    for step in steps:
        if isinstance(step, NumberedLaunch):
            yield module.codes[step.kernel].name
        elif isinstance(step, ForLoop):
            for _ in range(int(step.trips)):
                yield from launches(module, step.body)
        elif isinstance(step, Switch):  # the guard's case for finite gradients
            yield from launches(module, step.cases[1])


@NEEDS_GXX
def test_a_step_makes_its_calls_in_the_order_of_the_plan(card: CudaDriver) -> None:
    step = step_on_the_card()
    card.calls.log.clear()
    step(BATCH)
    made = card.calls.names()
    first = made.index("cuMemcpyHtoDAsync")
    assert made[first : first + 4] == ["cuMemcpyHtoDAsync", "cuStreamSynchronize"] * 2, (
        "a batch is copied, and may change then"
    )
    reads = made[made.index("cuLaunchKernel") :].count("cuMemcpyDtoHAsync")
    assert made[-reads - 1 :] == [*["cuMemcpyDtoHAsync"] * reads, "cuStreamSynchronize"], "one wait for all results"
    assert reads <= 2, "results lie side by side"
    launched = [args[0].name for name, *args in card.calls.log if name == "cuLaunchKernel"]
    module = CardModule(step.plan, Cuda(), True)
    assert launched == list(launches(module, module.steps)) and launched
    assert made.count("cuMemAlloc") == 1 and "cuModuleLoadData" not in made, "the memory of a batch alone is allocated"


@NEEDS_GXX
def test_a_batch_goes_by_pinned_memory_from_the_second_call_on(card: CudaDriver) -> None:
    step = step_on_the_card()
    made = []
    for _ in range(3):
        card.calls.log.clear()
        step(BATCH)
        made.append(card.calls.names())
    assert [names.count("cuMemHostAlloc") for names in made] == [0, 1, 0]
    assert [names.count("cuMemAlloc") for names in made] == [1, 0, 0]
    assert made[2].count("cuMemcpyHtoDAsync") == 1 and made[2].count("cuStreamSynchronize") == 1
    assert made[2][0] == "cuMemcpyHtoDAsync" and made[2][-1] == "cuStreamSynchronize", "nobody waits for a batch"


@NEEDS_GXX
def test_arrays_that_fit_are_read_as_they_are_and_others_are_left_to_the_checks(card: CudaDriver) -> None:
    step = step_on_the_card()
    engine = step._engine
    before = float(step(BATCH).loss)
    found = engine.attempt({**BATCH, "x": np.asfortranarray(BATCH["x"])})
    assert found is not None and float(found.loss) < before
    unfit: list[Any] = [BATCH["x"].astype("f8"), BATCH["x"][:3], BATCH["x"].tolist(), np.ma.masked_array(BATCH["x"])]
    state = [x.tobytes() for x in ws.tree.leaves(step.state)]
    for x in unfit:
        assert engine.attempt({**BATCH, "x": x}) is None
    assert state == [x.tobytes() for x in ws.tree.leaves(step.state)]
    with pytest.raises(DtypeError):
        step({**BATCH, "x": unfit[0]})


@NEEDS_GXX
def test_arrays_of_the_card_and_of_the_host_take_turns(card: CudaDriver) -> None:
    program = compile_for_device(ws.jit(lambda x, y: x - 2 * y).lower(np.ones(3), np.ones(3)), (), "cuda")
    bound, memory = program.instance(()), CardMemory(card)
    for n in range(6):
        x, y = np.full(3, float(n)), np.arange(3.0) + n
        given = [memory.upload(a) if n >> i & 1 else a for i, a in enumerate((x, y))]
        np.testing.assert_array_equal(bound(given)[0], x - 2 * y)


def sent(card: CudaDriver, transfers: BatchTransfers, arrays: Sequence[Any]) -> list[MemoryPlace]:
    """The places of arrays that are sent; the arrays themselves are overwritten afterwards."""
    transfers.lay_out([x.size for x in arrays])
    transfers.send(arrays)
    for x in arrays:
        x[:] = 99
    return transfers.places


def test_what_was_sent_may_change_and_is_whole_though_nobody_read_in_between(card: CudaDriver) -> None:
    transfers = BatchTransfers(card)
    sizes = [(5,), (70, 3), (1,), (64, 64, 7), (70, 3)]
    places = [
        place
        for n, row in enumerate(sizes)
        for place in sent(card, transfers, [np.full(size, 10 * n + i, np.uint8) for i, size in enumerate(row)])
    ]
    found = [np.empty(size, np.uint8) for row in sizes for size in row]
    transfers.fetch(places, found)
    wanted = [np.full(size, 10 * n + i, np.uint8) for n, row in enumerate(sizes) for i, size in enumerate(row)]
    assert [x.tobytes() for x in found] == [x.tobytes() for x in wanted]
    card.calls.log.clear()
    kept = sent(card, transfers, [np.zeros(8, np.uint8)])
    assert kept and "cuStreamSynchronize" not in card.calls.names(), "all was done when it was read"


@pytest.mark.parametrize("sizes", [(1,), (700, 50), (300, 1, 0, 5000), (256, 256), (511, 1, 2048, 3)])
def test_a_large_batch_is_read_in_parts_while_it_is_copied(
    card: CudaDriver, monkeypatch: Any, sizes: tuple[int, ...]
) -> None:
    monkeypatch.setattr("wholestep.runtime.gpu.transfers.PART", 512)
    transfers = BatchTransfers(card)
    for n in range(3):
        card.calls.log.clear()
        given = [(np.arange(size) * (n + 1) % 251).astype(np.uint8) for size in sizes]
        wanted = [x.tobytes() for x in given]
        places = sent(card, transfers, given)
        found = [np.empty(size, np.uint8) for size in sizes]
        copies = [args[2] for name, *args in card.calls.log if name == "cuMemcpyHtoDAsync"]
        transfers.fetch(places, found)
        assert [x.tobytes() for x in found] == wanted
        if n:
            assert sum(copies) == transfers.layout.nbytes and len(copies) <= 1 + sum(copies) // 512


def test_large_batches_and_no_batches_go_without_pinned_memory(card: CudaDriver, monkeypatch: Any) -> None:
    monkeypatch.setattr("wholestep.runtime.gpu.transfers.MOST", 128)
    transfers = BatchTransfers(card)
    for sizes in ((), (), (129,), (100,)):
        card.calls.log.clear()
        sent(card, transfers, [np.zeros(size, np.uint8) for size in sizes])
        assert ("cuMemHostAlloc" in card.calls.names()) == (sizes == (100,))


@pytest.mark.parametrize("size", [1, 1 << 12, (1 << 12) + 1])
def test_what_is_read_is_right_by_pinned_memory_and_without(card: CudaDriver, size: int) -> None:
    given = [np.arange(n).astype(np.uint8) for n in (size, 0)]
    places = [MemoryPlace(card.allocate(x.size + 3), 3) for x in given]
    for place, x in zip(places, given, strict=True):
        card.write(place, x)
    found = [np.empty_like(x) for x in given]
    card.gather(places, found)
    assert [x.tobytes() for x in found] == [x.tobytes() for x in given]


@NEEDS_GXX
def test_steps_of_the_card_alone_are_a_graph_from_the_third_time_on(card: CudaDriver) -> None:
    expected = [float(x) for x in losses_of(ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH))]
    step = step_on_the_card()
    found = [float(step(BATCH).loss) for _ in range(2)]
    card.calls.log.clear()
    found += [float(step(BATCH).loss) for _ in range(2)]
    assert found == pytest.approx(expected, rel=1e-6)
    made = card.calls.names()
    assert "cuGraphLaunch" in made and not {"cuLaunchKernel", "cuStreamBeginCapture", "cuGraphInstantiate"} & {*made}
    assert card.calls.graphs > 0
    del step
    gc.collect()
    assert card.calls.graphs == 0


def losses_of(step: Any) -> list[float]:
    """The losses of four steps."""
    return [float(step(BATCH).loss) for _ in range(4)]


@NEEDS_GXX
def test_a_graph_is_of_the_places_that_it_was_made_with(card: CudaDriver) -> None:
    def rolled(params: Any, batch: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            return np.tanh((carry @ params["w"] + params["b"]) @ params["w"].T + x), None

        return np.mean(ws.scan(body, batch["x"][0] * 0, batch["x"])[0] ** 2)

    data = {"x": RNG.normal(size=(40, 5)).astype("f"), "y": RNG.normal(size=(40, 3)).astype("f")}
    for f in (loss, rolled):
        made = [
            ws.compile(f, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH, device=device, key=0)
            for device in ("cpu", "cuda")
        ]
        found = [[step.run(data, epochs=3, batch_size=8).losses for _ in range(3)] for step in made]
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_a_graph_copies_to_the_place_that_it_is_asked_for(card: CudaDriver) -> None:
    kept: dict[Any, Any] = {}
    source, *targets = [MemoryPlace(card.allocate(8), 0) for _ in range(3)]
    for n in range(4):
        for target in targets:
            given = np.full(8, 10 * n + targets.index(target), np.uint8)
            card.write(source, given)
            card.repeat(kept, "key", [target], partial(card.copy, target, source, 8))
            found = np.empty(8, np.uint8)
            card.read(target, found)
            assert found.tobytes() == given.tobytes()
    assert card.calls.graphs == 2


@NEEDS_GXX
def test_memory_that_is_freed_while_launches_are_captured_is_freed_after(card: CudaDriver) -> None:
    kept: dict[Any, Any] = {}
    blocks = [card.allocate(8)]
    card.repeat(kept, "key", [], lambda: None)
    card.repeat(kept, "key", [], blocks.clear)
    assert not card.calls.blocks and card.unfreed is None

    def broken() -> None:
        raise KeyboardInterrupt

    card.repeat(kept, "broken", [], lambda: None)
    with pytest.raises(KeyboardInterrupt):
        card.repeat(kept, "broken", [], broken)
    assert card.calls.captured is None and card.unfreed is None


@NEEDS_GXX
def test_the_order_of_groups_and_threads_changes_no_bit() -> None:
    losses = []
    for backward in (False, True):
        with offered(backward):
            step = step_on_the_card()
            losses.append([float(step(BATCH).loss) for _ in range(5)])
    assert losses[0] == losses[1]


@NEEDS_GXX
def test_a_module_is_compiled_in_parts_and_gives_the_same_bits(monkeypatch: Any) -> None:
    monkeypatch.setattr(modules, "EACH", 1)
    losses, loads = [], []
    for threads in (1, 3):
        with monkeypatch.context() as changed:
            changed.setenv("WHOLESTEP_CACHE", "off")
            changed.setenv("WHOLESTEP_THREADS", str(threads))
            config.reread()
            with offered() as card:
                step = step_on_the_card()
                losses.append([float(step(BATCH).loss) for _ in range(3)])
                loads.append(card.calls.names().count("cuModuleLoadData"))
                text = step.source()
        config.reread()
    assert losses[0] == losses[1] and loads[1] >= loads[0] + 2
    parts = modules.split_module(text, 3)
    names = [name for part in parts for name in modules.kernel_names(part)]
    assert len(parts) == 3 and sorted(names) == sorted(modules.kernel_names(text)) and len({*names}) == len(names)
    assert max(map(len, parts)) < len(text)
    assert modules.split_module(text, 1) == [text]


def test_each_part_of_a_module_compiles_as_it_does_in_the_whole(compiler: NVRTC, monkeypatch: Any) -> None:
    monkeypatch.setattr(modules, "EACH", 1)
    step = ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH)
    text = CardModule(plan_graph(step._engine.main.program.unit, CUDA), Cuda(), True).text
    parts = modules.split_module(text, 2)
    assert len(parts) == 2
    found = [use for part in parts for use in compiled_kernels(compiler, part, 90)]
    assert sorted(found) == sorted(compiled_kernels(compiler, text, 90))


@NEEDS_GXX
def test_memory_is_freed_when_nobody_has_it_and_its_guards_are_whole(card: CudaDriver) -> None:
    before = len(card.calls.blocks)
    step = step_on_the_card()
    step(BATCH)
    assert len(card.calls.blocks) > before
    for address in card.calls.blocks:
        card.calls.check_guards(address)
    del step
    gc.collect()
    assert len(card.calls.blocks) == before
    assert "cuModuleUnload" in card.calls.names()


def test_copies_between_places_that_overlap_go_through_other_memory(card: CudaDriver) -> None:
    block = card.allocate(100)
    given = np.arange(100, dtype=np.uint8)
    card.write(MemoryPlace(block, 0), given)
    card.copy(MemoryPlace(block, 10), MemoryPlace(block, 0), 90)
    card.copy(MemoryPlace(block, 0), MemoryPlace(block, 0), 100)
    found = np.empty(100, np.uint8)
    card.read(MemoryPlace(block, 0), found)
    assert found.tobytes() == bytes([*range(10), *range(90)])


@NEEDS_GXX
def test_a_card_that_is_full_keeps_what_it_holds(card: CudaDriver) -> None:
    step = step_on_the_card()
    expected = float(step(BATCH).loss)
    card.calls.failing["cuMemAlloc"] = "CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(DeviceError, match=r"[\d,]+ bytes: device 'cuda': .* no memory .* what it holds is kept"):
        step_on_the_card()
    card.calls.failing.clear()
    assert float(step(BATCH).loss) < expected


@NEEDS_GXX
def test_a_card_that_fails_says_that_state_may_be_lost(card: CudaDriver) -> None:
    step = step_on_the_card()
    card.calls.failing["cuStreamSynchronize"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceError, match=r"cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS(.|\n)*checkpoint"):
        step(BATCH)


def test_a_forked_child_does_not_touch_the_card_of_its_parent(card: CudaDriver, monkeypatch: Any) -> None:
    block = card.allocate(8)
    card._forked()
    with pytest.raises(ForkedError, match="CUDA"):
        card.read(MemoryPlace(block, 0), np.empty(8, np.uint8))
    monkeypatch.setattr(card, "process", 0)
    card.calls.log.clear()
    del block
    gc.collect()
    assert not card.calls.log and isinstance(card.lock, forks.Torn)


@NEEDS_GXX
def test_code_is_kept_on_disk_and_compiled_once(
    tmp_path: Path, request: Any, monkeypatch: Any, card: CudaDriver
) -> None:
    monkeypatch.setenv("WHOLESTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(code_cache, "_STARTED", time.time() + 1e9)
    code_cache.code_version.cache_clear()
    config.reread()
    request.addfinalizer(code_cache.code_version.cache_clear)
    request.addfinalizer(config.reread)
    texts: list[str] = []
    compile_text = TextCompiler.compile

    def counted(self: TextCompiler, text: str, architecture: int) -> MachineCode:
        texts.append(text)
        return compile_text(self, text, architecture)

    monkeypatch.setattr(TextCompiler, "compile", counted)
    first = step_on_the_card()
    compiled = len(texts)
    second = step_on_the_card()
    assert 0 < compiled == len(texts)
    assert float(first(BATCH).loss) == float(second(BATCH).loss)
    monkeypatch.setattr(TextCompiler, "version", (0, 1))
    step_on_the_card()
    assert len(texts) == 2 * compiled, "another compiler makes other code"


def test_cards_have_numbers() -> None:
    with pytest.raises(DeviceError, match=r"'cuda:2': the driver has 2 cards(.|\n)*'cuda:0' to 'cuda:1'"):
        CudaDriver(CardCalls(), TextCompiler(), 2)
    assert CudaDriver(CardCalls(), TextCompiler(), 1).context == ("context", ("card", 1))
    for name in ("cuda:x", "cuda:", "opencl:1"):
        with pytest.raises(ParameterError, match=f"no device is called '{name}'"):
            ws.jit(np.sin, device=name)(np.ones(2))


@NEEDS_GXX
@pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="the bindings are the extra [cuda]; not installed")
def test_the_bindings_of_cuda_take_the_calls_as_they_are_made(tmp_path: Path) -> None:
    """The real bindings, on a library in the place of the driver's."""
    here = Path(__file__).parent
    library = [str(cuda_cpp.COMPILER), "-x", "c", "-O1", "-w", "-shared", "-fPIC", str(here / "libcuda.c")]
    subprocess.run([*library, "-o", str(tmp_path / "libcuda.so.1"), "-ldl"], check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(here / "on_bindings.py"), "W4"], env=env, text=True, capture_output=True, check=False
    )
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert found["card"] == "libcuda.c" and found["difference"] < 1e-6
    assert found["inside"] > 0, "events of the card have times"
    launched, destroyed = found["graphs"]
    assert launched == 19 and destroyed > 0  # the first step is no graph yet
    assert "CUDA_ERROR_OUT_OF_MEMORY; what it holds is kept" in found["full"]


# The stand-in for a card finds the faults that it checks for.


@NEEDS_GXX
def test_faults_of_a_launcher_are_found() -> None:
    text = '\nextern "C" __global__ void __launch_bounds__(2)\nk0(const float *b0, float *b1) {\n    BODY\n}'
    card = card_without_one().driver
    block = card.allocate(16)
    place = MemoryPlace(block, 0)

    def launched(body: str, *places: MemoryPlace, threads: int = 2) -> None:
        (kernel,) = card.build(card.compile(text.replace("BODY", body)), [KernelShape("k0", 1, threads)])
        card.launch(kernel, places)
        card.ask("cuStreamSynchronize", card.stream)

    launched("b1[0] = 1.0f;", place, place)
    with pytest.raises(AssertionError, match="k0"):
        launched("b1[0] = 1.0f;", place)
    with pytest.raises(AssertionError, match="of 16"):
        launched("b1[0] = 1.0f;", place, MemoryPlace(block, 17))
    with pytest.raises(AssertionError):
        launched("b1[0] = 1.0f;", place, place, threads=4)
    with pytest.raises(AssertionError, match="only some threads reach"):
        launched("if (threadIdx.x) { __syncthreads(); }", place, place)
    launched("b1[4] = 1.0f;", place, place)
    with pytest.raises(AssertionError, match="beside an allocation"):
        card.calls.check_guards(block.handle)
    card.calls.blocks[block.handle][1][:] = 0xA5

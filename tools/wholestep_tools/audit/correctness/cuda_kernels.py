"""`wholestep audit cudakernels`: NVRTC compiles all kernels for three architectures, and no kernel of a step spills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.backends.gpu.limits import check_program
from wholestep.backends.gpu.target import CUDA
from wholestep.compiler.driver import plan_graph
from wholestep.errors import DeviceError, UnsupportedError
from wholestep.ir.graph import Graph
from wholestep.kernel.lang import Kernel
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.program.program import LoweredProgram
from wholestep.primitives.family import REGISTRY, Primitive
from wholestep.runtime.gpu.backend import SPECIAL_FUNCTIONS
from wholestep.runtime.gpu.card_program import CardModule
from wholestep.runtime.gpu.nvrtc import NVRTC, cuda_compiler
from wholestep.testing.laws import derived
from wholestep.testing.primitives import graph_of, samples_of
from wholestep.train.step.native_export import step_plan
from wholestep.transforms.vmap import Batching
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.correctness.kernel_use import KernelUse, compiled_kernels
from wholestep_tools.audit.record import record
from wholestep_tools.bench.peers.wholestep import FUNCTIONS, trained
from wholestep_tools.bench.spec import SMALL, WORKLOADS

CLAIM = "NVRTC compiles every kernel of the laws and of the workloads, and no kernel of a workload spills registers"
TARGET = replace(CUDA, functions=SPECIAL_FUNCTIONS)
AT_ONCE = 64
"""The kernels of primitives that are compiled as one module."""


def architectures(compiler: NVRTC) -> list[int]:
    """The compute capabilities that kernels are compiled for: 8.0, 9.0, and the newest that the compiler knows."""
    return [80, 90, compiler.architectures[-1]]


def compiled(compiler: NVRTC, text: str, seen: Seen) -> dict[int, tuple[KernelUse, ...]]:
    """The resources of the kernels of a module on each architecture; none of one on which it does not compile."""
    found: dict[int, tuple[KernelUse, ...]] = {}
    for architecture in architectures(compiler):
        try:
            found[architecture] = compiled_kernels(compiler, text, architecture)
        except DeviceError as error:
            seen.failures.append(f"sm_{architecture}: {error}\n{text}"[:2000])
    return found


# Workloads.


def workload_plan(name: str) -> LoweredProgram:
    """A workload of `wholestep bench` as it is lowered for a card of NVIDIA's."""
    params, batch = WORKLOADS[name].data()
    if name in FUNCTIONS:
        graph = ws.jit(FUNCTIONS[name]).lower(params, batch)
        return plan_graph(CompilationUnit(graph, ()).checked(), TARGET)
    return step_plan(trained(name, params, batch, 1).step._engine, "cuda", TARGET).plan


def workload(compiler: NVRTC, name: str, seen: Seen) -> tuple[dict[str, int], list[list[int]]]:
    """The greatest numbers of a workload, and of each kernel its registers and spilled bytes by architecture."""
    module = CardModule(workload_plan(name), Cuda(), True)
    found = compiled(compiler, module.text, seen)
    seen.count("kernels of workloads", len(module.codes))
    row = {"kernels": len(module.codes)}
    for architecture, kernels in found.items():
        seen.right(len(kernels) == len(module.codes), f"{name}: sm_{architecture}: {len(kernels)} kernels in the log")
        spilled = sum(k.spilled for k in kernels)
        seen.right(not spilled, f"{name}: sm_{architecture}: {spilled} bytes are spilled")
        row[f"registers of a thread, sm_{architecture}"] = max(k.registers for k in kernels)
        row[f"bytes spilled, sm_{architecture}"] = spilled
    each = [[number for k in use for number in (k.registers, k.spilled)] for use in zip(*found.values(), strict=True)]
    return row, each


# Primitives.


def law_graphs(primitive: Primitive, seed: int) -> Iterator[Graph]:
    """The graphs that the laws of a primitive run: its samples, their derivatives in both modes, and batches of two."""
    for sample in samples_of(primitive, seed):
        graph = graph_of(primitive, sample)
        yield graph
        yield from derived(graph)
        if graph.inputs:
            yield Batching(2).graph(graph, (True,) * len(graph.inputs))[0]


def kernels_of_laws(names: Sequence[str], seed: int, seen: Seen) -> dict[str, Kernel]:
    """The kernels of the laws of primitives by their text in CUDA C++, each once."""
    found: dict[str, Kernel] = {}
    for name in names:
        seen.count("primitives")
        for graph in law_graphs(REGISTRY[name], seed):
            try:
                plan = plan_graph(CompilationUnit(graph, ()).checked(), TARGET)
                check_program(plan, TARGET, True)
            except UnsupportedError:
                seen.count("programs refused: a library of the host")
                continue
            seen.count("programs of primitives")
            found |= {write_kernel(kernel, "kernel", Cuda()).text: kernel for kernel in plan.kernels()}
    return found


def laws(compiler: NVRTC, names: Sequence[str], seed: int, seen: Seen) -> None:
    """Compile the kernels of the laws of primitives."""
    kernels = list(kernels_of_laws(names, seed, seen).values())
    seen.count("kernels of primitives", len(kernels))
    spilling = set[int]()
    for start in range(0, len(kernels), AT_ONCE):
        part = [write_kernel(k, f"k{i}", Cuda()).text for i, k in enumerate(kernels[start : start + AT_ONCE])]
        found = compiled(compiler, Cuda().module(part), seen)
        spilling |= {start + i for use in found.values() for i, k in enumerate(use) if k.spilled}
    seen.count("of them spill on an architecture", len(spilling))


def audit(count: int, seed: int) -> dict[str, Any]:
    """All workloads, and the laws of so many primitives, drawn without repetition; the record of it."""
    seen, compiler = Seen(), cuda_compiler()
    found = {name: workload(compiler, name, seen) for name in SMALL}
    names = [name for name, p in sorted(REGISTRY.items()) if not p.nested and not p.collective]
    drawn = sorted(np.random.default_rng(seed).permutation(len(names))[:count])
    laws(compiler, [names[i] for i in drawn], seed, seen)
    measured: Mapping[str, Mapping[str, int]] = {name: row for name, (row, _) in found.items()}
    return record(
        "cudakernels",
        CLAIM,
        dict(sorted(seen.checks.items())),
        seen.failures,
        seed=seed,
        compiler=f"NVRTC {compiler.version_name}",
        measured=measured,
        kernels={name: each for name, (_, each) in found.items()},
    )


AUDIT = Audit(
    "cudakernels",
    audit,
    1_000,
    "compile all kernels for NVIDIA cards by NVRTC, without a card",
    """\
The workloads of `wholestep bench`, and samples of primitives, their derivatives in both modes and batches of them, are
lowered for CUDA. NVRTC compiles each kernel for compute capabilities 8.0, 9.0 and the newest that it knows, and its log
says what registers a kernel takes and what it spills. Nothing runs. The record has the registers and the spilled bytes
of each kernel of a workload, in the order of the architectures.""",
)

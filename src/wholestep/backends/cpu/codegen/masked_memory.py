"""Vector loads, stores, gathers and scatters, with masks."""

from __future__ import annotations

from wholestep.backends.cpu.codegen.llvm_types import LlvmType, lane_mask, simd_type
from wholestep.backends.cpu.codegen.writer import FunctionWriter

ALL_LANES = "splat (i1 true)"


def active_lanes(w: FunctionWriter, lanes: int, live: int, guard: str | None, backwards: bool = False) -> str | None:
    """Return the mask of an access: the first (or last) `live` lanes where the guard holds; None for all lanes."""
    tail = lane_mask(lanes, live, backwards) if live < lanes else None
    if guard is None or tail is None:
        return tail if guard is None else guard
    return w.let(f"and <{lanes} x i1> {guard}, {tail}")


def masked_load(w: FunctionWriter, form: LlvmType, lanes: int, pointer: str, on: str | None) -> str:
    """Load neighbouring elements; inactive lanes are 0."""
    kind, truth = simd_type(form.memory, lanes), simd_type("i1", lanes)
    if on is None:
        return w.let(f"load {kind}, ptr {pointer}, align {form.size}")
    function = f"llvm.masked.load.v{lanes}{intrinsic_suffix(form)}.p0"
    arguments = f"ptr {pointer}, i32 {form.size}, {truth} {on}, {kind} zeroinitializer"
    return w.call(kind, function, f"ptr, i32, {truth}, {kind}", arguments)


def prefetch(w: FunctionWriter, pointer: str) -> None:
    """Ask for a place that is read later; it may lie outside of every buffer. It is kept in the second cache."""
    w.run("llvm.prefetch.p0", "ptr, i32, i32, i32", f"ptr {pointer}, i32 0, i32 2, i32 1")


def masked_store(w: FunctionWriter, form: LlvmType, lanes: int, pointer: str, x: str, on: str | None) -> None:
    """Store the active lanes to neighbouring elements."""
    kind, truth = simd_type(form.memory, lanes), simd_type("i1", lanes)
    if on is None:
        w.do(f"store {kind} {x}, ptr {pointer}, align {form.size}")
        return
    arguments = f"{kind} {x}, ptr {pointer}, i32 {form.size}, {truth} {on}"
    w.run(f"llvm.masked.store.v{lanes}{intrinsic_suffix(form)}.p0", f"{kind}, ptr, i32, {truth}", arguments)


def gather_lanes(w: FunctionWriter, form: LlvmType, lanes: int, pointers: str, on: str | None) -> str:
    """Gather elements by pointers; inactive lanes are 0."""
    kind, truth, where = simd_type(form.memory, lanes), simd_type("i1", lanes), simd_type("ptr", lanes)
    function = f"llvm.masked.gather.v{lanes}{intrinsic_suffix(form)}.v{lanes}p0"
    arguments = f"{where} {pointers}, i32 {form.size}, {truth} {on or ALL_LANES}, {kind} zeroinitializer"
    return w.call(kind, function, f"{where}, i32, {truth}, {kind}", arguments)


def scatter_lanes(w: FunctionWriter, form: LlvmType, lanes: int, pointers: str, x: str, on: str | None) -> None:
    """Scatter the active lanes by pointers."""
    kind, truth, where = simd_type(form.memory, lanes), simd_type("i1", lanes), simd_type("ptr", lanes)
    function = f"llvm.masked.scatter.v{lanes}{intrinsic_suffix(form)}.v{lanes}p0"
    arguments = f"{kind} {x}, {where} {pointers}, i32 {form.size}, {truth} {on or ALL_LANES}"
    w.run(function, f"{kind}, {where}, i32, {truth}", arguments)


def reverse_lanes(w: FunctionWriter, element: str, lanes: int, x: str) -> str:
    """Reverse the lanes of a vector."""
    return w.shuffle(simd_type(element, lanes), x, "poison", *range(lanes - 1, -1, -1))


def intrinsic_suffix(form: LlvmType) -> str:
    """Return the spelling of a memory type in the names of intrinsics."""
    return {"float": "f32", "double": "f64", "half": "f16"}.get(form.memory, form.memory)

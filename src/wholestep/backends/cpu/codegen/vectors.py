"""Vectors between registers and memory, with masks: the instructions themselves."""

from __future__ import annotations

from wholestep.backends.cpu.codegen.forms import Form, mask, typed
from wholestep.backends.cpu.codegen.writer import Writer

ALL = "splat (i1 true)"


def allowed(w: Writer, lanes: int, live: int, guard: str | None, backwards: bool = False) -> str | None:
    """The lanes that may touch memory: the first (or last) `live` ones where the guard holds; None where all may."""
    tail = mask(lanes, live, backwards) if live < lanes else None
    if guard is None or tail is None:
        return tail if guard is None else guard
    return w.let(f"and <{lanes} x i1> {guard}, {tail}")


def load(w: Writer, form: Form, lanes: int, pointer: str, on: str | None) -> str:
    """Neighbouring elements; 0 in lanes that are not on."""
    kind, truth = typed(form.memory, lanes), typed("i1", lanes)
    if on is None:
        return w.let(f"load {kind}, ptr {pointer}, align {form.size}")
    function = f"llvm.masked.load.v{lanes}{suffix(form)}.p0"
    arguments = f"ptr {pointer}, i32 {form.size}, {truth} {on}, {kind} zeroinitializer"
    return w.call(kind, function, f"ptr, i32, {truth}, {kind}", arguments)


def store(w: Writer, form: Form, lanes: int, pointer: str, x: str, on: str | None) -> None:
    """Write neighbouring elements, those in lanes that are on."""
    kind, truth = typed(form.memory, lanes), typed("i1", lanes)
    if on is None:
        w.do(f"store {kind} {x}, ptr {pointer}, align {form.size}")
        return
    arguments = f"{kind} {x}, ptr {pointer}, i32 {form.size}, {truth} {on}"
    w.run(f"llvm.masked.store.v{lanes}{suffix(form)}.p0", f"{kind}, ptr, i32, {truth}", arguments)


def gather(w: Writer, form: Form, lanes: int, pointers: str, on: str | None) -> str:
    """The elements that pointers point to; 0 in lanes that are not on."""
    kind, truth, where = typed(form.memory, lanes), typed("i1", lanes), typed("ptr", lanes)
    function = f"llvm.masked.gather.v{lanes}{suffix(form)}.v{lanes}p0"
    arguments = f"{where} {pointers}, i32 {form.size}, {truth} {on or ALL}, {kind} zeroinitializer"
    return w.call(kind, function, f"{where}, i32, {truth}, {kind}", arguments)


def scatter(w: Writer, form: Form, lanes: int, pointers: str, x: str, on: str | None) -> None:
    """Write elements to where pointers point, those in lanes that are on."""
    kind, truth, where = typed(form.memory, lanes), typed("i1", lanes), typed("ptr", lanes)
    function = f"llvm.masked.scatter.v{lanes}{suffix(form)}.v{lanes}p0"
    arguments = f"{kind} {x}, {where} {pointers}, i32 {form.size}, {truth} {on or ALL}"
    w.run(function, f"{kind}, {where}, i32, {truth}", arguments)


def backwards(w: Writer, element: str, lanes: int, x: str) -> str:
    """The same lanes in reverse order."""
    return w.shuffle(typed(element, lanes), x, "poison", *range(lanes - 1, -1, -1))


def suffix(form: Form) -> str:
    """A memory type as it stands in the names of intrinsics."""
    return {"float": "f32", "double": "f64", "half": "f16"}.get(form.memory, form.memory)

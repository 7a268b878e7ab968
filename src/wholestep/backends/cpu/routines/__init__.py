"""Routines: what a plan calls that is no kernel, as functions in LLVM text and their calls in the entry function."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.cpu.caller import Caller
from wholestep.backends.cpu.routines.lapack import declaration, lapack_text
from wholestep.backends.cpu.routines.order import argsort_text
from wholestep.lower.plan import Call
from wholestep.lower.streaming import DONE, WANTED


def routine_text(caller: Caller, step: Call, pointers: Sequence[str]) -> None:
    """Print the call of a routine, and the routine itself where it is the first of its kind."""
    family, _, _ = step.routine.partition(".")
    CALLS[family](caller, step, pointers)


def copy(caller: Caller, step: Call, pointers: Sequence[str]) -> None:
    """The bytes of one place written to another."""
    caller.declared.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
    nbytes = caller.number(step.params[0])
    caller.do(f"call void @llvm.memmove.p0.p0.i64(ptr {pointers[0]}, ptr {pointers[1]}, i64 {nbytes}, i1 0)")


def argsort(caller: Caller, step: Call, pointers: Sequence[str]) -> None:
    """Keys, order and scratch memory; the bits of a key, the length of a row and the number of rows."""
    bits, n, rows = step.params
    name = caller.routine(f"argsort {bits}", lambda name: argsort_text(name, bits))
    caller.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    keys, order, scratch = pointers
    caller.do(f"call void @{name}(ptr {keys}, ptr {order}, ptr {scratch}, i64 {n}, i64 {rows})")


def lapack(caller: Caller, step: Call, pointers: Sequence[str]) -> None:
    """One routine for a stack of matrices; where a site is given, the program is left when one has a status not 0."""
    count, arguments, site = step.params
    symbol, width = step.routine, len(pointers)
    name = caller.routine(f"{symbol} {arguments}", lambda name: lapack_text(name, symbol, width, arguments))
    caller.declared.add(declaration(symbol, arguments))
    caller.symbols.add(symbol)
    passed = ", ".join([*[f"ptr {p}" for p in pointers], f"i64 {count}"])
    status = caller.let(f"call i32 @{name}({passed})")
    if site:
        bad = caller.let(f"icmp ne i32 {status}, 0")
        wide = caller.let(f"sext i32 {caller.let(f'sub i32 {status}, 1')} to i64")
        caller.fail_if(bad, site, "0", wide, caller.plan.sites[site - 1])


def advise(caller: Caller, step: Call, pointers: Sequence[str]) -> None:
    """Memory of a file: a place is read soon, or what follows it, unless that was the last; or a place is let go."""
    nbytes, stride = step.params
    if step.routine in (DONE, WANTED):
        name = "ws_done" if step.routine == DONE else "ws_soon"
        caller.declared.add(f"declare void @{name}(ptr, ptr, i64)")
        caller.do(f"call void @{name}(ptr %context, ptr {pointers[0]}, i64 {nbytes})")
        return
    here, end = pointers
    caller.declared.add("declare void @ws_soon(ptr, ptr, i64)")
    last = caller.let(f"icmp eq ptr {here}, {end}")
    size = caller.let(f"select i1 {last}, i64 0, i64 {nbytes}")
    following = caller.let(f"getelementptr i8, ptr {here}, i64 {stride}")
    caller.do(f"call void @ws_soon(ptr %context, ptr {following}, i64 {size})")


CALLS = {"copy": copy, "argsort": argsort, "lapack": lapack, "advise": advise}
"""How each family of routines is called."""

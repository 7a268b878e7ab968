"""Routines: the calls in a plan that are no kernels, such as memmove, sorts, LAPACK, page hints and collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from wholestep.backends.cpu.host_function import HostFunction
from wholestep.backends.cpu.routines.elimination import elimination_text
from wholestep.backends.cpu.routines.lapack import lapack_text
from wholestep.backends.cpu.routines.radix_sort import argsort_text
from wholestep.backends.cpu.routines.row_sort import row_sort_declarations, row_sort_text
from wholestep.backends.cpu.routines.strips import strip_declarations
from wholestep.backends.cpu.routines.substitution import (
    factor_text,
    substitution_declarations,
    substitution_text,
)
from wholestep.backends.cpu.target.register_tiles import RegisterTile
from wholestep.backends.cpu.target.row_sort import RowSort
from wholestep.lower.program.steps import PREFETCH_NOW, RELEASE, RoutineCall


def write_routine_call(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Emit the call of a routine, and the routine itself at its first use."""
    family, _, _ = step.routine.partition(".")
    ROUTINE_CALLS[family](caller, step, pointers)


def call_memmove(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Copy the bytes of one buffer to another."""
    caller.declared.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
    nbytes = caller.number(step.params[0])
    caller.do(f"call void @llvm.memmove.p0.p0.i64(ptr {pointers[0]}, ptr {pointers[1]}, i64 {nbytes}, i1 0)")


def call_argsort(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Find the order of rows: keys, order and scratch memory; the bits of a key, the length of a row, the number of
    rows, and the bytes of a vector where a network sorts them."""
    bits, n, rows, vector = step.params
    if vector:
        call_row_sort(caller, RowSort(bits, n, rows, True, False, vector), pointers)
        return
    name = caller.routine(f"argsort {bits}", lambda name: argsort_text(name, bits))
    caller.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    keys, order, scratch = pointers
    caller.do(f"call void @{name}(ptr {keys}, ptr {order}, ptr {scratch}, i64 {n}, i64 {rows})")


def call_sort(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Sort the keys of rows: they, the sorted ones, and scratch memory."""
    bits, n, rows, vector, floats = step.params
    call_row_sort(caller, RowSort(bits, n, rows, False, floats, vector), pointers)


def call_row_sort(caller: HostFunction, sort: RowSort, pointers: Sequence[str]) -> None:
    """Sort rows by a network."""
    name = caller.routine(str((*sort._replace(rows=0), sort.beside)), lambda name: row_sort_text(name, sort))
    caller.declared.update(row_sort_declarations(sort))
    keys, result, scratch = pointers
    caller.do(f"call void @{name}(ptr {keys}, ptr {result}, ptr {scratch}, i64 {sort.rows})")


def call_lapack(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Run a LAPACK routine on a stack of matrices; a site makes a nonzero status an error."""
    count, parts, arguments, site = step.params
    symbol, width, checked = step.routine, len(pointers), bool(site)
    key = f"{symbol} {arguments} {checked}"
    name = caller.routine(key, lambda name: lapack_text(name, symbol, width, arguments, checked))
    caller.declared.add(f'declare void @"{symbol}"({", ".join(["ptr"] * len(arguments))})')
    caller.symbols.add(symbol)
    passed = ", ".join(["ptr %context", *[f"ptr {p}" for p in pointers], f"i64 {count}", f"i64 {parts}"])
    status = caller.let(f"call i32 @{name}({passed})")
    if site:
        bad = caller.let(f"icmp ne i32 {status}, 0")
        wide = caller.let(f"sext i32 {caller.let(f'sub i32 {status}, 1')} to i64")
        caller.fail_if(bad, site, "0", wide, caller.plan.sites[site - 1])


def call_substitution(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Solve triangular systems: matrices, right-hand sides, solutions."""
    tile, how, sizes, site = step.params
    write = partial(substitution_text, tile=tile, how=how)
    call_of_tiles(caller, tile, f"substitution {tile} {how}", write, (pointers, sizes, site))


def call_factor(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Factor symmetric matrices: these, and their factors."""
    tile, sizes, site = step.params
    write = partial(factor_text, tile=tile)
    call_of_tiles(caller, tile, f"factor {tile}", write, (pointers, sizes, site))


def call_elimination(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Eliminate matrices: these, L and U of each, the rows that were exchanged, and work memory."""
    tile, panel, sizes = step.params
    write = partial(elimination_text, tile=tile, panel=panel)
    caller.declared.update((*substitution_declarations(tile), *strip_declarations(tile)))
    name = caller.routine(f"elimination {tile} {panel}", write)
    passed = ", ".join(["ptr %context", *[f"ptr {p}" for p in pointers], *[f"i64 {size}" for size in sizes]])
    caller.do(f"call void @{name}({passed})")


def call_of_tiles(
    caller: HostFunction,
    tile: RegisterTile,
    key: str,
    write: Callable[[str], str],
    given: tuple[Sequence[str], Sequence[int], int],
) -> None:
    """Call a routine that gives the number of the row where it fails, or 0: its places, sizes and site of an error."""
    pointers, sizes, site = given
    caller.declared.update(substitution_declarations(tile))
    name = caller.routine(key, write)
    passed = ", ".join(["ptr %context", *[f"ptr {p}" for p in pointers], *[f"i64 {size}" for size in sizes]])
    status = caller.let(f"call i64 @{name}({passed})")
    bad, row = caller.let(f"icmp ne i64 {status}, 0"), caller.let(f"sub i64 {status}, 1")
    caller.fail_if(bad, site, "0", row, caller.plan.sites[site - 1])


def call_advise(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Hint about pages of a file: prefetch a buffer or the next row of one, or release a buffer."""
    nbytes, stride = step.params
    if step.routine in (RELEASE, PREFETCH_NOW):
        name = "ws_done" if step.routine == RELEASE else "ws_soon"
        caller.declared.add(f"declare void @{name}(ptr, ptr, i64)")
        caller.do(f"call void @{name}(ptr %context, ptr {pointers[0]}, i64 {nbytes})")
        return
    here, end = pointers
    caller.declared.add("declare void @ws_soon(ptr, ptr, i64)")
    last = caller.let(f"icmp eq ptr {here}, {end}")
    size = caller.let(f"select i1 {last}, i64 0, i64 {nbytes}")
    following = caller.let(f"getelementptr i8, ptr {here}, i64 {stride}")
    caller.do(f"call void @ws_soon(ptr %context, ptr {following}, i64 {size})")


def call_collective(caller: HostFunction, step: RoutineCall, pointers: Sequence[str]) -> None:
    """Wait for the other processes of an axis; a failure there leaves the program."""
    dtype, count, site = step.params
    places = pointers if len(pointers) > 1 else ("null", *pointers)
    source, target, room = (*places, "null")[:3]
    caller.declared.add(f'declare i32 @"{step.routine}"(ptr, ptr, ptr, i64, i64)')
    caller.symbols.add(step.routine)
    passed = f"ptr {source}, ptr {target}, ptr {room}, i64 {caller.number(count)}, i64 {dtype}"
    status = caller.let(f'call i32 @"{step.routine}"({passed})')
    caller.fail_if(caller.let(f"icmp ne i32 {status}, 0"), site, "0", "0", caller.plan.sites[site - 1])


ROUTINE_CALLS = {
    "copy": call_memmove,
    "argsort": call_argsort,
    "sort": call_sort,
    "lapack": call_lapack,
    "substitution": call_substitution,
    "factor": call_factor,
    "elimination": call_elimination,
    "advise": call_advise,
    "collective": call_collective,
}
"""The emitter of each family of routines."""

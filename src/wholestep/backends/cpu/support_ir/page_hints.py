"""Hints about pages of files: a queue of prefetch requests, and the release of pages."""

from __future__ import annotations

import mmap

from wholestep.backends.cpu.code_pages import DONTNEED
from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.support_ir.record_layouts import CONTEXT, NOTE, NOTES, NOTES_KEPT

ARGUMENTS = (("ptr", "context"), ("ptr", "at"), ("i64", "nbytes"))


def prefetch_function() -> str:
    """Return `void ws_soon(context, at, nbytes)`: queue a request to prefetch these bytes of a file."""
    f = FunctionBuilder("void", "ws_soon", ARGUMENTS, exported=True)
    notes = f.load_field("ptr", "%context", CONTEXT["notes"])
    none, empty = f.let(f"icmp eq ptr {notes}, null"), f.let("icmp sle i64 %nbytes, 0")
    f.return_if(f.let(f"or i1 {none}, {empty}"), "void")
    before = f.let(f"atomicrmw add ptr {notes}, i64 1 monotonic, align 8")
    place = f.let(f"urem i64 {before}, {NOTES_KEPT}")
    note = f.at(f.field(notes, NOTES["first"]), place, NOTE["size"])
    number = f.field(note, NOTE["number"])
    f.atomic_store("0", number, "seq_cst")
    f.store("ptr", "%at", note)
    f.store("i64", "%nbytes", f.field(note, NOTE["nbytes"]))
    f.atomic_store(f.let(f"add i64 {before}, 1"), number, "seq_cst")
    bell = f.load_field("ptr", notes, NOTES["bell"])
    f.let(f"call i32 @ws_ring(ptr {bell}, i64 1, ptr null)")
    return f.text("ret void")


def release_function() -> str:
    """Return `void ws_done(context, at, nbytes)`: release the pages of these bytes, and cancel requests for them."""
    f = FunctionBuilder("void", "ws_done", ARGUMENTS, exported=True)
    notes = f.load_field("ptr", "%context", CONTEXT["notes"])

    def cancel(i: str) -> None:
        note = f.at(f.field(notes, NOTES["first"]), i, NOTE["size"])
        same = f.let(f"icmp eq ptr {f.load('ptr', note)}, %at")
        f.when(same, lambda: f.store("i64", "0", f.field(note, NOTE["nbytes"])))

    f.when(f.let(f"icmp ne ptr {notes}, null"), lambda: f.count_to(str(NOTES_KEPT), cancel))
    low = f.let("ptrtoint ptr %at to i64")
    page = f.let(f"and i64 {low}, -{mmap.PAGESIZE}")
    size = f.let(f"sub i64 {f.let(f'add i64 {low}, %nbytes')}, {page}")
    f.let(f"call i32 @ws_madvise(ptr {f.let(f'inttoptr i64 {page} to ptr')}, i64 {size}, i32 {DONTNEED})")
    return f.text("ret void")

"""Argument reading in native code: the fields of CPython's ndarray objects, without the interpreter."""

from __future__ import annotations

from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.support_ir.record_layouts import CALL

GATHER_HEAD = ("count", "ranges", "length", "items", "type", "tp", "data", "ndim", "shape", "dtype", "flags", "wanted")
"""The words at the head of the request, most of them offsets in Python objects; see `ndarray_reader.py`.

The address ranges of the program's own memory follow, then for each array its slot, dtype, bytes and shape.
"""
ARGUMENTS = (("ptr", "call"), ("ptr", "tuple"))


def gather_function() -> str:
    """Return `i64 ws_gather(call, tuple)`: put the data pointers of a tuple of arrays into the table.

    It gives 0, or -1 where an array is not exactly as expected or overlaps the program's own memory. The caller holds
    the interpreter lock.
    """
    f = FunctionBuilder("i64", "ws_gather", ARGUMENTS, exported=True)
    ask = f.load_field("ptr", "%call", CALL["ask"])
    table = f.load_field("ptr", "%call", CALL["table"])
    head = {name: f.load("i64", ask, str(k)) for k, name in enumerate(GATHER_HEAD)}
    items, ranges = f.at("%tuple", head["items"], 1), f.field(ask, 8 * len(GATHER_HEAD))
    bounds = f.let(f"shl i64 {head['ranges']}, 1")
    wanted = f.let(f"trunc i64 {head['wanted']} to i32")

    def refuse(test: str) -> None:
        f.return_if(f.let(test), "i64 -1")

    def check(have: str, want: str) -> None:
        refuse(f"icmp ne i64 {have}, {want}")

    def check_array(k: str, row: str) -> list[str]:
        item = f.load("ptr", items, k)
        check(f.load("i64", f.at(item, head["tp"], 1)), head["type"])
        slot, dtype, nbytes, ndim = (f.load("i64", row, str(word)) for word in range(4))
        dims = f.at(row, "4", 8)
        check(f.load("i64", f.at(item, head["dtype"], 1)), dtype)
        check(f.let(f"sext i32 {f.load('i32', f.at(item, head['ndim'], 1))} to i64"), ndim)
        flags = f.let(f"and i32 {f.load('i32', f.at(item, head['flags'], 1))}, {wanted}")
        refuse(f"icmp ne i32 {flags}, {wanted}")
        shape = f.load("ptr", f.at(item, head["shape"], 1))
        f.count_to(ndim, lambda d: check(f.load("i64", shape, d), f.load("i64", dims, d)))
        data = f.load("i64", f.at(item, head["data"], 1))
        end = f.let(f"add i64 {data}, {nbytes}")

        def check_apart(r: str) -> list[str]:
            after = f.let(f"add i64 {r}, 1")
            reaches = f.let(f"icmp ugt i64 {end}, {f.load('i64', ranges, r)}")
            begins = f.let(f"icmp ult i64 {data}, {f.load('i64', ranges, after)}")
            refuse(f"and i1 {reaches}, {begins}")
            return [f.let(f"add i64 {r}, 2")]

        f.loop(["i64"], ["0"], lambda r: f.let(f"icmp slt i64 {r}, {bounds}"), check_apart)
        f.store("i64", data, table, slot)
        return [f.let(f"add i64 {k}, 1"), f.at(dims, ndim, 8)]

    check(f.load("i64", f.at("%tuple", head["length"], 1)), head["count"])
    first = f.at(ranges, bounds, 8)
    f.loop(["i64", "ptr"], ["0", first], lambda k, row: f.let(f"icmp slt i64 {k}, {head['count']}"), check_array)
    return f.text("ret i64 0")


def call_entry() -> str:
    """Return `i64 ws_call(call, tuple)`: gather and run; -1 for arrays that are not as expected."""
    f = FunctionBuilder("i64", "ws_call", ARGUMENTS, exported=True)
    wrong = f.let("call i64 @ws_gather(ptr %call, ptr %tuple)")
    f.return_if(f.let(f"icmp ne i64 {wrong}, 0"), f"i64 {wrong}")
    return f.text(f"ret i64 {f.let('call i64 @ws_run(ptr %call)')}")

"""LAPACK: one routine called for each matrix of a stack, every argument passed by its address."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.cpu.llvm_builder import FunctionBuilder

LapackArgument = tuple[str, int, int]
"""("letter", code, 0), ("number", value, 0), ("null", 0, 0), ("status", 0, 0), or ("memory", which pointer, bytes from
one matrix to the next)."""


def lapack_text(name: str, symbol: str, pointers: int, arguments: Sequence[LapackArgument], checked: bool) -> str:
    """Return `i32 name(pointers..., count)`, which gives the status of the first matrix that failed, or 0.

    Where the status is not checked, since a singular matrix has factors too, those after it are computed as well.
    """
    f = FunctionBuilder("i32", name, [*[("ptr", f"p{i}") for i in range(pointers)], ("i64", "count")], exported=True)
    status = f.let("alloca i32, align 4")
    constants: dict[LapackArgument, str] = {}
    for a in arguments:
        if a[0] in ("letter", "number"):
            kind = "i8" if a[0] == "letter" else "i32"
            constants[a] = f.let(f"alloca {kind}")
            f.store(kind, str(a[1]), constants[a])
    given = ", ".join(["ptr"] * len(arguments))

    def address(a: LapackArgument, i: str) -> str:
        kind, which, stride = a
        if kind == "memory":
            return f.let(f"getelementptr i8, ptr %p{which}, i64 {f.let(f'mul i64 {i}, {stride}')}")
        return status if kind == "status" else constants.get(a, "null")

    def one(i: str, found: str) -> list[str]:
        f.store("i32", "0", status)
        passed = ", ".join([f"ptr {address(a, i)}" for a in arguments])
        f.do(f'call void ({given}) @"{symbol}"({passed})')
        return [f.let(f"add i64 {i}, 1"), f.load("i32", status)]

    def going(i: str, found: str) -> str:
        more = f.let(f"icmp slt i64 {i}, %count")
        if not checked:
            return more
        return f.let(f"and i1 {more}, {f.let(f'icmp eq i32 {found}, 0')}")

    _, found = f.loop(["i64", "i32"], ["0", "0"], going, one)
    return f.text(f"ret i32 {found}")

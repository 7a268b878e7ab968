"""LAPACK: one routine called for each matrix of a stack, every argument passed by its address."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.cpu.llvm_builder import WIDTH, FunctionBuilder

LapackArgument = tuple[str, int, int]
"""("letter", code, 0), ("number", value, 0), ("null", 0, 0), ("status", 0, 0), ("memory", which pointer, bytes from one
matrix to the next), or ("scratch", which pointer, bytes from one part to the next)."""


def lapack_text(name: str, symbol: str, pointers: int, arguments: Sequence[LapackArgument], checked: bool) -> str:
    """Return `i32 name(context, pointers..., count, parts)`, the status of the first matrix that failed, or 0.

    Threads share the parts of a stack, each of which has scratch memory of its own. Where the status is not checked,
    since a singular matrix has factors too, the matrices after it are computed as well.
    """
    words = [*[("ptr", f"p{i}") for i in range(pointers)], ("i64", "count"), ("i64", "parts")]
    f = FunctionBuilder("i32", name, [("ptr", "context"), *words], exported=True)
    statuses = f.let("alloca i32, i64 %parts, align 4")
    f.count_to("%parts", lambda part: f.store("i32", "0", statuses, part))
    args = f.let(f"alloca [{len(words) + 1} x i64]")
    for i, (kind, word) in enumerate([*words, ("ptr", statuses[1:])]):
        f.store(kind, f"%{word}", args, str(i), WIDTH["i64"])
    f.either(
        f.let("icmp sgt i64 %parts, 1"),
        lambda: f.do(f"call void @ws_parallel(ptr %context, ptr @{name}.matrices, ptr {args}, i64 %parts)"),
        lambda: f.do(f"call void @{name}.matrices(ptr {args}, i64 0, i64 1)"),
    )

    def going(part: str, found: str) -> str:
        more = f.let(f"icmp slt i64 {part}, %parts")
        return f.let(f"and i1 {more}, {f.let(f'icmp eq i32 {found}, 0')}")

    def one(part: str, found: str) -> list[str]:
        return [f.let(f"add i64 {part}, 1"), f.load("i32", statuses, part)]

    _, found = f.loop(["i64", "i32"], ["0", "0"], going, one)
    return matrices_text(name, symbol, pointers, arguments, checked) + f.text(f"ret i32 {found}")


def matrices_text(name: str, symbol: str, pointers: int, arguments: Sequence[LapackArgument], checked: bool) -> str:
    """The function of some parts of a stack; its status is that of the first of these parts."""
    f = FunctionBuilder("void", f"{name}.matrices", (("ptr", "args"), ("i64", "low"), ("i64", "high")))
    places = [f.load("ptr", "%args", str(i)) for i in range(pointers)]
    count, parts = (f.load("i64", "%args", str(pointers + i)) for i in (0, 1))
    status = f.at(f.load("ptr", "%args", str(pointers + 2)), "%low", WIDTH["i32"])
    start, stop = (f.let(f"udiv i64 {f.let(f'mul i64 {count}, {part}')}, {parts}") for part in ("%low", "%high"))
    constants: dict[LapackArgument, str] = {}
    for a in arguments:
        if a[0] in ("letter", "number"):
            kind = "i8" if a[0] == "letter" else "i32"
            constants[a] = f.let(f"alloca {kind}")
            f.store(kind, str(a[1]), constants[a])
    given = ", ".join(["ptr"] * len(arguments))

    def address(a: LapackArgument, i: str) -> str:
        kind, which, stride = a
        if kind in ("memory", "scratch"):
            return f.at(places[which], f.let(f"mul i64 {i if kind == 'memory' else '%low'}, {stride}"), 1)
        return status if kind == "status" else constants.get(a, "null")

    def one(i: str, found: str) -> list[str]:
        f.store("i32", "0", status)
        passed = ", ".join([f"ptr {address(a, i)}" for a in arguments])
        f.do(f'call void ({given}) @"{symbol}"({passed})')
        return [f.let(f"add i64 {i}, 1"), f.load("i32", status)]

    def going(i: str, found: str) -> str:
        more = f.let(f"icmp slt i64 {i}, {stop}")
        if not checked:
            return more
        return f.let(f"and i1 {more}, {f.let(f'icmp eq i32 {found}, 0')}")

    f.loop(["i64", "i32"], [start, "0"], going, one)
    return f.text("ret void")

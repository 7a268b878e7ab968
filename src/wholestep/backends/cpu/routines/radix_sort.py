"""Stable argsort of unsigned integers: an LSD radix sort, and an insertion sort for short rows."""

from __future__ import annotations

from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.target.argsort import DIGIT_VALUES, MAX_INSERTION_SORT


def argsort_text(name: str, bits: int) -> str:
    """Return `void name(keys, order, scratch, n, rows)`: the order is int64, and the keys are not changed.

    Scratch memory: counters, two int32 index buffers, two key buffers; for short rows one key buffer.
    """
    f = FunctionBuilder("void", name, ARGUMENTS, exported=True)
    short = f.let(f"icmp sle i64 %n, {MAX_INSERTION_SORT}")

    def row(i: str) -> None:
        start = f.let(f"mul i64 {i}, %n")
        keys, order = f.at("%keys", start, bits // 8), f.at("%order", start, 8)
        f.either(short, lambda: insertion_sort(f, bits, keys, order), lambda: radix_sort(f, bits, keys, order))

    f.count_to("%rows", row)
    return f.text("ret void")


ARGUMENTS = (("ptr", "keys"), ("ptr", "order"), ("ptr", "scratch"), ("i64", "n"), ("i64", "rows"))


def insertion_sort(f: FunctionBuilder, bits: int, keys: str, order: str) -> None:
    """Emit an insertion sort; the scratch memory holds the sorted keys."""
    kind = f"i{bits}"

    def insert(i: str) -> None:
        key = f.load(kind, keys, i)

        def greater(j: str) -> str:
            some = f.let(f"icmp sgt i64 {j}, 0")

            def compare() -> list[str]:
                before = f.load(kind, "%scratch", f.let(f"sub i64 {j}, 1"))
                return [f.let(f"icmp ugt {kind} {before}, {key}")]

            return f.choose(some, ["i1"], compare, lambda: ["false"])[0]

        def move(j: str) -> list[str]:
            before = f.let(f"sub i64 {j}, 1")
            f.store(kind, f.load(kind, "%scratch", before), "%scratch", j)
            f.store("i64", f.load("i64", order, before), order, j)
            return [before]

        (place,) = f.loop(["i64"], [i], greater, move)
        f.store(kind, key, "%scratch", place)
        f.store("i64", i, order, place)

    f.count_to("%n", insert)


def radix_sort(f: FunctionBuilder, bits: int, keys: str, order: str) -> None:
    """Emit a counting pass for each byte of the keys; bytes equal in all keys are skipped, histograms are made in one
    pass."""
    kind, size = f"i{bits}", bits // 8
    wide = f.let(f"mul i64 %n, {size}")
    places = f.at("%scratch", str(DIGIT_VALUES * 4 * size), 1)
    others = f.at(places, "%n", 4)
    first = f.at(others, "%n", 4)
    second = f.at(first, wide, 1)
    f.do(f"call void @llvm.memset.p0.i64(ptr %scratch, i8 0, i64 {DIGIT_VALUES * 4 * size}, i1 0)")

    def count(i: str) -> None:
        key = f.load(kind, keys, i)
        f.store(kind, key, first, i)
        f.store("i32", f.let(f"trunc i64 {i} to i32"), places, i)
        for byte in range(size):
            place = f.at("%scratch", digit_counter(f, kind, key, str(8 * byte), byte * DIGIT_VALUES), 4)
            f.store("i32", f.let(f"add i32 {f.load('i32', place)}, 1"), place)

    f.count_to("%n", count)

    def one_pass(byte: str, *buffers: str) -> list[str]:
        source, target, before, after = buffers
        counts = f.at("%scratch", f.let(f"mul i64 {byte}, {DIGIT_VALUES}"), 4)
        shift = f.let(f"mul i64 {byte}, 8")
        narrow = shift if bits == 64 else f.let(f"trunc i64 {shift} to {kind}")
        some = f.load("i32", f.at(counts, digit_counter(f, kind, f.load(kind, source), narrow), 4))
        same = f.let(f"icmp eq i32 {some}, {f.let('trunc i64 %n to i32')}")

        def distribute() -> list[str]:
            exclusive_prefix_sums(f, counts)
            f.count_to("%n", lambda i: move_by_digit(f, i, kind, narrow, counts, (source, target, before, after)))
            return [target, source, after, before]

        moved = f.choose(same, ["ptr"] * 4, lambda: [source, target, before, after], distribute)
        return [f.let(f"add i64 {byte}, 1"), *moved]

    found = f.loop(
        ["i64", *["ptr"] * 4],
        ["0", first, second, places, others],
        lambda byte, *_: f.let(f"icmp slt i64 {byte}, {size}"),
        one_pass,
    )
    f.count_to("%n", lambda i: f.store("i64", f.let(f"zext i32 {f.load('i32', found[3], i)} to i64"), order, i))


def digit_counter(f: FunctionBuilder, kind: str, key: str, shift: str, offset: int = 0) -> str:
    """Return the index of the counter of a key's digit."""
    moved = key if shift == "0" else f.let(f"lshr {kind} {key}, {shift}")
    byte = f.let(f"and {kind} {moved}, 255")
    wide = byte if kind == "i64" else f.let(f"zext {kind} {byte} to i64")
    return f.let(f"add i64 {wide}, {offset}") if offset else wide


def exclusive_prefix_sums(f: FunctionBuilder, counts: str) -> None:
    """Replace the counts of the digits by their exclusive prefix sums."""

    def add(i: str, total: str) -> list[str]:
        here = f.load("i32", counts, i)
        f.store("i32", total, counts, i)
        return [f.let(f"add i64 {i}, 1"), f.let(f"add i32 {total}, {here}")]

    f.loop(["i64", "i32"], ["0", "0"], lambda i, _: f.let(f"icmp slt i64 {i}, {DIGIT_VALUES}"), add)


def move_by_digit(
    f: FunctionBuilder, i: str, kind: str, shift: str, counts: str, buffers: tuple[str, str, str, str]
) -> None:
    """Move one element to the position of its digit."""
    source, target, before, after = buffers
    key = f.load(kind, source, i)
    counter = f.at(counts, digit_counter(f, kind, key, shift), 4)
    place = f.load("i32", counter)
    f.store("i32", f.let(f"add i32 {place}, 1"), counter)
    wide = f.let(f"zext i32 {place} to i64")
    f.store(kind, key, target, wide)
    f.store("i32", f.load("i32", before, i), after, wide)

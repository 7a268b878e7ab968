"""Random programs of host numbers: each scalar operation in each dtype, and numbers where words and roundings end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.host_scalars import Element, HostScalars, ScalarOperation, compute_scalars, word_of_number
from wholestep.backends.gpu.known_scalars import CASE, GIVEN
from wholestep.ir.graph import NDArray
from wholestep.kernel.lang import DType
from wholestep.kernel.ops import OPS

SHORTS = {
    "b": ("bool",),
    "i": ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
    "f": ("f32", "f64"),
    "w": ("u32",),
}
"""The dtypes of host numbers, by the kinds that operations take."""
EVERY = (*SHORTS["b"], *SHORTS["i"], *SHORTS["f"])
FRESH, GIVENS = 5, 3
"""The values of each dtype that are there from the beginning, and how many of them are given."""
CANCELS, TIES = 0.3, 0.6
"""The share of `fma` whose summand is the negated rounded product, so that the result is the rounding error; and the
share including those about halfway between two numbers."""


def sizes_of(source: str, target: str) -> bool:
    """Test whether one dtype can be looked at as the other, bit by bit."""
    both = {dtypes.from_short(short).itemsize for short in (source, target)}
    return "bool" not in (source, target) and len(both) == 1


DECK = (
    *[(name, short, short) for name, op in OPS.items() for kind in op.takes for short in SHORTS[kind]],
    *[("convert", source, target) for source in EVERY for target in EVERY],
    *[("bits", source, target) for source in EVERY for target in EVERY if sizes_of(source, target)],
)
"""Each operation, with the dtype of its operands and, for casts, that of its result."""


class HostProgram(NamedTuple):
    """Code as a page has it, constants first, and scalars for several runs of it at once, each an array.

    `following` are the given scalars that a run leaves to the next one, and the numbers of their values.
    """

    code: tuple[ScalarOperation, ...]
    given: tuple[NDArray, ...]
    cases: tuple[NDArray, ...]
    following: tuple[tuple[int, int], ...]

    def values(self, given: Sequence[NDArray]) -> list[NDArray]:
        """The values of all operations by the interpreter, for these scalars in the place of those given."""
        loads = {GIVEN: 0, CASE: len(given)}
        code = [x._replace(op="load", extra=x.extra + loads[x.op]) if x.op in loads else x for x in self.code]
        stores = tuple([(Element(0, 0), number) for number in range(len(code))])
        found = compute_scalars(HostScalars((), tuple(code), stores), [*given, *self.cases])
        shape = np.broadcast_shapes(*[x.shape for x in found])
        return [np.broadcast_to(x, shape) for x in found]

    def next_given(self, given: Sequence[NDArray], values: Sequence[NDArray]) -> list[NDArray]:
        """The scalars that the next run is given."""
        found = list(given)
        for number, value in self.following:
            found[number] = values[value]
        return found


def edges(dtype: DType) -> NDArray:
    """The numbers of a dtype where words, signs, halves, exact integers and normal numbers begin or end."""
    powers = [2**n for n in (1, 7, 8, 15, 16, 24, 31, 32, 53, 63, 64)]
    beside = [sign * (power + one) for power in powers for one in (-1, 0, 1) for sign in (-1, 1)]
    if dtype.kind == "f":
        info = np.finfo(dtype)
        tiny, normal = float(info.smallest_subnormal), float(info.tiny)
        least = [tiny, 3 * tiny, normal - tiny, normal, float(info.max), 1 + float(info.eps), np.inf]
        halves = [0.0, 0.5, 1.0, 1.5, 2.5, 3.5, 0.5 - float(info.epsneg) / 2, 2**22 + 0.5, 2**51 + 0.5]
        with np.errstate(over="ignore"):
            return np.array([*[sign * x for x in (*least, *halves) for sign in (-1, 1)], np.nan, *beside], dtype)
    bounds = np.iinfo(dtype)
    ends = [bounds.min, bounds.min + 1, bounds.max, bounds.max - 1, 0, 7, bounds.bits - 1, bounds.bits, bounds.bits + 1]
    return np.array([x for x in (*ends, *beside) if bounds.min <= x <= bounds.max], dtype)


def drawn_ties(dtype: DType, n: int, rng: np.random.Generator) -> NDArray:
    """So many integers halfway between two numbers of float32 or of float64, or one beside that, of 32 bits or 64."""
    bits = 8 * dtype.itemsize - (dtype.kind == "i")
    kept = rng.choice([kept for kept in (24, 53) if kept < bits], n)
    shift = np.where(rng.random(n) < 0.5, bits - kept, rng.integers(1, bits - kept + 1)).astype(np.uint64)
    leading = rng.integers(1 << (kept - 1), 1 << kept).astype(np.uint64)
    half = np.uint64(1) << (shift - np.uint64(1))
    found = (leading << shift) + half + rng.integers(-1, 2, n).astype(np.uint64)
    return found.astype(dtype) if dtype.kind == "u" else (found.astype(np.int64) * rng.choice([-1, 1], n)).astype(dtype)


def drawn_halves(short: str, n: int, rng: np.random.Generator) -> list[NDArray]:
    """Two factors and a summand, so many of each: the product is half a unit in the summand's last place, or about."""
    info = np.finfo(dtypes.from_short(short))
    off, apart = rng.integers(-2, 3, (2, n))
    beside = np.array([off, np.where(rng.random(n) < 0.5, -off, apart)])  # (1 + e) * (1 - e) is 1 but for e * e
    one, other = (1 + beside * float(info.eps)) * rng.choice([-1, 1], (2, n))
    exponents = rng.integers(-20, 20, (2, n))
    summand = (1 + rng.random(n)) * 2.0 ** exponents[0]
    unit = 2.0 ** (exponents[0] - exponents[1] - info.nmant - 1)
    return [x.astype(info.dtype) for x in (one * unit, other * 2.0 ** exponents[1], summand)]


def drawn_numbers(short: str, n: int, rng: np.random.Generator) -> NDArray:
    """So many numbers of a dtype: those of ordinary size, small ones and halves, ties, any words, and edges."""
    dtype = dtypes.from_short(short)
    if short == "bool":
        return rng.integers(0, 2, n).astype(bool)
    words = rng.integers(0, 256, (n, dtype.itemsize), np.uint8).view(dtype).reshape(n)
    choices = [words, edges(dtype)[rng.integers(0, len(edges(dtype)), n)]]
    if dtype.kind == "f":
        choices += [rng.normal(size=n) * 2.0 ** rng.integers(-30, 30, n), rng.integers(-8, 9, n) / 2]
        choices += [drawn_ties(np.dtype(np.int64), n, rng) * 2.0 ** rng.integers(-60, 1, n)]
    else:
        choices += [words >> rng.integers(0, 8 * dtype.itemsize, n).astype(dtype), rng.integers(0, 9, n)]
        choices += [drawn_ties(dtype, n, rng)] if dtype.itemsize > 2 else []
    found = np.choose(rng.integers(0, len(choices), n), [x.astype(dtype) for x in choices])
    return np.asarray(found, dtype)


class Drawing:
    """A program as it is drawn: its code so far, and the numbers of the values of each dtype."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.code: list[ScalarOperation] = []
        self.of: dict[str, list[int]] = {short: [] for short in EVERY}

    def put(self, op: str, short: str, args: Sequence[int] = (), extra: int = 0) -> int:
        """The number of a new value."""
        self.code.append(ScalarOperation(op, short, tuple(args), extra))
        self.of[short].append(len(self.code) - 1)
        return len(self.code) - 1

    def constant(self, short: str, x: float) -> int:
        """The number of a constant, which is drawn before anything else."""
        dtype = dtypes.from_short(short)
        return self.put("const", short, (), word_of_number(np.array(x, dtype), dtype))

    def any_of(self, short: str) -> int:
        """The number of a value of a dtype: one that is there from the beginning, or any."""
        found = self.of[short]
        return found[int(self.rng.integers(FRESH if self.rng.random() < 0.5 else len(found)))]

    def operation(self, name: str, source: str, target: str) -> None:
        """Draw an operation, and before it operations that bring its operand into its domain."""
        if name in ("convert", "bits"):
            self.put(name, target, [self.meaningful(name, source, target)])
            return
        op = OPS[name]
        args = [self.any_of(source) for _ in range(op.arity)]
        if name == "select":
            args[0] = self.any_of("bool")
        if name == "fma":
            args = self.factors(source, args)
        self.put(name, "bool" if op.gives else source, args)

    def factors(self, short: str, args: list[int]) -> list[int]:
        """The factors and the summand of an `fma`: these, or such that its one rounding tells."""
        kind = self.rng.random()
        if kind < CANCELS:
            return [*args[:2], self.put("neg", short, [self.put("mul", short, args[:2])])]
        return self.halves[short] if kind < TIES else args

    def given(self, lanes: int) -> list[NDArray]:
        """Draw the scalars that are given, and let the program read them."""
        drawn = [drawn_numbers(short, lanes, self.rng) for short in EVERY for _ in range(GIVENS)]
        drawn += [x for short in SHORTS["f"] for x in drawn_halves(short, lanes, self.rng)]
        numbers = [self.put(GIVEN, dtypes.short(x.dtype), (), i) for i, x in enumerate(drawn)]
        self.halves = {"f32": numbers[-6:-3], "f64": numbers[-3:]}
        return drawn

    def meaningful(self, name: str, source: str, target: str) -> int:
        """A value of a dtype whose conversion is stated: as an integer none that is outside, and of no NaN the bits."""
        found = self.any_of(source)
        if source in SHORTS["f"] and name == "bits":
            return self.put("max", source, [found, self.ends[source, ""][0]])
        if source in SHORTS["f"] and target in SHORTS["i"]:
            low, high = self.ends[source, target]
            return self.put("max", source, [self.put("min", source, [found, high]), low])
        return found

    def constants(self, each: int) -> None:
        """Draw so many constants of each dtype, and the ends of the integers as floats."""
        self.ends = {
            (source, target): tuple([self.constant(source, x) for x in outermost(source, target)])
            for source in SHORTS["f"]
            for target in ("", *SHORTS["i"])
        }
        self.of = {short: [] for short in EVERY}
        for short in EVERY:
            for x in drawn_numbers(short, each, self.rng):
                self.constant(short, x)


def outermost(source: str, target: str) -> tuple[float, ...]:
    """The least and the greatest float whose whole part is an integer of a dtype; of none, the least of all."""
    if not target:
        return (-np.inf,)
    dtype, info = dtypes.from_short(source), np.iinfo(dtypes.from_short(target))
    below = dtype.type(info.min - 1)
    low = np.nextafter(below, dtype.type(0)) if below < dtype.type(info.min) else below
    return float(low), float(np.nextafter(dtype.type(info.max + 1), dtype.type(0)))


def drawn_program(cards: Sequence[tuple[str, str, str]], lanes: int, rng: np.random.Generator) -> HostProgram:
    """A program with an operation for each of the cards, in their order, for so many runs at once."""
    drawing = Drawing(rng)
    drawing.constants(FRESH - GIVENS)
    given = drawing.given(lanes)
    cases = [rng.integers(0, 4, lanes) for _ in range(2)]
    for number in range(len(cases)):
        drawing.put(CASE, "i64", (), number)
    for card in cards:
        drawing.operation(*card)
    chosen = [number for number in range(len(given)) if rng.random() < 0.5]
    following = tuple([(number, drawing.any_of(dtypes.short(given[number].dtype))) for number in chosen])
    return HostProgram(tuple(drawing.code), tuple(given), tuple(cases), following)

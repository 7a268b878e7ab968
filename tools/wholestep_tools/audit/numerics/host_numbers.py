"""`wholestep audit hostnumbers`: the host computations of a page's script against the interpreter, to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.known_scalars import CASE, GIVEN
from wholestep.errors import CommandError
from wholestep.export.page.files import PagePart, code_text, parts_text
from wholestep.export.page.short_texts import compact_script
from wholestep.ir.graph import NDArray
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.host_programs import DECK, HostProgram, drawn_program
from wholestep_tools.javascript import NO_JAVASCRIPT, is_run, script_value

CLAIM = "JavaScript computes the host's numbers of a page with the bits of the interpreter"
SCRIPT = Path(__file__).with_suffix(".js")
CARDS, LANES, STEPS = 64, 16, 2
"""The operations that are dealt to a program, the runs of it, and the steps of each, one after another."""
TOGETHER = 25
"""The programs that are handed to JavaScript at a time."""
NOT_COMPUTED = ("const", GIVEN, CASE)
Words = list[list[list[str]]]
"""The word of each value of a program, of each step of each lane."""


def program(i: int, seed: int) -> HostProgram:
    """The program of this number; programs in a row are dealt all operations again and again, each time shuffled."""
    rounds = [divmod(k, len(DECK)) for k in range(CARDS * i, CARDS * (i + 1))]
    orders = {turn: np.random.default_rng([seed, 0, turn]).permutation(len(DECK)) for turn, _ in rounds}
    cards = [DECK[orders[turn][at]] for turn, at in rounds]
    return drawn_program(cards, LANES, np.random.default_rng([seed, 1, i]))


def words(x: NDArray) -> list[str]:
    """Numbers by their bits; all NaNs are equal."""
    return ["nan" if y != y else word for y, word in zip(x, words_of_given(x), strict=True)]


def interpreted(made: HostProgram) -> Iterator[list[list[str]]]:
    """The words of all values of each step, each of them of all lanes."""
    given: Sequence[NDArray] = made.given
    for _ in range(STEPS):
        values = made.values(given)
        yield [words(x) for x in values]
        given = made.next_given(given, values)


def as_json(made: HostProgram) -> dict[str, Any]:
    """A program as JavaScript is given it."""
    return {
        "text": code_text(made.code),
        "kinds": [dtypes.short(x.dtype) for x in made.given],
        "following": made.following,
        "given": list(zip(*[words_of_given(x) for x in made.given], strict=True)),
        "cases": np.array(made.cases).T.tolist(),
        "steps": STEPS,
    }


def words_of_given(x: NDArray) -> list[str]:
    """Numbers by their bits."""
    return [str(word) for word in np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").tolist()]


def by_javascript(programs: Sequence[HostProgram]) -> list[Words]:
    """The words that the script of a page with these programs computes."""
    given = list(map(as_json, programs))
    functions = {str(i): {"code": x["text"]} for i, x in enumerate(given)}
    own = parts_text([PagePart("host_numbers.js")], {"step": {"code": ""}, "functions": functions})
    script = compact_script(own) + SCRIPT.read_text(encoding="utf-8")
    found: list[Words] = script_value(script, "answers(given)", given)
    return found


def compare(what: str, made: HostProgram, found: Words, seen: Seen) -> None:
    """Compare the values of a program, and name those that differ though their operands do not."""
    computed = [n for n, x in enumerate(made.code) if x.op not in NOT_COMPUTED]
    for step, wanted in enumerate(interpreted(made)):
        for lane in range(LANES):
            own, theirs = [x[lane] for x in wanted], found[lane][step]
            seen.count("numbers", len(computed))
            for n in computed if own != theirs else ():
                op, kind, args, _ = made.code[n]
                if own[n] != theirs[n] and all(own[k] == theirs[k] for k in args):
                    operands = ", ".join([f"{made.code[k].dtype} {own[k]}" for k in args])
                    seen.failures.append(f"{what}, step {step}: {op} of {operands} is {kind} {theirs[n]}, not {own[n]}")


def some_programs(numbers: range, count: int, seed: int) -> Seen:
    """Some of the programs, by both."""
    if not is_run():
        raise CommandError(f"audit: {NO_JAVASCRIPT}", hint="install Node.js, or Chromium")
    seen = Seen()
    for first in range(numbers.start, numbers.stop, TOGETHER):
        batch = range(first, min(first + TOGETHER, numbers.stop))
        programs = [program(i, seed) for i in batch]
        for i, made, found in zip(batch, programs, by_javascript(programs), strict=True):
            seen.count("programs")
            compare(f"program {i} of seed {seed}", made, found, seen)
    return seen


def told(parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of all shares."""
    seen = joined_parts(parts)
    kinds = min(len(DECK), CARDS * count)
    checks = {"numbers": seen.checks["numbers"], "programs": count, "operations in their dtypes": kinds}
    return record("hostnumbers", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "hostnumbers",
    Shares(some_programs, told),
    500,
    "compute host numbers of pages in JavaScript, and compare bits",
    """\
Random programs of host numbers, as learning rates, schedules, counters and bias corrections are, are written as the
script of a page reads them, and run by Node, or by Chromium where there is none: 64 operations each, dealt so that
every scalar operation comes in every dtype, conversions and looks at bits among them, and what these need before
them. Operands are constants, scalars that are given, cases of switches, and values of the operations before: numbers
of ordinary size, small ones and halves, integers halfway between two floats or beside that, any words, and edges,
which are zeros of both signs, subnormal and extreme numbers, infinities and NaN, and the neighbours of powers of two
at which words and exact integers end. Each program runs with sixteen sets of scalars for two steps, the second of
which is given what the first one left. Every value must have the bits that the interpreter gives; NaN is one value.
Conversions to integers are of numbers that lie within them.""",
    shared=True,
)

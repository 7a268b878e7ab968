"""The header of a native program: its functions, and where in its block each array lies, as C."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from wholestep import dtypes
from wholestep.export.native.block import ALIGNMENT, MemoryBlock, PlacedArray
from wholestep.export.native.names import OWN, CNames
from wholestep.kernel import c_halves, c_scalars as scalars

FORMATS = {
    "f16": "float16, which is binary16 of IEEE 754, has 5 bits of exponent and 10 of fraction",
    "bf16": "bfloat16, the upper half of a float, has 8 bits of exponent and 7 of fraction",
}
"""The format of the words of each half precision, by its short name."""
HALVES = """
/* Numbers of half precision are words of 16 bits: {formats}.
   Functions "from" make a float of one, which is exact, and functions "to" round a float to nearest, ties to even. */
"""

HEADER = """\
/* {prefix}.h: {title}, as a program without Python.

   {about} */
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>
{include}
#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_BYTES {nbytes}u
{own}
/* A failure in words, with the line of the program that it was compiled from. */
const char *{prefix}_failure(int site);
{halves}{formulas}{body}
#ifdef __cplusplus
}}
#endif
#endif
"""

STEP_ABOUT = """\
The memory is the caller's, {upper}_BYTES of it, and nothing else is allocated. One block is one training, and
   several may run side by side. It begins with a state of zeros: {prefix}_load reads the file that step.save writes,
   or the one beside this header, and {prefix}_save writes what step.load reads."""
STEP_OWN = """\
#define {upper}_STATE_BYTES {state}u
#define {upper}_NO_STATE 1
#define {upper}_DAMAGED 2

typedef struct {prefix} {prefix};

/* The program in this memory, with a state of zeros. */
{prefix} *{prefix}_init(void *memory);

/* One step on the batch that is in place. It returns 0, or the number of the place that failed, for
   {prefix}_failure; the state is then as it was. */
int {prefix}_step({prefix} *m);

/* Take over the state in a file's bytes, whole or not at all: 0, {upper}_NO_STATE for a file that is not of this step,
   {upper}_DAMAGED for one that is not as it was written. */
int {prefix}_load({prefix} *m, const void *file, size_t nbytes);

/* Write the state as a file's bytes, {upper}_STATE_BYTES of them; 0 where there is no room. */
size_t {prefix}_save(const {prefix} *m, void *out, size_t room);
"""


def step_header(prefix: str, title: str, block: MemoryBlock, state_bytes: int) -> str:
    """The header of a step whose names begin with a prefix."""
    lines = declarations(prefix, block, names_in_block(prefix, block))
    own = STEP_OWN.format(prefix=prefix, upper=prefix.upper(), state=state_bytes)
    return header_text(prefix, title, block, STEP_ABOUT, own, lines)


def header_text(prefix: str, title: str, block: MemoryBlock, about: str, own: str, body: Iterable[str]) -> str:
    """A header: the description `about`, the declarations `own`, and the lines `body` for arrays and functions."""
    halves = half_functions(prefix, block)
    return HEADER.format(
        include="#include <string.h>\n" if halves else "",
        halves=halves,
        prefix=prefix,
        upper=prefix.upper(),
        title=one_line(title),
        about=about.format(prefix=prefix, upper=prefix.upper()),
        own=own,
        nbytes=block.nbytes + ALIGNMENT,
        formulas=remark_on_formulas(block),
        body="\n".join(body),
    )


def names_in_block(prefix: str, block: MemoryBlock, *more: str) -> CNames:
    """Names for the arrays of a block, none of which its program has, nor one of these more."""
    own = [f.program.name for f in block.functions]
    return CNames(prefix, (*OWN, *more, *own, *[f"run_{name}" for name in own]))


def half_formats(block: MemoryBlock) -> list[str]:
    """The short names of the half precisions that arrays of a block have."""
    arrays = [*block.state, *[a for f in block.functions for a in (*f.inputs, *f.outputs)]]
    found = {dtypes.short(a.stored) for a in arrays}
    return [half for half in c_halves.HALVES if half in found]


def half_functions(prefix: str, block: MemoryBlock) -> str:
    """The conversions of the half precisions that a caller fills or reads, as functions with names of the program."""
    formats = half_formats(block)
    if not formats:
        return ""
    names = [f"ws_{way}_{half}" for half in formats for way in ("from", "to")]
    parts = [
        scalars.INLINE["ws_bits_f32"],
        scalars.INLINE["ws_from_f32"],
        c_halves.half_definitions("static inline", *names),
    ]
    text = HALVES.format(formats=";\n   ".join([FORMATS[half] for half in formats])) + "\n".join(parts)
    return re.sub(r"\bws_", f"{prefix}_", text)


def remark_on_formulas(block: MemoryBlock) -> str:
    """A comment that lists the functions computed by formulas; empty if the bits are those of the program in Python."""
    names = dict.fromkeys([symbol.partition(":")[0] for f in block.functions for symbol in f.formulas])
    said = "Computed by formulas, close to the library that Python calls and not to the bit: "
    return f"\n/* {said}{', '.join(names)}. */\n" if names else ""


def declarations(prefix: str, block: MemoryBlock, names: CNames) -> Iterator[str]:
    """A function for each array of the block, and one for each function beside the step."""
    step, *others = block.functions
    for what, arrays in (
        ("What a step reads: fill it before.", step.inputs),
        ("What a step leaves.", step.outputs),
        ("The state.", block.state),
    ):
        yield f"\n/* {what} */"
        for array in arrays:
            yield accessor(prefix, names.new(array.path), array)
    for f in others:
        name = f.program.name
        yield f"\n/* {one_line(name)}: reads its arrays and the state, and writes its results. */"
        yield f"int {prefix}_{name}({prefix} *m);"
        for array in (*f.inputs, *f.outputs):
            yield accessor(prefix, names.new(name, array.path), array)


def accessor(owner: str, name: str, array: PlacedArray) -> str:
    """The function of a type of programs that returns the address of an array, with the array's path as a comment."""
    kind = scalars.memory_type(array.stored)
    where = f"(void *)((unsigned char *)m + {array.offset})"
    return f"static inline {kind} *{name}({owner} *m) {{ return ({kind} *){where}; }} {remark_on(array)}"


def remark_on(array: PlacedArray) -> str:
    """The path of an array, as a user spells it, and its type, as a remark."""
    return f"/* {one_line(f'{array.path}: {array.type}')} */"


def one_line(text: str) -> str:
    """A user's text in a remark: ASCII that neither ends the remark nor the line."""
    return ascii(text)[1:-1].replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")

"""The C code of a function without state: its header, and the call whose arrays are copied into its memory and out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wholestep.export.native.block import MemoryBlock, PlacedArray
from wholestep.export.native.header import accessor, header_text, names_in_block, remark_on
from wholestep.export.native.names import parameter_name, without_repeats
from wholestep.export.native.state_code import filled_in, program_texts
from wholestep.kernel import c_scalars as scalars

RUN = "run"
"""The name of the program, which works on the arrays in its memory."""
BLOCK = "block"
"""The end, behind the prefix, of the name of the type of its memory."""
TEXT = Path(__file__).with_name("function_call.c")
PARAMETER = ",\n    "
"""The text between two parameters."""
TAKEN = ("memory", "m", "site")
"""Names that the call uses itself."""
ABOUT = """\
The memory is the caller's, {upper}_BYTES of it at any address, and nothing else is allocated. It keeps nothing from
   one call to the next, and calls in several memories may run side by side. Arrays have their rows one after another;
   complex numbers are pairs of a real and an imaginary part, and truth values are bytes that are 0 or 1."""
OWN = """
/* The function. It returns 0, or the number of the place that failed, for {prefix}_failure; nothing is written to its
   results then. They may be the arrays that it is given. */
{call};

/* The same without copies, on arrays where they lie in the memory: {prefix}_run leaves those that it reads as they are
   filled, and its results are not to be read where it fails. */
typedef struct {prefix}_block {prefix}_block;
{prefix}_block *{prefix}_init(void *memory);
int {prefix}_run({prefix}_block *m);
"""


def function_header(prefix: str, title: str, block: MemoryBlock) -> str:
    """The header of a function whose names begin with a prefix, and which has it as its name."""
    own = OWN.format(prefix=prefix, call=prototype(prefix, block, remarks=True))
    return header_text(prefix, title, block, ABOUT, own, accessors(prefix, block))


def function_code(prefix: str, block: MemoryBlock) -> str:
    """The C file beside the code of the function."""
    lines = "\n".join([f"    {line}" for line in call_lines(prefix, block)])
    return filled_in(TEXT, {**program_texts(prefix, block), "CALL": prototype(prefix, block), "COPIED": lines})


def accessors(prefix: str, block: MemoryBlock) -> Iterator[str]:
    """A function for each array."""
    (f,) = block.functions
    names = names_in_block(prefix, block, BLOCK)
    yield "\n/* Where they lie. */" if f.inputs or f.outputs else ""
    for array in (*f.inputs, *f.outputs):
        yield accessor(f"{prefix}_{BLOCK}", names.new(array.path), array)


def parameters(block: MemoryBlock) -> list[tuple[str, PlacedArray]]:
    """The arrays of the function, each with the name of its parameter in C."""
    (f,) = block.functions
    arrays = [*f.inputs, *f.outputs]
    return list(zip(without_repeats([parameter_name(a.path) for a in arrays], TAKEN), arrays, strict=True))


def prototype(prefix: str, block: MemoryBlock, remarks: bool = False) -> str:
    """The prototype of the function, a line for each array; with `remarks`, comments give their paths and types."""
    given, rows = len(block.functions[0].inputs), ["void *memory"]
    for k, (name, array) in enumerate(parameters(block)):
        kind = "const " * (k < given) + scalars.memory_type(array.stored)
        rows.append(f"{kind} *{name}" + f" {remark_on(array)}" * remarks)
    return f"int {prefix}({PARAMETER.join(rows)})"


def call_lines(prefix: str, block: MemoryBlock) -> Iterator[str]:
    """The lines of a call: copies of its arguments, the program, and copies of its results."""
    given = len(block.functions[0].inputs)
    rows = [(name, a.offset, int(a.type.nbytes)) for name, a in parameters(block)]
    yield from [f"(void){name};" for name, _, nbytes in rows if not nbytes]
    yield from [f"memcpy(m + {at}, {name}, {nbytes});" for name, at, nbytes in rows[:given] if nbytes]
    yield f"const int site = {prefix}_run((void *)m);"
    yield "if (site) return site;"
    yield from [f"memcpy({name}, m + {at}, {nbytes});" for name, at, nbytes in rows[given:] if nbytes]
    yield "return 0;"

"""Gathers and scatters as torch spells them."""

from __future__ import annotations

from wholestep.export.python.vocabulary import Call, Spelling, listed, orders_to_front
from wholestep.export.scattered_places import places_differ


def torch_indices(c: Call, first: int) -> list[str]:
    """The indices among the operands, from the first one on, as integers that torch indexes by.

    PyTorch takes int32 and int64 for these, and uint8 for a mask.
    """
    return [
        a if t.dtype.name in ("int32", "int64") else f"{a}.to(torch.int64)"
        for a, t in zip(c.a[first:], c.types[first:], strict=True)
    ]


def torch_in_front(c: Call) -> tuple[str, tuple[int, ...]]:
    """The operand of an indexing with the indexed axes first, and the order that puts them back."""
    order, back = orders_to_front(c)
    return f"{c.a[0]}.permute({order})" if order else c.a[0], back


def torch_read(c: Call) -> str:
    """A gather."""
    return f"{torch_in_front(c)[0]}[{', '.join(torch_indices(c, 1))}]"


def torch_written(add: bool) -> Spelling:
    """A scatter that adds, or writes; an array of one number becomes memory first.

    TorchInductor takes such an array, all of whose strides are 0, for the memory that it writes to.
    """

    def spelling(c: Call) -> str:
        x, back = torch_in_front(c)
        if not add and c.numbers[1] is None and not places_differ(c.inputs[2:]):
            text = f"written_at({x}, {c.a[1]}, {listed(c.a[2:])})"
            return f"{text}.permute({back})" if back else text
        call = "index_put"
        if c.numbers[0] is not None:
            x += ".clone(memory_format=torch.contiguous_format)"
            call += "_" * c.in_step
        text = f"{x}.{call}({listed(torch_indices(c, 2))}, {c.a[1]}, accumulate={add})"
        return f"{text}.permute({back})" if back else text

    return spelling


def torch_extreme(kind: str) -> Spelling:
    """A scatter that keeps the larger or the smaller."""

    def spelling(c: Call) -> str:
        x, back = torch_in_front(c)
        text = f"extreme_at({x}, {c.a[1]}, {listed(c.a[2:])}, {kind!r})"
        return f"{text}.permute({back})" if back else text

    return spelling

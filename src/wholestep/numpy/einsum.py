"""einsum: any number of operands, taken two at a time in the order that opt_einsum finds cheapest."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from wholestep.dims import ASSUMED_SIZE, names, substitute
from wholestep.errors import ShapeError
from wholestep.frontend.array import Array, View
from wholestep.frontend.dispatch import covers
from wholestep.frontend.promotion import broadcast_to as broadcast_value, cast_to, checked, lift, promoted, wrap
from wholestep.frontend.ufuncs import assign_out
from wholestep.ir.graph import Value
from wholestep.numpy.contractions import contract_pair, shapes_of, summed_alone
from wholestep.numpy.creation import arange
from wholestep.numpy.movement import traced_array, transpose
from wholestep.primitives.contraction import LETTERS
from wholestep.primitives.logic import select
from wholestep.primitives.movement import broadcast, permute, reshape, slice_

Operand = tuple[Value, str]


@covers(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Any:
    """numpy.einsum, with ellipsis, repeated labels, sublists and any number of operands."""
    spec, arrays = subscripts(operands)
    dtype, casting = options.pop("dtype", None), options.pop("casting", "safe")
    if set(options) - {"order"}:
        raise TypeError(f"einsum() got an unexpected keyword argument {min(set(options) - {'order'})!r}")
    inputs, result = operand_labels(spec, arrays)
    sizes = label_sizes(spec, inputs, arrays)
    if len(arrays) == 1 and out is None and set(inputs[0]) == set(result):
        return remapped(traced_array(arrays[0]), inputs[0], result)
    values = promoted(*arrays)
    if dtype is not None:
        wanted = checked(dtype)
        if not np.can_cast(values[0].dtype, wanted, casting):
            raise TypeError(f"einsum: cannot cast {values[0].type} to {wanted} by the rule {casting!r}")
        values = [cast_to(v, wanted) for v in values]
    terms = [without_repeats(*without_ones(v, labels, sizes)) for v, labels in zip(values, inputs, strict=True)]
    made = wrap(contracted(terms, result, optimize))
    return made if out is None else assign_out("einsum", out, made)


def remapped(x: Array, labels: str, result: str) -> Array:
    """One operand without a sum: a view, as in NumPy, of its axes in another order or of its diagonals.

    NumPy leaves `dtype` aside here, and so does this.
    """
    if len(labels) == len(result):
        return transpose(x, [labels.index(c) for c in result])

    def put(base: Value, v: Value) -> Value:
        first = sorted(result, key=labels.index)
        ordered = permute(v, axes=tuple([result.index(c) for c in first]))
        spread = broadcast(ordered, shape=base.shape, axes=tuple([labels.index(c) for c in first]))
        return select(on_diagonals(base.shape, labels), spread, base)

    return x.view_through(
        View(
            lambda v: contracted([without_repeats(v, labels)], result, False),
            put,
            lambda plain: np.einsum(f"{labels}->{result}", plain),
        )
    )


def on_diagonals(shape: Sequence[Any], labels: str) -> Value:
    """A mask, true where the indices of axes with one label agree."""
    ndim = len(labels)

    def places(i: int) -> Any:
        return arange(shape[i]).reshape(tuple([-1 if k == i else 1 for k in range(ndim)]))

    agree = [places(i) == places(labels.index(c)) for i, c in enumerate(labels) if labels.index(c) < i]
    return broadcast_value(lift(reduce(operator.and_, agree)).value, tuple(shape))


@covers(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """numpy.einsum_path: a plan depends on shapes alone, so it is NumPy's own."""
    subscripts(operands)
    empty = [np.broadcast_to(np.empty((), x.dtype), x.shape) if isinstance(x, Array) else x for x in operands]
    planned: Any = np.einsum_path
    return planned(*empty, optimize=optimize, einsum_call=einsum_call)


def subscripts(operands: Sequence[Any]) -> tuple[str, list[Array]]:
    """The subscripts as text, and the operands: from either form of the call."""
    if not operands:
        raise ShapeError("einsum: takes subscripts and operands, or operands with their sublists")
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), [lift(x) for x in operands[1:]]
    pairs = len(operands) // 2
    arrays = [lift(x) for x in operands[: 2 * pairs : 2]]
    spec = ",".join([letters_of(s) for s in operands[1 : 2 * pairs : 2]])
    return spec + (f"->{letters_of(operands[-1])}" if len(operands) % 2 else ""), arrays


def letters_of(sublist: Any) -> str:
    """A sublist of integers as letters; Ellipsis as three dots."""
    ordered = LETTERS[26:] + LETTERS[:26]
    return "".join(["..." if item is Ellipsis else ordered[item] for item in sublist])


def operand_labels(spec: str, arrays: Sequence[Array]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, one letter for each axis."""
    left, arrow, result = spec.partition("->")
    terms = left.split(",")
    if len(terms) != len(arrays):
        raise ShapeError(f"einsum: {spec!r} names {len(terms)} operands, and {len(arrays)} are given")
    letters = set(spec) - set(".,->")
    strange = sorted(letters - set(LETTERS))
    if strange or "." in spec.replace("...", ""):
        raise ShapeError(f"einsum: {strange[0] if strange else '.'!r} in {spec!r} is no subscript")
    free = [c for c in LETTERS if c not in letters]
    extra = [a.ndim - len(t.replace("...", "")) for t, a in zip(terms, arrays, strict=True)]
    for term, array, more in zip(terms, arrays, extra, strict=True):
        if more < 0 or (more and "..." not in term):
            raise ShapeError(f"einsum: {term!r} in {spec!r} does not fit {array.type}")
    dots = [n if "..." in t else 0 for n, t in zip(extra, terms, strict=True)]
    ellipsis = "".join(free[: max(dots, default=0)])
    inputs = [t.replace("...", ellipsis[len(ellipsis) - n :]) for t, n in zip(terms, dots, strict=True)]
    if not arrow:
        together = "".join(terms).replace(".", "")
        return inputs, ellipsis + "".join(sorted(c for c in set(together) if together.count(c) == 1))
    if ellipsis and "..." not in result:
        raise ShapeError(f"einsum: the axes of the ellipsis are missing in the result of {spec!r}")
    result = result.replace("...", ellipsis)
    if len(set(result)) != len(result) or set(result) - set("".join(inputs)):
        raise ShapeError(f"einsum: the result of {spec!r} repeats a label, or has one that no operand has")
    return inputs, result


def label_sizes(spec: str, inputs: Sequence[str], arrays: Sequence[Array]) -> dict[str, Any]:
    """The size of each label; size 1 gives way to any other, but for a label that one operand repeats."""
    sizes: dict[str, Any] = {}
    for labels, array in zip(inputs, arrays, strict=True):
        for c, n in zip(labels, array.shape, strict=True):
            if n != array.shape[labels.index(c)]:
                raise ShapeError(f"einsum: {c!r} in {spec!r} stands for two sizes of {array.type}")
            known = sizes.get(c, 1)
            if known == 1:
                sizes[c] = n
            elif n != 1 and n != known:
                raise ShapeError(f"einsum: sizes {known} and {n} meet in {spec!r}: {shapes_of(arrays)}")
    return sizes


def without_ones(v: Value, labels: str, sizes: dict[str, Any]) -> Operand:
    """An operand without the axes of size 1 that stand for a longer one."""
    gone = [i for i, c in enumerate(labels) if v.shape[i] == 1 and sizes[c] != 1]
    if not gone:
        return v, labels
    kept = [i for i in range(v.ndim) if i not in gone]
    return reshape(v, shape=tuple([v.shape[i] for i in kept])), "".join([labels[i] for i in kept])


def without_repeats(v: Value, labels: str) -> Operand:
    """An operand with its diagonals taken where a label is repeated."""
    while len(set(labels)) < len(labels):
        j = next(i for i, c in enumerate(labels) if c in labels[:i])
        i = labels.index(labels[j])
        rest = [k for k in range(v.ndim) if k not in (i, j)]
        n, head = v.shape[i], tuple([v.shape[k] for k in rest])
        flat = reshape(permute(v, axes=(*rest, i, j)), shape=(*head, n * n))
        v = slice_(flat, start=(0,) * flat.ndim, stop=flat.shape, step=(*[1] * len(head), n + 1))
        labels = "".join([labels[k] for k in rest]) + labels[i]
    return v, labels


def contracted(terms: list[Operand], result: str, optimize: Any) -> Value:
    """All operands multiplied and summed, two at a time."""
    for places in order([labels for _, labels in terms], result, [v.shape for v, _ in terms], optimize):
        group = [terms[i] for i in places]
        terms = [t for i, t in enumerate(terms) if i not in places]
        while len(group) > 1:
            (x, a), (y, b) = group[:2]
            needed = set(result).union(*[labels for _, labels in (*terms, *group[2:])])
            out = "".join([c for c in dict.fromkeys(a + b) if c in needed])
            out = result if set(out) == set(result) and not terms and len(group) == 2 else out
            group = [(contract_pair(x, a, y, b, out), out), *group[2:]]
        terms += group
    v, labels = summed_alone(*terms[0], result)
    if labels == result:
        return v
    ordered: Value = permute(v, axes=tuple([labels.index(c) for c in result]))
    return ordered


def order(labels: list[str], result: str, shapes: list[Any], optimize: Any) -> Sequence[tuple[int, ...]]:
    """The operands to contract, step by step; results go to the end of the list."""
    if len(labels) < 3:
        return [tuple(range(len(labels)))]
    if isinstance(optimize, list | tuple) and optimize and optimize[0] == "einsum_path":
        return [tuple(step) for step in optimize[1:]]
    likely = [tuple([substitute(n, dict.fromkeys(names(n), ASSUMED_SIZE)) for n in s]) for s in shapes]
    return cheapest(f"{','.join(labels)}->{result}", tuple(likely))


@lru_cache(maxsize=1024)
def cheapest(spec: str, shapes: tuple[tuple[int, ...], ...]) -> Sequence[tuple[int, ...]]:
    """The order that opt_einsum finds."""
    import opt_einsum

    path: Sequence[tuple[int, ...]] = opt_einsum.contract_path(spec, *shapes, shapes=True)[0]
    return path

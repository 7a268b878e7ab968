"""Masks of scores that a program writes out, sorted into known, causal and dynamic ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import OPS, NDArray, Value
from wholestep.primitives.attention_dropout import spread_thin
from wholestep.primitives.creation import cast
from wholestep.primitives.logic import bitwise_and
from wholestep.primitives.movement import broadcast, reshape

NOTHING = -1e9
"""The largest score that counts as masked, if its row has other scores."""
FAINT = -1e6
"""The largest masked score after scaling: far below every other score whose exponential is not 0 beside it."""
MOST_STEPS = 40
"""The most operations by which a known mask is computed from constants."""


ROWS = 256
"""The number of rows of a mask that are compared at a time, so that no second array of its size is made."""


class Thin(NamedTuple):
    """A value that is broadcast to the shape of the scores: each of its axes is one of theirs."""

    value: Value
    axes: tuple[int, ...]

    def spread(self, x: Any, sizes: Sequence[int]) -> Any:
        """An array or value of this shape with an axis of size 1 for each axis of the scores that it lacks."""
        at = dict(zip(self.axes, self.value.shape, strict=True))
        shape = tuple([at.get(i, 1) for i in range(len(sizes))])
        return OPS["reshape"](x, shape=shape) if isinstance(x, Value) else x.reshape(shape)


def thinned(v: Value, axes: tuple[int, ...]) -> Thin:
    """A value without the broadcasts that repeat it, and without axes of size 1."""
    while v.node is not None:
        node, inner = v.node, v.node.inputs[0] if v.node.inputs else v
        if node.op is broadcast:
            axes = tuple([axes[a] for a in node.params["axes"]])
        elif node.op is reshape:
            kept = [a for a, n in zip(axes, v.shape, strict=True) if n != 1]
            if [n for n in v.shape if n != 1] != [n for n in inner.shape if n != 1] or 1 in inner.shape:
                break
            axes = tuple(kept)
        elif not node.op.alias:
            break
        v = inner
    return Thin(v, axes)


def conjuncts(v: Value, axes: tuple[int, ...]) -> list[Thin]:
    """The masks of which a boolean one is the conjunction."""
    found, waiting = [], [thinned(v, axes)]
    while waiting:
        part = waiting.pop()
        node = part.value.node
        if node is not None and node.op is bitwise_and:
            waiting += [thinned(x, part.axes) for x in node.inputs]
        else:
            found.append(part)
    return found


def known_array(v: Value, steps: int = MOST_STEPS) -> NDArray | None:
    """The constant array that a value equals; None where it is not constant, or needs more steps than these."""
    node = v.node
    if (
        node is None
        or steps <= 0
        or node.op.multiple
        or node.op.nested
        or node.op.collective
        or node.op.kind == "random"
    ):
        return None
    given = []
    for x in node.inputs:
        found = known_array(x, steps // max(len(node.inputs), 1) - 1)
        if found is None:
            return None
        given.append(found)
    with np.errstate(all="ignore"):
        made: NDArray = np.asarray(node.op.ref(*given, **node.params))
    return made


class Mask(NamedTuple):
    """The keys that queries attend to: a boolean mask or numbers to add, thin, in the order of the scores' axes."""

    causal: bool
    mask: Value | None
    seen: Value | None
    """True at the keys that a query attends to, of a mask that is known only at run time; a row may have none."""


def is_causal(part: Thin, seen: NDArray, ndim: int) -> bool:
    """True where a mask lets each query see the keys up to its own position; compared a few rows at a time."""
    if part.axes != (ndim - 2, ndim - 1):
        return False
    keys = np.arange(seen.shape[1])
    for start in range(0, len(seen), ROWS):
        some = seen[start : start + ROWS]
        if not (some == (keys <= np.arange(start, start + len(some))[:, None])).all():
            return False
    return True


def conjunction(x: Value | None, y: Value) -> Value:
    """The conjunction of two masks with axes of size 1; the other one where there is none."""
    if x is None:
        return y
    shape = np.broadcast_shapes(x.shape, y.shape)
    made: Value = OPS["bitwise_and"](spread_thin(x, shape), spread_thin(y, shape))
    return made


def sum_of_masks(x: Value | None, y: Value) -> Value:
    """The sum of two masks with axes of size 1; the other one where there is none."""
    if x is None:
        return y
    shape = np.broadcast_shapes(x.shape, y.shape)
    made: Value = spread_thin(x, shape) + spread_thin(y, shape)
    return made


def forbidding(seen: Value, like: Value) -> Value:
    """A boolean mask as numbers to add: 0 and -inf."""
    zero = OPS["full"](value=0, shape=seen.shape, dtype=like.dtype)
    nothing = OPS["full"](value=-np.inf, shape=seen.shape, dtype=like.dtype)
    made: Value = OPS["select"](seen, zero, nothing)
    return made


class WrittenMasks(NamedTuple):
    """The masks of a softmax as they are found, before anything is emitted."""

    seen: tuple[Thin, ...]
    """Boolean ones, of which all must hold."""
    hidden: tuple[Thin, ...]
    """Boolean masks that are true at hidden keys."""
    added: tuple[tuple[Thin, float], ...]
    """Numbers to add, and the factor of each."""
    terms: tuple[Value, ...]
    """These numbers as operands of the sum, which may depend on differentiated values."""
    floor: float
    """The largest finite score that replaces a masked one; -inf where there is none."""


class KnownMasks(NamedTuple):
    """Masks sorted into those that are known and those that are not."""

    causal: bool
    constants: tuple[tuple[Thin, NDArray], ...]
    """Boolean ones that are known, but for a causal one."""
    dynamic: tuple[tuple[Thin, bool], ...]
    """Boolean masks that are not known, each with True if it marks the keys that are seen, not the hidden ones."""
    added: tuple[tuple[Thin, float], ...]


def sorted_masks(shown: WrittenMasks, scores: tuple[int, ...], guarded: bool = False) -> KnownMasks | None:
    """The masks of scores, sorted into known and dynamic ones; None where all keys of a row may be masked by finite
    scores, or where a later operation has raised masked scores above `FAINT`.

    With `guarded` the result of a row without a key is 0, so that a known mask may leave a row without one.
    """
    if shown.floor > FAINT:
        return None
    causal, finite, constants, dynamic, added = False, shown.floor > -np.inf, [], [], []
    for part, positive in [*[(x, True) for x in shown.seen], *[(x, False) for x in shown.hidden]]:
        array = known_array(part.value)
        if array is None:
            dynamic.append((part, positive))
            continue
        constants.append((part, array if positive else ~array))
    for part, factor in shown.added:
        array = known_array(part.value)
        numbers = None if array is None else array * factor
        if numbers is not None and bool(((numbers == 0) | (numbers <= NOTHING)).all()):
            constants.append((part, numbers == 0))
            finite |= bool(np.isfinite(numbers).all())
        else:
            added.append((part, factor))
    if finite and dynamic:
        return None
    rest: list[tuple[Thin, NDArray]] = []
    for part, seen in constants:
        if is_causal(part, seen, len(scores)):
            causal = True
        elif not seen.all():
            rest.append((part, seen))
    # Each row of a causal mask alone has the first key.
    whole = guarded or not rest or rows_have_keys(constants, scores)
    return KnownMasks(causal, tuple(rest), tuple(dynamic), tuple(added)) if whole else None


def rows_have_keys(constants: Sequence[tuple[Thin, NDArray]], scores: tuple[int, ...]) -> bool:
    """True where known masks together leave each row a key."""
    whole: NDArray = np.ones((1,) * len(scores), bool)
    for part, seen in constants:
        whole = whole & part.spread(seen, scores)
    return bool(whole.any(axis=-1).all())


def emitted_mask(known: KnownMasks, scores: tuple[int, ...], like: Value) -> Mask:
    """The single mask that combines all of these, in the current builder."""
    seen: Value | None = None
    for part, array in known.constants:
        seen = conjunction(seen, part.spread(OPS["constant"](value=array), scores))
    shown: Value | None = None
    for part, positive in known.dynamic:
        own = part.value if positive else OPS["bitwise_not"](part.value)
        shown = conjunction(shown, part.spread(own, scores))
    total: Value | None = None
    for part, factor in known.added:
        own = part.value if part.value.dtype == like.dtype else OPS["cast"](part.value, dtype=like.dtype)
        own = own if factor == 1 else own * factor
        total = sum_of_masks(total, part.spread(own, scores))
    loose = shown
    if total is not None:
        floor = OPS["full"](value=-np.inf, shape=total.shape, dtype=total.dtype)
        loose = conjunction(shown, OPS["not_equal"](total, floor))
    if loose is not None:
        loose = loose if seen is None else conjunction(seen, loose)
        loose = conjunction(loose, causal_mask(scores)) if known.causal else loose
    seen = shown if seen is None else seen if shown is None else conjunction(seen, shown)
    if total is None:
        return Mask(known.causal, seen, loose)
    return Mask(known.causal, total if seen is None else sum_of_masks(total, forbidding(seen, total)), loose)


def causal_mask(scores: tuple[int, ...]) -> Value:
    """True where a key's place is that of the query, or before it."""
    shape = (*[1] * (len(scores) - 2), *scores[-2:])
    query, key = [OPS["iota"](shape=shape, axis=len(scores) - i, dtype=np.dtype(np.int32)) for i in (2, 1)]
    made: Value = OPS["less_equal"](key, query)
    return made


def number_of_all(v: Value) -> float | None:
    """The real number that all elements of a value equal; None where they are not one known real number."""
    node = v.node
    while node is not None and node.op in (broadcast, reshape, cast):
        node = node.inputs[0].node
    if node is None or not dtypes.is_inexact(v.dtype) or dtypes.is_complex(v.dtype):
        return None
    if node.op.uniform or (node.op.literal and np.size(node.params["value"]) == 1):
        return float(np.asarray(node.params["value"]).reshape(()))
    return None

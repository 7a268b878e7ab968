"""NumPy's products: matmul, dot, tensordot, einsum and their kin, each a sequence of two-operand contractions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.errors import ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds, covers
from wholestep.frontend.promotion import broadcast_shapes, broadcast_to, cast_to, lift, promoted, wrap
from wholestep.ir.graph import Value
from wholestep.numpy.movement import axis_of, moveaxis, normalized_axes, reshape
from wholestep.primitives.arithmetic import conj
from wholestep.primitives.contraction import LETTERS, contract
from wholestep.primitives.reduction import any_, sum_


def products_summed(x: Value, y: Value, *, spec: str) -> Value:
    """A contraction of numbers; of truth values the disjunction of products, by counting the true ones."""
    if x.dtype.kind != "b":
        made: Value = contract(x, y, spec=spec)
        return made
    count: Value = contract(cast_to(x, np.dtype(np.int32)), cast_to(y, np.dtype(np.int32)), spec=spec)
    return ~count.equals(0)


@covers(np.matmul)
def matmul(x1: Any, x2: Any, /) -> Array:
    """numpy.matmul."""
    x, y = operands(x1, x2)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(f"matmul: a scalar has no rows: {x.type} @ {y.type}", hint="use * for scalars")
    inner_x, inner_y = x.shape[-1], y.shape[0 if y.ndim == 1 else -2]
    if inner_x != inner_y:
        raise ShapeError(
            f"matmul: inner sizes differ: {x.type} @ {y.type}",
            hint="the left operand's last axis must equal the right operand's second-last",
        )
    if x.ndim <= 2 and y.ndim <= 2:
        a, b = ("j", "ij")[x.ndim - 1], ("j", "jk")[y.ndim - 1]
        return wrap(products_summed(x, y, spec=f"{a},{b}->{a[:-1]}{b[1:]}"))
    head = broadcast_shapes("matmul", [x.shape[:-2], y.shape[:-2]])
    letters = LETTERS[: len(head)]
    a, x = _headed(x, head, letters, "XY")
    b, y = _headed(y, head, letters, "YZ" if y.ndim > 1 else "Y")
    if x.ndim == len(a) and len(a) == 1:
        a = "Y"
    out = letters + a.replace("Y", "").translate(_no(letters)) + b.replace("Y", "").translate(_no(letters))
    return wrap(products_summed(x, y, spec=f"{a},{b}->{out}"))


def _no(letters: str) -> dict[int, None]:
    return {ord(c): None for c in letters}


def _headed(v: Value, head: tuple[Any, ...], letters: str, tail: str) -> tuple[str, Value]:
    """An operand's labels, its leading axes broadcast where they are of size 1 and the other's are not."""
    if v.ndim == 1:
        return "Y", v
    own = v.shape[:-2]
    used = letters[len(letters) - len(own) :] if own else ""
    wanted = head[len(head) - len(own) :] if own else ()
    if own != wanted:
        v = broadcast_to(v, (*wanted, *v.shape[-2:]))
    return used + tail, v


def operands(x1: Any, x2: Any) -> tuple[Value, Value]:
    """Two operands in one dtype, Python numbers as the arrays that NumPy makes of them."""
    x, y = promoted(lift(x1), lift(x2))
    return x, y


@binds(np.dot, casting="exact")
def dot(a: Any, b: Any) -> Any:
    """numpy.dot."""
    x, y = operands(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return lift(a) * lift(b)
    if x.shape[-1] != y.shape[0 if y.ndim == 1 else -2]:
        raise ShapeError(
            f"dot: inner sizes differ: {x.type} and {y.type}",
            hint="the left operand's last axis must equal the right operand's second-last",
        )
    left = LETTERS[: x.ndim - 1]
    right = LETTERS[x.ndim - 1 : x.ndim + y.ndim - 2]
    spec_y = "Z" if y.ndim == 1 else f"{right[:-1]}Z{right[-1]}"
    return wrap(products_summed(x, y, spec=f"{left}Z,{spec_y}->{left}{right}"))


@covers(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """numpy.inner."""
    x, y = operands(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return lift(a) * lift(b)
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"inner: last sizes differ: {x.type} and {y.type}")
    left, right = LETTERS[: x.ndim - 1], LETTERS[x.ndim - 1 : x.ndim + y.ndim - 2]
    return wrap(products_summed(x, y, spec=f"{left}Z,{right}Z->{left}{right}"))


@binds(np.outer, casting="exact")
def outer(a: Any, b: Any) -> Any:
    """numpy.outer."""
    return lift(a).ravel()[:, None] * lift(b).ravel()[None, :]


@covers(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """numpy.vdot: the first operand conjugated, both flattened."""
    x, y = operands(lift(a).ravel(), lift(b).ravel())
    if x.shape != y.shape:
        raise ShapeError(f"vdot: sizes differ: {x.type} and {y.type}")
    return wrap(products_summed(conj(x) if x.dtype.kind == "c" else x, y, spec="i,i->"))


@covers(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """numpy.tensordot."""
    x, y = operands(a, b)
    if isinstance(axes, int | np.integer):
        n = int(axes)
        axes = (list(range(x.ndim - n, x.ndim)), list(range(n)))
    ax, ay = [[i] if isinstance(i, int | np.integer) else list(i) for i in axes]
    left, right = normalized_axes("tensordot", ax, x.ndim), normalized_axes("tensordot", ay, y.ndim)
    if len(left) != len(right) or any(x.shape[i] != y.shape[j] for i, j in zip(left, right, strict=True)):
        raise ShapeError(f"tensordot: axes {axes} do not match: {x.type} and {y.type}")
    a_labels, b_labels = list(LETTERS[: x.ndim]), list(LETTERS[x.ndim : x.ndim + y.ndim])
    for i, j in zip(left, right, strict=True):
        b_labels[j] = a_labels[i]
    out = [c for c in a_labels if c not in b_labels] + [c for c in b_labels if c not in a_labels]
    return Array(products_summed(x, y, spec=f"{''.join(a_labels)},{''.join(b_labels)}->{''.join(out)}"))


@covers(np.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """numpy.vecdot: inner products along an axis, the first operand conjugated."""
    x, y = operands(x1, x2)
    for v in (x, y):
        if v.ndim == 0:
            raise ShapeError(f"vecdot: a scalar has no axis: {x.type} and {y.type}")
    a = moveaxis(wrap(x), axis_of("vecdot", axis, x.ndim), -1).value
    b = moveaxis(wrap(y), axis_of("vecdot", axis, y.ndim), -1).value
    return stacked_matmul("vecdot", conj(a) if a.dtype.kind == "c" else a, "Z", b, "Z", "")


@covers(np.matvec)
def matvec(x1: Any, x2: Any, /) -> Any:
    """numpy.matvec: stacks of matrices times stacks of vectors."""
    x, y = operands(x1, x2)
    return stacked_matmul("matvec", x, "YZ", y, "Z", "Y")


@covers(np.vecmat)
def vecmat(x1: Any, x2: Any, /) -> Any:
    """numpy.vecmat: stacks of vectors, conjugated, times stacks of matrices."""
    x, y = operands(x1, x2)
    return stacked_matmul("vecmat", conj(x) if x.dtype.kind == "c" else x, "Z", y, "ZY", "Y")


def stacked_matmul(name: str, x: Value, a: str, y: Value, b: str, out: str) -> Array:
    """A contraction of the last axes, named by a and b, over leading axes that broadcast."""
    if x.ndim < len(a) or y.ndim < len(b):
        raise ShapeError(f"{name}: too few axes: {x.type} and {y.type}")
    if x.shape[x.ndim - len(a) + a.index("Z")] != y.shape[y.ndim - len(b) + b.index("Z")]:
        raise ShapeError(f"{name}: inner sizes differ: {x.type} and {y.type}")
    heads = [x.shape[: x.ndim - len(a)], y.shape[: y.ndim - len(b)]]
    head = broadcast_shapes(name, heads)
    letters = LETTERS[: len(head)]
    made: list[Any] = []
    for v, own, tail in ((x, heads[0], a), (y, heads[1], b)):
        labels = letters[len(head) - len(own) :]
        made += [broadcast_to(v, (*head[len(head) - len(own) :], *v.shape[len(own) :])), labels + tail]
    x, a, y, b = made
    return wrap(products_summed(x, y, spec=f"{a},{b}->{letters}{out}"))


@covers(np.kron)
def kron(a: Any, b: Any) -> Array:
    """numpy.kron: every element of a times the whole of b."""
    x, y = lift(a), lift(b)
    ndim = max(x.ndim, y.ndim)
    left, right = (1,) * (ndim - x.ndim) + x.shape, (1,) * (ndim - y.ndim) + y.shape
    wide_left = reshape(x, [n for size in left for n in (size, 1)])
    wide_right = reshape(y, [n for size in right for n in (1, size)])
    return wrap(reshape(wide_left * wide_right, [m * n for m, n in zip(left, right, strict=True)]).value)


def summed_alone(v: Value, labels: str, elsewhere: str) -> tuple[Value, str]:
    """An operand with the labels that stand nowhere else summed away."""
    alone = tuple([i for i, c in enumerate(labels) if c not in elsewhere])
    if not alone:
        return v, labels
    add = any_ if v.dtype.kind == "b" else sum_
    return add(v, axes=alone), "".join([c for i, c in enumerate(labels) if i not in alone])


def contract_pair(x: Value, a: str, y: Value, b: str, out: str) -> Value:
    """One two-operand step of an einsum."""
    x, a = summed_alone(x, a, b + out)
    y, b = summed_alone(y, b, a + out)
    return products_summed(x, y, spec=f"{a},{b}->{out}")


def shapes_of(arrays: Sequence[Array]) -> str:
    """The types of operands, for messages."""
    return ", ".join(str(a.type) for a in arrays)

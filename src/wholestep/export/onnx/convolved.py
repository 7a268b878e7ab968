"""Products with windows that Conv or ConvTranspose computes, and kernels before their reversal by a program."""

from __future__ import annotations

from wholestep.export.convolutions import ConvolvedProduct
from wholestep.export.onnx.kernels import wider
from wholestep.ir.graph import Value
from wholestep.passes.rewrite import defining_node

NARROW = 32
"""The most channels of a result that ConvTranspose makes faster than Conv, by up to 1.4 times on one thread."""


def onnx_convolves(c: ConvolvedProduct) -> bool:
    """True where Conv has the dtype, and the padding: no zeros between elements, and none cut off; or ConvTranspose."""
    plain = {*c.gaps} == {1} and min((*c.before, *c.after)) >= 0
    return wider("Conv", c.source.dtype) is not None and (plain or flipped_kernel(c) is not None)


def flipped_kernel(c: ConvolvedProduct) -> Value | None:
    """The kernel before it was flipped, where a convolution is a ConvTranspose with it; None where it is none, or Conv.

    A result of few channels is a product with a matrix of as few rows in Conv, and of them times the places of the
    kernel in ConvTranspose.
    """
    own = defining_node(c.other, "flip")
    along = {c.other_letters.index(q) for q in c.kernel}
    if own is None or {*own.params["axes"]} != along or c.of_kernel or {*c.strides} != {1}:
        return None
    if not (c.is_plain and c.is_whole):
        return None
    before, after = cut_off(c)
    held = min(before) >= 0 and all([-n < gap for n, gap in zip(after, c.gaps, strict=True)])
    return own.inputs[0] if held and ({*c.gaps} != {1} or c.count(c.features) <= NARROW) else None


def stored_kernel(c: ConvolvedProduct) -> Value:
    """The kernel that the operator reads."""
    flipped = flipped_kernel(c)
    return c.other if flipped is None else flipped


def cut_off(c: ConvolvedProduct) -> tuple[list[int], list[int]]:
    """Elements that ConvTranspose is to cut off before and behind its result along each axis; negative ones it adds."""
    before, after = list[int](), list[int]()
    for i, n in enumerate(c.spatial):
        span = (c.sizes[c.kernel[i]] - 1) * c.dilations[i]
        before.append(span - c.before[i])
        after.append((n - 1) * c.gaps[i] + span + 1 - before[-1] - c.sizes[c.places[i]])
    return before, after

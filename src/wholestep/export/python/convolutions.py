"""Convolutions in Python sources: operands brought into the order of axes that a library's convolution has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wholestep.export.convolutions import ConvolvedProduct, Ints, Letters
from wholestep.export.python.vocabulary import Call, PythonTarget


class MovedText(NamedTuple):
    """An expression and the shape of its value; a permute or a reshape that changes nothing is not written."""

    target: PythonTarget
    text: str
    shape: Ints

    def permute(self, axes: Sequence[int]) -> MovedText:
        """The same with its axes in another order."""
        if list(axes) == list(range(len(axes))):
            return self
        text = str(self.target.words["permute"]).format(self.text, axes=tuple(axes))
        return self._replace(text=text, shape=tuple([self.shape[a] for a in axes]))

    def reshape(self, shape: Ints) -> MovedText:
        """The same elements in another shape."""
        if tuple(shape) == self.shape:
            return self
        text = str(self.target.words["reshape"]).format(self.text, shape=tuple(shape))
        return self._replace(text=text, shape=tuple(shape))


def images_as_text(call: Call, c: ConvolvedProduct) -> str:
    """The source as [rows, groups * channels, *spatial]."""
    return source_as_text(call, c, c.rows, (*c.groups, *c.channels))


def source_as_text(call: Call, c: ConvolvedProduct, first: Letters, second: Letters) -> str:
    """The source with two axes before the windowed ones."""
    k, lead = len(c.kernel), (*first, *second)
    x = MovedText(call.target, call.a[0], c.source.shape)
    orders = [c.lead.index(q) for q in lead], range(len(lead), len(lead) + k)
    if len(c.lead) == len(c.axes) - k and x.permute(c.axes).shape[: len(c.lead)] == c.shape(c.lead):
        x = x.permute([c.axes[a] for order in orders for a in order])
    elif lead == c.lead:
        x = x.permute(c.axes)
    else:
        x = x.permute(c.axes).reshape((*c.shape(c.lead), *c.spatial)).permute([a for order in orders for a in order])
    return x.reshape((c.count(first), c.count(second), *c.spatial)).text


def kernels_as_text(call: Call, c: ConvolvedProduct, turned: bool = False) -> str:
    """The other operand as [groups * features, channels, *kernel]; `turned`, [groups * channels, features, *kernel]."""
    first, second = (c.channels, c.features) if turned else (c.features, c.channels)
    return other_as_text(call, c, (*c.groups, *first), second)


def other_as_text(call: Call, c: ConvolvedProduct, first: Letters, second: Letters) -> str:
    """The other operand with two axes before those of the kernel."""
    y = MovedText(call.target, call.a[1], c.other.shape)
    y = y.permute([c.other_letters.index(q) for q in (*first, *second, *c.kernel)])
    return y.reshape((c.count(first), c.count(second), *c.shape(c.kernel))).text


def result_as_text(call: Call, c: ConvolvedProduct, text: str, rows_first: bool = True) -> str:
    """The result of a convolution, [rows, groups * features, *places], in the order of the product's axes.

    The gradient of a kernel is [groups * features, rows, *places] instead.
    """
    lead = (c.rows, (*c.groups, *c.features)) if rows_first else ((*c.groups, *c.features), c.rows)
    made = MovedText(call.target, text, (*[c.count(part) for part in lead], *c.shape(c.places)))
    letters = (*lead[0], *lead[1], *c.places)
    return made.reshape(c.shape(letters)).permute([letters.index(q) for q in c.out]).text


def named_axes(call: Call, c: ConvolvedProduct) -> tuple[str, str, tuple[str, str, str], Ints] | None:
    """Both operands with their channels last, as XLA's convolution of a CPU has them, the names of their axes and of
    the result's, and the order that brings the result's back; None where one of them is several axes.

    The gradient of a kernel sums over the axes that are rows otherwise, which come first.
    """
    if not c.is_plain:
        return None
    k = len(c.kernel)
    if len(c.lead) != 2 or len(c.axes) != k + 2:
        return None
    first, last = (c.channels, c.rows) if c.of_kernel else (c.rows, c.channels)
    spatial = "".join(map(str, range(k)))
    lead = [c.axes[c.lead.index(q)] for q in (*first, *last)]
    x = MovedText(call.target, call.a[0], c.source.shape).permute([lead[0], *c.axes[2:], lead[1]])
    y = MovedText(call.target, call.a[1], c.other.shape)
    inner = {c.features[0]: "O", c.channels[0]: "I"} | {q: str(i) for i, q in enumerate(c.kernel)}
    letters = (*c.channels, *c.kernel, *c.features) if c.of_kernel else tuple(c.other_letters)
    y = y.permute([c.other_letters.index(q) for q in letters])
    outer = {c.rows[0]: "N", c.features[0]: "C"} | {q: str(i) for i, q in enumerate(c.places)}
    made = tuple(c.out) if c.of_kernel else (*c.rows, *c.places, *c.features)
    kernel, out = "".join([inner[q] for q in letters]), "".join([outer[q] for q in made])
    source = f"C{spatial}N" if c.of_kernel else f"N{spatial}C"
    return x.text, y.text, (source, kernel, out), tuple([made.index(q) for q in c.out])

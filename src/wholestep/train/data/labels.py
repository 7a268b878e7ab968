"""Labels of any type encoded as the integers that programs compute with, and decoded again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray


def encode_labels(labels: Any, classes: Sequence[Any] | None = None) -> tuple[NDArray, NDArray]:
    """Labels as int64 codes, which are indices into the classes: `classes[codes]` are the labels again.

    `labels` is a list, a series or an array, of text or of anything that NumPy sorts. Classes are sorted, unless
    `classes` lists them in another order, as for data that is encoded with the classes of the training data.

    Shapes: labels [n]; codes i64[n], classes [k] of the labels' dtype.
    Raises: DtypeError for labels that cannot be sorted, such as text beside numbers or a missing value, ParameterError
    for a label that is none of the classes, and for a class that comes twice, ShapeError for `labels` and `classes`
    that are no lists.

    >>> codes, classes = encode_labels(["cat", "dog", "cat"])
    >>> codes.tolist(), classes.tolist(), classes[codes].tolist()
    ([0, 1, 0], ['cat', 'dog'], ['cat', 'dog', 'cat'])
    >>> encode_labels(["dog", "dog"], classes)[0].tolist()
    [1, 1]
    """
    given = label_array(labels)
    try:
        found, codes = np.unique(given, return_inverse=True)
    except TypeError:
        raise DtypeError(
            f"encode_labels: labels of dtype {given.dtype} that cannot be compared with each other",
            hint="fill in missing labels first, or leave these rows out",
        ) from None
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise DtypeError("encode_labels: there is a label nan", hint="fill in missing labels, or leave these rows out")
    codes = codes.reshape(given.shape).astype(np.int64)
    if classes is None:
        return codes, found
    wanted = np.asarray(classes)
    if wanted.ndim != 1:
        raise ShapeError(f"encode_labels: classes has {wanted.ndim} axes", hint="it is a list of labels")
    numbers = {label: i for i, label in enumerate(wanted.tolist())}
    if len(numbers) != len(wanted):
        raise ParameterError("encode_labels: a class comes twice in classes")
    unknown = [label for label in found.tolist() if label not in numbers]
    if unknown:
        raise ParameterError(
            f"encode_labels: label {unknown[0]!r} is none of the {len(wanted)} classes",
            hint="classes= are those of the training data; leave rows of other classes out",
        )
    return np.array([numbers[label] for label in found.tolist()], np.int64)[codes], wanted


def label_array(labels: Any) -> NDArray:
    """Labels as an array; raises DtypeError where NumPy would make text of a number, ShapeError for no list of labels.

    >>> label_array(["b", "a"]).tolist()
    ['b', 'a']
    """
    listed = np.array(labels, object)
    try:
        given = np.asarray(labels)
    except ValueError:  # lists of several lengths
        given = np.array(None)
    if not given.ndim:
        raise ShapeError("encode_labels: labels is no list of labels", hint="encode_labels([label])")
    changed = given.dtype.kind in "US" and not isinstance(labels, np.ndarray)
    if changed and (odd := next((x for x in listed.flat if not isinstance(x, str | bytes)), None)) is not None:
        raise DtypeError(
            f"encode_labels: there is text, and a label {odd!r} of type {type(odd).__name__}",
            hint="fill in missing labels, and make text of all labels: [str(label) for label in labels]",
        )
    return given

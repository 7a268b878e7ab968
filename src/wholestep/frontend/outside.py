"""Conversion of foreign data to NumPy arrays: tensors, data frames, series, lists of numbers.

No library is imported for it: an object exists only once its library has been imported. Nothing is cast either: an
array keeps the dtype that it has there, and only plain Python numbers, which have none, take one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, tree
from wholestep.errors import DtypeError, ShapeError, TreeError
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.tracing import LEAVES
from wholestep.ir.graph import NDArray
from wholestep.words import type_in_words

OWN = (*LEAVES, ShapeDtype, str, bytes, type)
"""The types of leaves that are not converted: traced and NumPy arrays, numbers, shapes, text, classes."""

CPU = (1, 3)
"""DLPack's numbers of devices whose memory the processor reads: its own, and memory pinned for a GPU."""

ENCODE = "codes, classes = ws.encode_labels(labels) makes integers of them; classes[codes] is the way back"


def foreign(x: Any) -> bool:
    """Test whether a leaf is an array, a table or a mapping of another library."""
    if isinstance(x, OWN):
        return False
    return is_table(x) or any(hasattr(x, name) for name in ("__array__", "__dlpack__", "to_numpy"))


def is_table(x: Any) -> bool:
    """Test whether a leaf is a mapping, a data frame or one of Arrow's tables."""
    frame = hasattr(x, "columns") and hasattr(x, "to_numpy")
    return isinstance(x, Mapping) or frame or (hasattr(x, "column_names") and hasattr(x, "schema"))


def taken_over(given: Any, root: str, what: str, lists: bool = True) -> Any:
    """A tree with NumPy arrays in place of foreign ones; a table becomes a dictionary of its columns.

    Lists of nothing but Python numbers, or of such lists, become arrays where `lists` says so; every other list, tuple
    and dictionary stays a container. Raises DtypeError, TreeError or ShapeError that name the path of a leaf that
    cannot be converted.
    """
    leaves, structure = tree.flatten(given, is_numbers if lists else None)
    if not any([isinstance(x, list) or foreign(x) or textual(x) for x in leaves]):
        return given
    paths = tree.paths(tree.unflatten(structure, range(len(leaves))), root)
    return tree.unflatten(structure, [one(x, path, what) for x, path in zip(leaves, paths, strict=True)])


def one(x: Any, path: str, what: str) -> Any:
    """One leaf as a NumPy array, or a plain value; a table as a dictionary of its columns."""
    if isinstance(x, list):
        return numbers(x, None, path, what)
    columns = columns_of(x, path, what)
    if columns is not None:
        return {name: one(column, tree.access(path, name), what) for name, column in columns.items()}
    return array(x, path, what) if foreign(x) else numeric(x, path, what)


def columns_of(x: Any, path: str = "", what: str = "") -> dict[Any, Any] | None:
    """The columns of a table, or the items of a mapping; None for everything else."""
    if isinstance(x, Mapping):
        return dict(x)
    if isinstance(x, OWN) or not is_table(x):
        return None
    arrow = hasattr(x, "column_names")
    names, get = (list(x.column_names), x.column) if arrow else (list(x.columns), x.__getitem__)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TreeError(f"{what}: {path} has two columns {twice!r}", hint="a table is a dictionary of its columns")
    return {name: get(name) for name in names}


def array(x: Any, path: str, what: str) -> NDArray:
    """An array of another library, in the memory where it lies wherever NumPy can read it there.

    A tensor that requires a gradient is taken as the values that it has: no gradient flows from here to its library.
    """
    shown = f"{what}: {path} is {type_in_words(x)}"
    try:
        device: Any = getattr(x, "__dlpack_device__", tuple)()
        lacking = missing(x)
        near = not device or int(device[0]) in CPU
        made = read_foreign(to_plain(x)) if near else None
    except Exception as error:  # of any kind: it is the other library's
        reason = str(error).strip().split("\n")[0]
        raise DtypeError(f"{shown}, of which NumPy makes no array: {reason}", hint="convert it to one first") from error
    if made is None:
        raise DtypeError(
            f"{shown} on {getattr(x, 'device', device)}, and programs run on the processor",
            hint="copy it there first: x.cpu() of torch, jax.device_get(x) of JAX",
        )
    if lacking:
        raise DtypeError(
            f"{shown} that lacks {lacking} of its values", hint="fillna or fill_null says what stands for them"
        )
    numeric(made, path, what)
    return made


def missing(x: Any) -> int:
    """The number of values that a series lacks by a mark of its dtype; a nan among plain floats is a value."""
    count = getattr(x, "null_count", 0)  # of polars a method, of Arrow a number
    found = count() if callable(count) else count
    if hasattr(x, "isna") and not isinstance(getattr(x, "dtype", None), np.dtype | None):
        found = x.isna().sum()
    return int(found) if isinstance(found, int | np.integer) else 0


def to_plain(x: Any) -> Any:
    """A tensor detached from its library's gradient, with pending conjugation and negation carried out."""
    if getattr(x, "requires_grad", False):
        x = x.detach()
    for name in ("resolve_conj", "resolve_neg"):
        x = getattr(x, name, lambda x=x: x)()
    return x


def read_foreign(x: Any) -> NDArray:
    """An array that NumPy reads; torch has a bfloat16 that it does not know, which every float32 holds exactly."""
    if str(getattr(x, "dtype", "")) == "torch.bfloat16":
        return np.asarray(x.float()).astype(dtypes.from_short("bf16"))
    if hasattr(x, "__array__"):
        return np.asarray(x)
    if hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return np.asarray(x.to_numpy())


def textual(x: Any) -> bool:
    """Test whether a leaf is text, or an array of text or of objects."""
    return isinstance(x, str | bytes) or (isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "OSUTMm")


def numeric(x: Any, path: str, what: str) -> Any:
    """The leaf; raises DtypeError with a remedy for text, dates and objects."""
    if not textual(x):
        return x
    shown = f"{what}: {path} is the text {x!r:.40}" if isinstance(x, str | bytes) else f"{what}: {path} holds {x.dtype}"
    kind = "U" if isinstance(x, str | bytes) else x.dtype.kind
    if kind == "O" and x.size and all(isinstance(item, str) for item in x.flat):
        shown, kind = f"{what}: {path} holds text as objects", "U"
    if kind in "Mm":
        raise DtypeError(f"{shown}, times", hint="numbers since some day, such as (x - day) / np.timedelta64(1, 'D')")
    if kind == "O":
        raise DtypeError(
            f"{shown}, Python objects",
            hint=".astype(float) converts numbers; fillna says what stands for a missing one; np.stack joins arrays",
        )
    raise DtypeError(f"{shown}, and programs compute with numbers", hint=ENCODE)


def is_numbers(x: Any) -> bool:
    """Test whether a list holds nothing but Python numbers and NumPy's, or lists of them."""
    return type(x) is list and bool(x) and all([held(item) for item in x])


def held(x: Any) -> bool:
    """Test whether an item of a list is a number, or a list or tuple of such."""
    if type(x) in (list, tuple):
        return bool(x) and all([held(item) for item in x])
    return isinstance(x, bool | int | float | complex | np.generic) and not textual(x)


def numbers(x: Sequence[Any], wanted: Any, path: str, what: str) -> NDArray:
    """A list of numbers as an array; Python's have no dtype, and take the wanted one where it is of their kind.

    Raises ShapeError for rows of different lengths, DtypeError for integers that the dtype does not hold.
    """
    try:
        made = np.asarray(x)
        if wanted is not None and suits(made.dtype, wanted) and all(type(n) in (int, float, complex) for n in flat(x)):
            made = np.asarray(x, wanted)
    except ValueError:
        raise ShapeError(
            f"{what}: {path} is a list of rows of different lengths",
            hint="fill them up to one length: wholestep.train.data.sources.padded does so for a loader",
        ) from None
    except OverflowError as error:
        raise DtypeError(f"{what}: {path}: {error}") from None
    numeric(made, path, what)
    return made


def suits(found: Any, wanted: Any) -> bool:
    """Test whether a dtype holds plain numbers of a kind: integers are numbers of every kind, floats no integers."""
    if dtypes.is_bool(wanted) or dtypes.is_bool(found):
        return False
    if dtypes.is_integer(found):
        return True
    return dtypes.is_inexact(wanted) and (dtypes.is_complex(wanted) or not dtypes.is_complex(found))


def flat(x: Any) -> list[Any]:
    """The numbers in a list of lists."""
    return [n for item in x for n in flat(item)] if isinstance(x, list | tuple) else [x]

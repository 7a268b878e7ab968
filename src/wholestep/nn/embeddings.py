"""Embeddings: rows of a table picked by integer ids, alone or as the mean, the sum or the largest of several."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import BoundsError, ParameterError, ShapeError
from wholestep.frontend.marks import stop_gradient
from wholestep.ir.graph import NDArray
from wholestep.nn import init
from wholestep.nn.exponentials import integer_index
from wholestep.nn.linears import linear, sized
from wholestep.nn.module import Module
from wholestep.nn.windows import type_text

BAG_MODES = ("mean", "sum", "max")
"""The ways to join the rows of a bag."""


def embedding(table: Any, ids: Any, padding_idx: int | None = None) -> NDArray:
    """The rows of a table at ids of any shape.

    Negative ids count from the end, as an index does. The row `padding_idx` gets no gradient.

    Shapes: table [count, width] and ids [...] of any integer dtype; [..., width] of the dtype of the table.
    Raises: DtypeError for ids that are not integer, ShapeError for another table, IndexError for an id that the table
    does not have, also from within a compiled program.
    Source: Bengio, Ducharme, Vincent and Jauvin, "A neural probabilistic language model", 2003.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.embedding(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 1, 0])).tolist()
    [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
    """
    rows, places = wnp.asarray(table), integer_index("embedding", ids)
    if rows.ndim != 2:
        raise ShapeError(f"embedding: the table is {type_text(rows)}; it must be [count, width]")
    found = wnp.take(rows, places, axis=0)
    if padding_idx is None:
        return found
    count = rows.shape[0]
    if not -count <= padding_idx < count:
        raise BoundsError(f"embedding: padding_idx {padding_idx} is outside of the {count} rows")
    padding = padding_idx % count
    still = (places == padding) | (places == padding - count)
    return wnp.where(still[..., None], stop_gradient(found), found)


class Embedding(Module):
    """`embedding` with a table [count, width] of its own, drawn from the standard normal distribution.

    The row `padding_idx` begins at 0 and gets no gradient. `attend` scores every row against x, for a head that is tied
    to the table. `key` is a seed or a key, `dtype` that of the table.

    Shapes: ids [...] of any integer dtype; [..., width]. `attend` takes [..., width] and gives [..., count].
    Raises: ParameterError for sizes that are not positive integers, IndexError for a padding_idx that is no row, and as
    `embedding` does.
    Source: as `embedding`; Press and Wolf, "Using the output embedding to improve language models", 2017, for `attend`.

    >>> import numpy as np, wholestep as ws
    >>> table = ws.nn.Embedding(10, 4, key=0)
    >>> table(np.array([[1, 2, 3]])).shape, table.attend(table(np.array([7]))).shape
    ((1, 3, 4), (1, 10))
    """

    _draws = True

    def __init__(
        self, count: int, width: int, *, key: Any = None, padding_idx: int | None = None, dtype: Any = np.float32
    ) -> None:
        sized("Embedding", count=count, width=width)
        table = init.normal(key, (count, width), dtype=dtype)
        if padding_idx is not None:
            if not -count <= padding_idx < count:
                raise BoundsError(f"Embedding: padding_idx {padding_idx} is outside of the {count} rows")
            table[padding_idx] = 0
        self.weight, self.padding_idx = table, padding_idx

    def __call__(self, ids: Any) -> NDArray:
        return embedding(self.weight, ids, self.padding_idx)

    def attend(self, x: Any) -> NDArray:
        """x @ table.T: [..., width] -> [..., count]."""
        return linear(x, self.weight.T)


def embedding_bag(
    table: Any, ids: Any, *, mode: str = "mean", mask: Any = None, padding_idx: int | None = None
) -> NDArray:
    """The mean, the sum or the largest elements of the rows of a table at the ids of each bag, the last axis of ids.

    `mode` is "mean", "sum" or "max". Ids where `mask` is False, and those that are `padding_idx`, are not in the bag; a
    bag without ids gives zeros.

    Shapes: table floats [count, width], ids [..., n] of any integer dtype, mask booleans of their shape; [..., width].
    Raises: ParameterError for another mode, ShapeError for a mask of another shape, and as `embedding` does.
    Source: PyTorch's embedding_bag.

    >>> import numpy as np, wholestep as ws
    >>> table = np.array([[1.0, 2.0], [3.0, 6.0]])
    >>> ws.nn.embedding_bag(table, np.array([[0, 1], [1, 1]]), mask=np.array([[True, True], [True, False]])).tolist()
    [[2.0, 4.0], [3.0, 6.0]]
    """
    if mode not in BAG_MODES:
        raise ParameterError(f"embedding_bag: mode is {mode!r}", hint=f"{', '.join(BAG_MODES)} are known")
    places = integer_index("embedding_bag", ids)
    if places.ndim < 1:
        raise ShapeError("embedding_bag: ids are one number", hint="the last axis of ids goes over the bag")
    rows = embedding(table, places, padding_idx)
    inside = wnp.ones(places.shape, bool) if mask is None else wnp.asarray(mask)
    if inside.shape != places.shape or not dtypes.is_bool(inside.dtype):
        raise ShapeError(
            f"embedding_bag: the mask is {type_text(inside)}, and the ids {type_text(places)}",
            hint="the mask is True for each id that is in its bag",
        )
    if padding_idx is not None:
        count = len(table)
        inside = inside & (places % count != padding_idx % count)
    return pool_bag(rows, inside[..., None], mode)


def pool_bag(rows: Any, inside: Any, mode: str) -> Any:
    """Rows [..., n, width] reduced along n where `inside` is True; zeros for a bag without rows."""
    if mode == "max":
        empty = ~wnp.any(inside, axis=-2)
        largest = wnp.max(wnp.where(inside, rows, -wnp.inf), axis=-2)
        return wnp.where(empty, 0, largest)
    wide = rows.astype(dtypes.compute_dtype(rows.dtype), copy=False)
    total = wnp.sum(wnp.where(inside, wide, 0), axis=-2)
    if mode == "mean":
        total = total / wnp.maximum(wnp.sum(inside, axis=-2), 1).astype(wide.dtype)
    return total.astype(rows.dtype, copy=False)


class EmbeddingBag(Embedding):
    """`embedding_bag` with a table [count, width] of its own, drawn from the standard normal distribution.

    `mode` and `padding_idx` are those of `embedding_bag`, `key` and `dtype` those of `Embedding`.

    Shapes: ids [..., n] of any integer dtype, mask booleans of their shape; [..., width].
    Raises: ParameterError for another mode, and as `Embedding` and `embedding_bag` do.
    Source: as `embedding_bag`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.EmbeddingBag(10, 4, key=0, mode="sum")(np.array([[1, 2, 3], [4, 4, 4]])).shape
    (2, 4)
    """

    def __init__(
        self,
        count: int,
        width: int,
        *,
        key: Any = None,
        mode: str = "mean",
        padding_idx: int | None = None,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(count, width, key=key, padding_idx=padding_idx, dtype=dtype)
        if mode not in BAG_MODES:
            raise ParameterError(f"EmbeddingBag: mode is {mode!r}", hint=f"{', '.join(BAG_MODES)} are known")
        self.mode = mode

    def __call__(self, ids: Any, *, mask: Any = None) -> NDArray:
        return embedding_bag(self.weight, ids, mode=self.mode, mask=mask, padding_idx=self.padding_idx)

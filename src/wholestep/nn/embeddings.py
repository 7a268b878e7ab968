"""Embeddings: rows of a table picked by integer ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import BoundsError, ShapeError
from wholestep.frontend.marks import stop_gradient
from wholestep.nn import init
from wholestep.nn.exponentials import integer_index
from wholestep.nn.linears import linear, sized
from wholestep.nn.module import Module
from wholestep.nn.windows import type_text


def embedding(table: Any, ids: Any, padding_idx: int | None = None) -> Any:
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
    to the table.

    Shapes: ids [...] of any integer dtype; [..., width]. `attend` takes [..., width] and gives [..., count].
    Raises: ParameterError for sizes that are not positive integers, IndexError for a padding_idx that is no row, and as
    `embedding` does.
    Source: as `embedding`; Press and Wolf, "Using the output embedding to improve language models", 2017, for `attend`.

    >>> import numpy as np, wholestep as ws
    >>> table = ws.nn.Embedding(10, 4, key=0)
    >>> table(np.array([[1, 2, 3]])).shape, table.attend(table(np.array([7]))).shape
    ((1, 3, 4), (1, 10))
    """

    def __init__(
        self, count: int, width: int, *, key: Any, padding_idx: int | None = None, dtype: Any = np.float32
    ) -> None:
        sized("Embedding", count=count, width=width)
        table = init.normal(key, (count, width), dtype=dtype)
        if padding_idx is not None:
            if not -count <= padding_idx < count:
                raise BoundsError(f"Embedding: padding_idx {padding_idx} is outside of the {count} rows")
            table[padding_idx] = 0
        self.weight, self.padding_idx = table, padding_idx

    def __call__(self, ids: Any) -> Any:
        return embedding(self.weight, ids, self.padding_idx)

    def attend(self, x: Any) -> Any:
        """x @ table.T: [..., width] -> [..., count]."""
        return linear(x, self.weight.T)

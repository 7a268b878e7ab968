"""Arrays in the dtype in which arithmetic on them is carried out: half precisions become float32."""

from __future__ import annotations

from typing import Any

from wholestep import dtypes, numpy as wnp


def working_array(x: Any) -> Any:
    """An array in the dtype of arithmetic on it."""
    array = wnp.asarray(x)
    return array.astype(dtypes.compute_dtype(array.dtype), copy=False)

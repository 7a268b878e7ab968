"""scipy.spatial: distances between vectors in `distance`, and `distance_matrix`.

>>> import numpy as np, wholestep as ws
>>> from wholestep.scipy import spatial
>>> spread = lambda x: spatial.distance.pdist(x).sum()
>>> ws.grad(spread)(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist()
[[-0.6, -0.8], [0.6, 0.8]]
"""

from __future__ import annotations

from typing import Any

import scipy.spatial

from wholestep.frontend.dispatch import binds
from wholestep.frontend.promotion import lift
from wholestep.scipy.outside import doubles, fallback, np
from wholestep.scipy.spatial import distance as distance, transform as transform

outside: Any = scipy.spatial


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


@binds(outside.distance_matrix, ignored="threshold")
def distance_matrix(x: Any, y: Any, p: Any = 2.0) -> Any:
    """scipy.spatial.distance_matrix."""
    rows, columns = distance.matrices("distance_matrix", doubles(lift(x)), doubles(lift(y)))
    return np.linalg.norm(rows[:, None, :] - columns[None, :, :], p, axis=-1)

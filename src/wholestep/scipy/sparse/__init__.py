"""scipy.sparse: the solvers of linear equations in `linalg`.

>>> import numpy as np, wholestep as ws
>>> from wholestep.scipy.sparse import linalg
>>> loss = lambda scale: linalg.cg(lambda x: scale * x, np.array([2.0, 4.0]))[0].sum()
>>> float(loss(2.0)), float(ws.grad(loss)(2.0))
(3.0, -1.5)
"""

from __future__ import annotations

from typing import Any

import scipy.sparse

from wholestep.scipy.outside import fallback
from wholestep.scipy.sparse import linalg as linalg

outside: Any = scipy.sparse


def __getattr__(name: str) -> Any:
    return fallback(outside, name)

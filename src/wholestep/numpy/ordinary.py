"""NumPy's classes and index objects that rewritten functions get ours for, since NumPy dispatches none of them."""

from __future__ import annotations

from typing import Any

from wholestep.frontend.dispatch import INSTANCES, JOINERS, REPLACED
from wholestep.numpy import types
from wholestep.numpy.application import broadcast, ndenumerate, nditer, vectorize
from wholestep.numpy.grids import c_, r_
from wholestep.numpy.outside import np
from wholestep.numpy.polynomial.series import VALUES, answered, constructor


def vectorized(f: Any) -> Any:
    """An object of numpy.vectorize as one of ours."""
    signature = getattr(f, "signature", None)
    return vectorize(f.pyfunc, f.otypes, f.__doc__, f.excluded, f.cache, signature)


INSTANCES[np.vectorize] = vectorized
INSTANCES.update(dict.fromkeys(VALUES, answered))
REPLACED.update({kind: constructor(kind) for kind in VALUES})
REPLACED.update({np.vectorize: vectorize, np.ndenumerate: ndenumerate, np.nditer: nditer, np.broadcast: broadcast})
REPLACED.update({t.outside: t for t in vars(types).values() if isinstance(t, types.ScalarType)})
JOINERS.update({type(np.r_): r_, type(np.c_): c_})

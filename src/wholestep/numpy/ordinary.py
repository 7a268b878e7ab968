"""NumPy's classes and index objects that rewritten functions get ours for, since NumPy dispatches none of them."""

from __future__ import annotations

from typing import Any

from wholestep.errors import UnsupportedError
from wholestep.frontend.dispatch import INSTANCES, JOINERS, REPLACED
from wholestep.ir.build import current
from wholestep.numpy import types
from wholestep.numpy.application import broadcast, ndenumerate, nditer, vectorize
from wholestep.numpy.grids import c_, r_
from wholestep.numpy.outside import np
from wholestep.numpy.polynomial.series import VALUES, answered, constructor


def vectorized(f: Any) -> Any:
    """An object of numpy.vectorize as one of ours."""
    signature = getattr(f, "signature", None)
    return vectorize(f.pyfunc, f.otypes, f.__doc__, f.excluded, f.cache, signature)


def errstate(**handling: Any) -> Any:
    """numpy.errstate; raises UnsupportedError for more than warnings where arrays have no values."""
    builder = current()
    asked = sorted({mode for mode in handling.values() if mode in ("raise", "call", "print", "log")})
    if asked and builder is not None and builder.evaluate is None:
        raise UnsupportedError(
            f"numpy.errstate: {asked[0]!r} has no effect on a compiled program, which does not report inf and nan",
            hint="return np.isfinite(x).all() beside the result, or call the function without jit",
        )
    return np.errstate(**handling)


INSTANCES[np.vectorize] = vectorized
REPLACED[np.errstate] = errstate
INSTANCES.update(dict.fromkeys(VALUES, answered))
REPLACED.update({kind: constructor(kind) for kind in VALUES})
REPLACED.update({np.vectorize: vectorize, np.ndenumerate: ndenumerate, np.nditer: nditer, np.broadcast: broadcast})
REPLACED.update({t.outside: t for t in vars(types).values() if isinstance(t, types.ScalarType)})
JOINERS.update({type(np.r_): r_, type(np.c_): c_})

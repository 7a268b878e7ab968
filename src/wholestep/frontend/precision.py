"""autocast: a function computed in another precision, but for operations that would lose by it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal, ParamSpec, TypeVar

from wholestep import dtypes
from wholestep.boundary.public import boundary
from wholestep.errors import ParameterError
from wholestep.frontend.assignments import with_assigned, without_assigned
from wholestep.frontend.custom import composite
from wholestep.frontend.printing import with_said, without_said
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.stated_rules import body_graph, name_of
from wholestep.frontend.tracing import Arguments, check_function, scope
from wholestep.ir.build import inline
from wholestep.transforms.autocast import FULL, HALVES, autocast as recast

P = ParamSpec("P")
R = TypeVar("R")
AUTOCAST = (*HALVES, FULL)


def autocast(f: Callable[P, R], dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16") -> Callable[P, R]:
    """f with its contractions and convolutions in a half precision, and precision-sensitive operations in float32.

    Only float32 arrays take part: contractions are done on them rounded to `dtype`, with sums in float32; exponentials,
    logarithms, powers, sums and their kin in float32; the rest follows its operands, the widest where they differ.
    Arrays of other dtypes, those that f casts among them, keep them. Arguments and results of f keep their
    dtypes, so gradients of float32 arrays are float32. With "float32" f is left alone by an `autocast` around it.
    The table of all operations is in docs/precision.md.

    Where f decides by `if` on a value, it decides by the value in float32.

    Shapes: those of f, dtypes too: arguments and results keep their own.
    Raises: ParameterError for another `dtype`, and the exceptions of f.

    >>> import numpy as np, wholestep as ws
    >>> f = ws.autocast(lambda x, w: x @ w)
    >>> x = np.full((1, 2), 1.001, np.float32)
    >>> f(x, np.ones((2, 1), np.float32))
    array([[2.]], dtype=float32)
    """
    check_function(f, "autocast")
    if dtype not in AUTOCAST:
        raise ParameterError(f"autocast: dtype is {dtype!r}; it is one of {', '.join(map(repr, AUTOCAST))}")
    if dtype == FULL:
        return composite(f, name=FULL)

    @boundary
    @functools.wraps(f)
    def autocasted(*args: P.args, **kwargs: P.kwargs) -> R:
        with scope("autocast") as work:
            call = Arguments((args, kwargs))
            inside = with_said(with_assigned(ordinary(f), (args, kwargs)))
            traced = body_graph(call, inside, name_of(f))
            outs = inline(recast(traced.graph, dtypes.check(dtype)), [*call.values, *traced.captured])
            left = work.leave(without_said(traced.arrays(outs)))
        made: R = without_assigned(left)
        return made

    return autocasted

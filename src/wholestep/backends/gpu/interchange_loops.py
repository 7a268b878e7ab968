"""Loop interchange: an ordered loop around an independent one becomes the inner loop, which each work item runs.

for i in 6 ordered: for j in 64: table[64*at[i] + j] += rows[64*i + j]
-->
for j in 64: for i in 6 ordered: table[64*at[i] + j] += rows[64*i + j]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wholestep.kernel.lang import Kernel, Loop, Statement, Var
from wholestep.kernel.verify import is_verified


def interchange_loops(kernel: Kernel) -> Kernel:
    """The kernel with an independent loop outermost, where it has none and the verifier accepts it; else unchanged."""
    *before, outer = kernel.body
    if kernel.scratch or not isinstance(outer, Loop) or not outer.ordered or not are_all_values(before):
        return kernel
    found = innermost_of_nest(outer)
    if found is None or found.ordered or found.guard is not None:
        return kernel
    made = replace(kernel, body=(*before, Loop(found.axis, (nest_without(outer, found),))))
    return made if is_verified(made) else kernel  # two columns might access one element


def innermost_of_nest(loop: Loop) -> Loop | None:
    """The first independent loop of a nest of ordered loops with only values beside them; None where there is none, or
    where a loop of the nest has folds or carried values."""
    while loop.ordered:
        *first, last = loop.body
        if loop.carries or loop.folds or not are_all_values(first) or not isinstance(last, Loop):
            return None
        loop = last
    return None if loop.carries or loop.folds else loop


def nest_without(loop: Loop, inner: Loop) -> Loop:
    """A nest of loops with the body of its innermost one in the place of that loop."""
    *first, last = loop.body
    rest = inner.body if last is inner else (nest_without(last, inner),) if isinstance(last, Loop) else (last,)
    return Loop(loop.axis, (*first, *rest), (), (), loop.ordered, loop.guard)


def are_all_values(body: Sequence[Statement]) -> bool:
    """Test whether statements only compute values."""
    return all(isinstance(s, Var) for s in body)

"""Loops over the layers of a stack, by the residuals that they keep for the backward pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import numpy as wnp, tree
from wholestep.errors import ParameterError
from wholestep.frontend.checkpoint import checked_policy, checkpoint
from wholestep.frontend.control import scan


def checked_keep(keep: Any) -> Any:
    """The mode of `keep`; raises ParameterError for an unknown mode."""
    if isinstance(keep, str) and keep in ("all", "inputs", "sqrt"):
        return keep
    if isinstance(keep, int | np.integer):
        if isinstance(keep, bool) or keep < 1:
            raise ParameterError(f"Stack: keep is {keep!r}; as a number it is 1 or more")
        return int(keep)
    if isinstance(keep, str) and keep == "streamed":
        raise ParameterError(
            "Stack: keep is 'streamed'; where a stack lies is said when its step is compiled",
            hint='say "inputs" here, and ws.compile(..., stream="blocks.*", folder=...) with the paths of its arrays',
        )
    try:
        return checked_policy(keep)
    except ParameterError as error:
        raise ParameterError(
            f"Stack: keep is {keep!r}", hint='"all", "inputs", "sqrt", an integer, or a policy of ws.checkpoint'
        ) from error


def looped(step: Callable[[Any, Any], Any], x: Any, rows: Any, n: int, keep: Any) -> Any:
    """One step after another along the first axis of `rows`: `(x, results)`, with the residuals that `keep` selects."""
    if keep == "all":
        return scan(step, x, rows, n)
    if keep == "inputs":
        return scan(checkpoint(step), x, rows, n)
    if keep == "sqrt" or isinstance(keep, int):
        return in_groups(checkpoint(step), x, rows, n, near_root(n) if keep == "sqrt" else keep)
    return scan(checkpoint(step, policy=keep), x, rows, n)


def in_groups(step: Callable[[Any, Any], Any], x: Any, rows: Any, n: int, k: int) -> Any:
    """The loop in groups of k steps, each of which keeps only its inputs; the last group may be shorter."""
    groups, rest = divmod(n, k)
    whole = groups * k

    def group(size: int) -> Callable[[Any, Any], Any]:
        return checkpoint(lambda x, rows: scan(step, x, rows, size))

    def folded(a: Any) -> Any:
        return a[:whole].reshape(groups, k, *a.shape[1:])

    if groups == 0:
        return group(n)(x, rows)
    x, results = scan(group(k), x, tree.map(folded, rows), groups)
    results = tree.map(lambda a: a.reshape(whole, *a.shape[2:]), results)
    if rest == 0:
        return x, results
    x, last = group(rest)(x, tree.map(lambda a: a[whole:], rows))
    return x, tree.map(lambda a, b: wnp.concatenate([a, b]), results, last)


def near_root(n: int) -> int:
    """A size of groups near the root of n: one that divides n, where there is one within a factor of two."""
    root = math.isqrt(n)
    divisors = [k for k in range(1, n + 1) if n % k == 0 and root / 2 <= k <= 2 * root]
    return min(divisors, key=lambda k: abs(k - root), default=root)

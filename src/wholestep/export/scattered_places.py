"""Places that scatters write to: threads of other libraries lose what they write to equal ones at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wholestep.ir.graph import Value
from wholestep.passes.rewrite import defining_node


def places_differ(index: Sequence[Value]) -> bool:
    """True if no two places are equal, as far as the program says so."""
    if all([n == 1 for n in index[0].shape]):
        return True
    known = [defining_node(v, "constant") for v in index]
    columns = [np.ravel(node.params["value"]) for node in known if node is not None]
    return len(columns) == len(index) and len(np.unique(columns, axis=1).T) == columns[0].size

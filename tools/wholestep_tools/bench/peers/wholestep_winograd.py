"""The workloads in Wholestep with `winograd=True`: convolutions of 3x3 windows by tiles."""

from __future__ import annotations

from functools import partial

from wholestep_tools.bench.peers import wholestep

VERSION = f"{wholestep.VERSION}, winograd"
job = partial(wholestep.job, winograd=True)

"""`ws.optim`: optimizers, each a pair of pure functions in plain NumPy, the same eagerly and inside a compiled step.

`init(params)` gives the initial state and `update(grads, state, params)` new parameters and a new state:

>>> import numpy as np, wholestep as ws
>>> optimizer, params = ws.optim.sgd(0.5), {"w": np.array([1.0, 2.0])}
>>> params, state = optimizer.update({"w": np.array([2.0, 2.0])}, optimizer.init(params), params)
>>> params["w"].tolist()
[0.0, 1.0]

Gradients may be changed on their way (`chain`), optimizers wrapped (`accumulate`, `ema`, `lookahead`, `plateau`) and
chosen for each parameter (`groups`). A learning rate is a number, or a function of how many updates there have been,
such as `warmup(cosine(1e-3, 1000), 100)`. An optimizer of your own is any object with these two methods; if it is a
dataclass, the fields that hold floats are its hyper-parameters, which a compiled step changes without compiling anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wholestep.lazy import names_of

if TYPE_CHECKING:
    from wholestep.optim.public import *  # noqa: F403  # the names of `__getattr__`, for type checkers

__getattr__, __dir__ = names_of("wholestep.optim")

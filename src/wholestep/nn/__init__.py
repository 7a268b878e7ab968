"""`ws.nn`: modules, layers and losses, all of them plain traced NumPy.

A module holds arrays and other modules as fields; a call is a method:

>>> import numpy as np, wholestep as ws
>>> model = ws.nn.Sequential(ws.nn.Linear(3, 4, key=0), ws.nn.relu, ws.nn.Linear(4, 1, key=1))
>>> model(np.ones((2, 3), np.float32)).shape
(2, 1)
>>> sorted(ws.nn.named_parameters(model))[0]
'layers[0].bias'

Losses, layers and activations are functions too (`ws.nn.cross_entropy`, `ws.nn.conv2d`, `ws.nn.gelu`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wholestep.lazy import names_of

if TYPE_CHECKING:
    from wholestep.nn.public import *  # noqa: F403  # the names that are resolved at run time, for type checkers

FILES, TORCH = "wholestep.train.checkpoint.models", "wholestep.train.checkpoint.torch_models"
ABOVE = {"load": FILES, "save": FILES, "from_torch": TORCH, "to_torch": TORCH}

__getattr__, __dir__ = names_of("wholestep.nn", ABOVE, ("init", "metrics", "models"))

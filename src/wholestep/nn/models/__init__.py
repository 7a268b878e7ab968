"""`ws.nn.models`: architectures whose weights others publish, with the names and the layouts of those weights.

>>> import wholestep as ws
>>> model = ws.nn.models.GPT2(vocabulary=50, places=16, width=8, heads=2, depth=1, key=0).eval()
>>> ws.nn.generate(model, [1, 2, 3], 4).shape
(7,)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wholestep.lazy import names_of

if TYPE_CHECKING:
    from wholestep.nn.models.public import *  # noqa: F403  # the names that are resolved at run time, for type checkers

FOLDERS = "wholestep.train.checkpoint.pretrained"

__getattr__, __dir__ = names_of("wholestep.nn.models", {"load_folder": FOLDERS, "save_folder": FOLDERS})

"""Large tables of which a batch reads a few rows, as models of clicks and recommendations have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep_tools.bench.draws import Arrays, labels, normal
from wholestep_tools.bench.real.losses import Regressor
from wholestep_tools.bench.real.operations import Operations


@dataclass(frozen=True)
class Clicks(Regressor):
    """Rows of several tables side by side, through a dense net of one hidden layer."""

    entries: int = 1_000_000
    width: int = 16
    tables: int = 4
    rows: int = 512
    hidden: int = 128

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple([f"table{i}" for i in range(self.tables)])

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """The tables, and the weights of the net."""
        across = self.tables * self.width
        params = {"w0": normal(rng, (across, self.hidden), across**-0.5), "b0": np.zeros(self.hidden, np.float32)}
        params["w1"] = normal(rng, (self.hidden, 1), self.hidden**-0.5)
        return params | {name: normal(rng, (self.entries, self.width)) for name in self.names}

    def batch(self, rng: np.random.Generator) -> Arrays:
        """An entry of each table for each row, and numbers to meet."""
        return {"x": labels(rng, self.entries, (self.rows, self.tables)), "y": normal(rng, (self.rows,))}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Numbers [rows]."""
        found = on.concatenate([on.embedding(p[name], x[:, i]) for i, name in enumerate(self.names)], 1)
        return (on.relu(found @ p["w0"] + p["b0"]) @ p["w1"])[:, 0]

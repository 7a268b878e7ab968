"""The losses of models of real size: surprise at labels, and squared differences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from wholestep_tools.bench.real.operations import Operations


class Forward(ABC):
    """A model that is run forward."""

    @abstractmethod
    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """The result for x."""


class Classifier(Forward):
    """A model that scores classes, or tokens."""

    def loss(self, on: Operations, p: Any, batch: Any) -> Any:
        """The mean surprise at the labels."""
        return on.cross_entropy(self.forward(on, p, batch["x"]), batch["y"])


class Regressor(Forward):
    """A model that meets numbers."""

    def loss(self, on: Operations, p: Any, batch: Any) -> Any:
        """The mean of squared differences."""
        differences = self.forward(on, p, batch["x"]) - batch["y"]
        return on.mean(differences**2, tuple(range(differences.ndim)))
